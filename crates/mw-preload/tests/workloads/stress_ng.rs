//! The memory stressors of stress-ng, which verify what they wrote.

use super::harness::Harness;
use crate::common::{program, text};

/// The stressors, with the option for their size if there is one. Their processes end by `_exit`, so that
/// the library does not report.
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

pub(crate) fn run_workload(harness: &Harness) -> Option<()> {
    let stress = program(&["stress-ng"])?;
    harness.version(&stress, "--version");
    let bytes = format!("{}m", harness.scaled(64, |mib| mib / 8));
    // Most finish their operations before.
    let seconds = harness.scaled(2, |_| 4).to_string();
    let operations = harness.scaled(4, |_| 16).to_string();
    harness.touch_memory();
    harness.time("all of them", || {
        for (name, size) in STRESSORS {
            let mut command = harness.command(&stress);
            command.args([&format!("--{name}"), "1", &format!("--{name}-ops"), &operations]);
            if let Some(size) = size {
                command.args([&format!("--{size}"), &bytes]);
            }
            let output = command.args(["--verify", "-t", &seconds]).output().unwrap();
            let code = output.status;
            let printed = text(output);
            let wrong = printed.lines().filter(|line| line.contains("fail")).count();
            harness.record(name, format!("{code}, {wrong} failures"));
        }
    });
    let errors = harness.errors();
    let wrong = errors.lines().filter(|line| line.contains("fail:")).count();
    harness.record("failures", wrong);
    Some(())
}
