//! fio: writes blocks in random order, by system calls and by mappings, and verifies what it reads.

use super::harness::Harness;
use crate::common::{program, run};

/// Creates a filesystem in the directory `mount`, in a mount namespace that ends with it, and runs a
/// command.
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

pub(crate) fn run_workload(harness: &Harness, filesystem: &str) -> Option<()> {
    let fio = program(&["fio"])?;
    if !rustix::process::geteuid().is_root() || !is_supported(filesystem) {
        return None;
    }
    harness.version(&fio, "--version");
    let mib = harness.scaled(64, |mib| mib / 4);
    for engine in ["psync", "mmap"] {
        let name =
            if engine == "psync" { "write and verify" } else { "write and verify through mmap" };
        // Only fio runs with the library, not the programs that create the filesystem.
        let mut command = harness.command("unshare");
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
        command.arg(format!("--lockmem={}m", harness.scaled(64, |mib| mib)));
        harness.touch_memory();
        let output = harness.time(name, || run(&mut command));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let fields: Vec<&str> = printed.trim().split(';').collect();
        // The version of the format, errors, KiB read, KiB written.
        let selected = [0, 4, 5, 46].map(|at| fields.get(at).copied().unwrap_or("none"));
        harness.record(engine, selected.join(" "));
    }
    harness.record("errors", harness.errors());
    Some(())
}

/// True if the kernel supports it, and mkfs is installed.
fn is_supported(filesystem: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let known = known.lines().any(|line| line.split_whitespace().last() == Some(filesystem));
    known && (filesystem == "tmpfs" || program(&[&format!("mkfs.{filesystem}")]).is_some())
}
