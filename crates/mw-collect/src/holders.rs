//! Who holds memory: what takes longer to find than a snapshot may take.

use crate::collector::cgroup;
use crate::held_files;
use crate::source::Source;
use mw_model::{Holders, Missing, OriginKind, Snapshot};
use mw_proc::sockstat::Sockstat;

/// Finds who holds memory. On a machine with many open files it takes up to 100 ms; of a captured tree the
/// open files are not known.
pub fn holders(source: &Source, snapshot: &Snapshot) -> Holders {
    let files = match source.kind() {
        OriginKind::Live => held_files::collect(source, snapshot),
        OriginKind::Tree => {
            let why = "which files were in the page cache is not known of a captured tree";
            Err(Missing::absent("/proc/PID/fd", why))
        }
    };
    Holders {
        groups: cgroup::memories(source).into(),
        files: files.into(),
        sockets: source.reading("/proc/net/sockstat", Sockstat::parse),
    }
}
