//! What the tests and benches of several crates have in common. A test that cannot run here returns
//! [`skip`]`("no memory cgroup: …")` or starts with [`is_root`]; one that is long chooses its size by
//! [`rounds`]. Changes of the machine take turns ([`alone`]) and are reverted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod built;
mod cgroup;
mod duckdb;
mod fixtures;
mod folio_switches;
mod fragmented;
mod fuzz;
mod http;
mod huge_pages;
mod hung;
pub mod measure;
mod rounds;
mod schema;
mod skip;
mod spoken;
pub mod sqlite_pages;
pub mod stamp;
mod wait;

pub use built::{BUILT_DIR, built};
pub use cgroup::TestCgroup;
pub use duckdb::python_with_duckdb;
pub use fixtures::{fixture, fixtures};
pub use folio_switches::FolioSwitchGuard;
pub use fragmented::{FragmentedMemory, compactions, free_mib};
pub use fuzz::{FuzzLimits, Random, fuzz, peak_bytes};
pub use http::{read_request, read_request_bytes};
pub use huge_pages::{HugePages, huge_pages_alone};
pub use hung::{FILE as HUNG_FILE, HungMount, own_mounts};
pub use rounds::{FULL, full, is_full_run, rounds};
pub use schema::assert_schema;
pub use skip::{SKIPPED_FILE, is_root, skip};
pub use spoken::{ChildGuard, LoggedChild};
pub use wait::{exit_within, wait_for, wait_until};

use rustix::fs::{FlockOperation, flock};
use std::fs::File;

/// Compacts free memory, which is fragmented after hours of builds and tests: `check` would report that of this
/// machine. Nothing happens without root.
pub fn compact_memory() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| drop(std::fs::write("/proc/sys/vm/compact_memory", "1")));
}

/// Whoever changes the machine, or looks at what all programs hold together, takes turns: with the tests
/// of other crates too, for as long as this lives.
///
/// # Panics
/// Where /proc/sys/vm cannot be locked, which every user may.
#[must_use]
pub fn alone() -> File {
    let lock = File::open("/proc/sys/vm").unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}
