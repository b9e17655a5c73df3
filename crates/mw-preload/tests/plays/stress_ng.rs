//! stress-ng's stressors of memory, which look at what they wrote.

use super::stage::Stage;
use crate::common::{program, text};

/// Their processes end without a word of the library's.
///
/// Each with the option that says how large it is, where it has one.
const STRESSORS: [(&str, Option<&str>); 21] = [
    ("vm", Some("vm-bytes")),
    ("shm", Some("shm-bytes")),
    ("shm-sysv", Some("shm-sysv-bytes")),
    ("mmap", Some("mmap-bytes")),
    ("mmapaddr", None),
    ("mmapfixed", None),
    ("mmaphuge", None),
    ("mmapmany", None),
    ("munmap", None),
    ("mlock", None),
    ("mremap", Some("mremap-bytes")),
    ("madvise", None),
    ("memfd", Some("memfd-bytes")),
    ("mincore", None),
    ("mprotect", None),
    ("msync", Some("msync-bytes")),
    ("brk", None),
    ("malloc", Some("malloc-bytes")),
    ("memthrash", None),
    ("fork", None),
    ("vfork", None),
];

pub(crate) fn play(stage: &Stage) -> Option<()> {
    let stress = program(&["stress-ng"])?;
    stage.version(&stress, "--version");
    let bytes = format!("{}m", stage.sized(64, |mib| mib / 8));
    // Most have done their operations before.
    let seconds = stage.sized(2, |_| 4).to_string();
    let operations = stage.sized(4, |_| 16).to_string();
    stage.warm_up();
    stage.timed("all of them", || {
        for (name, size) in STRESSORS {
            let mut command = stage.played(&stress);
            command.args([&format!("--{name}"), "1", &format!("--{name}-ops"), &operations]);
            if let Some(size) = size {
                command.args([&format!("--{size}"), &bytes]);
            }
            let output = command.args(["--verify", "-t", &seconds]).output().unwrap();
            let code = output.status;
            let said = text(output);
            let wrong = said.lines().filter(|line| line.contains("fail")).count();
            stage.say(name, format!("{code}, {wrong} failures"));
        }
    });
    let complaints = stage.complaints();
    let wrong = complaints.lines().filter(|line| line.contains("fail:")).count();
    stage.say("failures", wrong);
    Some(())
}
