//! fio: writes blocks in random order, through the calls and through mappings, and looks whether what
//! it reads is what it wrote.

use super::stage::Stage;
use crate::common::{program, run};

/// Makes a filesystem of the folder `mount` in namespaces of its own, which take it along when they
/// end, and then runs a command.
const MOUNTED: &str = r#"
set -e
mkdir -p mount
if [ "$1" = tmpfs ]; then
    mount -t tmpfs -o size="$2"M none mount
else
    rm -f image
    truncate -s "$2"M image
    mkfs."$1" -q image
    mount -o loop image mount
fi
shift 2
library=$1
shift
LD_PRELOAD=$library exec "$@"
"#;

pub(crate) fn play(stage: &Stage, filesystem: &str) -> Option<()> {
    let fio = program(&["fio"])?;
    if !rustix::process::geteuid().is_root() || !is_known(filesystem) {
        return None;
    }
    stage.version(&fio, "--version");
    let mib = stage.sized(64, |mib| mib / 4);
    for engine in ["psync", "mmap"] {
        let name =
            if engine == "psync" { "write and verify" } else { "write and verify through mmap" };
        // The library is for fio alone, and not for what makes the filesystem.
        let mut command = stage.played("unshare");
        let library = command.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
        let library = library.and_then(|(_, value)| value).unwrap_or_default().to_owned();
        command.env_remove("LD_PRELOAD");
        command.args(["-m", "sh", "-c", MOUNTED, "sh", filesystem, &(mib + 512).to_string()]);
        command.arg(library).arg(&fio);
        command.args(["--name=blocks", "--directory=mount", "--rw=randwrite", "--bs=1m"]);
        command.args([
            "--verify=crc32c",
            "--verify_fatal=1",
            "--thread",
            "--minimal",
            "--mem=mmap",
        ]);
        command.arg(format!("--size={mib}m")).arg(format!("--ioengine={engine}"));
        command.arg(format!("--lockmem={}m", stage.sized(64, |mib| mib)));
        stage.warm_up();
        let output = stage.timed(name, || run(&mut command));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let fields: Vec<&str> = said.trim().split(';').collect();
        // Which format, errors, KiB read, KiB written.
        let kept = [0, 4, 5, 46].map(|at| fields.get(at).copied().unwrap_or("none"));
        stage.say(engine, kept.join(" "));
    }
    stage.say("complaints", stage.complaints());
    Some(())
}

/// Whether the kernel has it, and what makes it is there.
fn is_known(filesystem: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let known = known.lines().any(|line| line.split_whitespace().last() == Some(filesystem));
    known && (filesystem == "tmpfs" || program(&[&format!("mkfs.{filesystem}")]).is_some())
}
