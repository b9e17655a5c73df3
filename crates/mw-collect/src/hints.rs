//! What a failed look means, and what would make it work.

use crate::masked;
use mw_model::{Missing, OriginKind};
use rustix::io::Errno;

/// Files that only some kernels, boots or users have: what their absence means.
const HINTS: &[(&str, &str)] = &[
    (
        "/proc/pressure",
        "no pressure stall information: it needs kernel 4.20, CONFIG_PSI, and psi=1 on the boot \
         line where it is off by default",
    ),
    ("/sys/kernel/mm/transparent_hugepage", "this kernel is built without transparent huge pages"),
    ("/sys/kernel/mm/hugepages", "this kernel is built without hugetlb pages"),
    ("/sys/devices/system/node", "this kernel is built without NUMA"),
    ("/proc/swaps", "this kernel is built without swap"),
    ("/proc/sysvipc", "this kernel is built without System V IPC"),
    ("/sys/kernel/debug", "debugfs is not mounted: mount -t debugfs none /sys/kernel/debug"),
    ("/proc/buddyinfo", "readable by root alone on hardened kernels"),
];

/// The reason that a file of the running machine cannot be seen, where another mount hides it.
fn masked_in(path: &str, kind: OriginKind) -> Option<String> {
    if kind == OriginKind::Live { masked::why(path) } else { None }
}

/// A file that was found but is not the kernel's, or is empty.
pub(crate) fn not_there(missing: Missing, kind: OriginKind) -> Missing {
    match masked_in(&missing.what, kind) {
        Some(why) => Missing::masked(missing.what, why),
        None => missing,
    }
}

/// Turns an error of open or read into the way in which the file is missing.
pub(crate) fn missing(path: &str, errno: Errno, kind: OriginKind) -> Missing {
    if let Some(why) = masked_in(path, kind) {
        return Missing::masked(path, why);
    }
    let hint = HINTS.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, hint)| *hint);
    match (errno, kind) {
        (Errno::NOENT | Errno::NOTDIR, OriginKind::Tree) => {
            Missing::absent(path, "not in this tree")
        }
        (Errno::NOENT | Errno::NOTDIR | Errno::OPNOTSUPP, OriginKind::Live) => {
            Missing::absent(path, hint.unwrap_or("this kernel has no such file"))
        }
        (Errno::ACCESS | Errno::PERM, OriginKind::Live) => {
            Missing::skipped(path, "not permitted: run as root (sudo memwright ...)")
        }
        (Errno::LOOP, _) => Missing::failed(path, "a link that leads to itself"),
        (Errno::NOSYS, OriginKind::Tree) => Missing::failed(
            path,
            "looking at a tree safely needs openat2: run on kernel 5.6 or later",
        ),
        (errno, _) => Missing::failed(path, errno.to_string()),
    }
}
