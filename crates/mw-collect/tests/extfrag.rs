//! Fragmentation as we compute it from buddyinfo against the kernel's own extfrag files, on every
//! captured tree that has them and on the running machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::{Source, input};
use mw_model::{Snapshot, fragmentation};
use mw_proc::extfrag::Extfrag;
use std::process::Command;

/// Thousandths by which the two may differ: the files are read one after the other.
const TOLERANCE_MILLI: i32 = 10;

/// Compares all zones and orders of one look; how many indices were compared, how many differ.
fn compare(
    snapshot: &Snapshot,
    own: &Extfrag,
    ours: impl Fn(usize, usize) -> i32,
) -> (usize, usize) {
    let buddyinfo = snapshot.sample.buddyinfo.value().unwrap();
    let (mut compared, mut different) = (0, 0);
    for (at, zone) in buddyinfo.zones.iter().enumerate() {
        let Some(own) = own.zones.iter().find(|o| o.node == zone.node && o.name == zone.name)
        else {
            continue;
        };
        for (order, milli) in own.values().iter().enumerate() {
            compared += 1;
            different += usize::from((milli - ours(at, order)).abs() > TOLERANCE_MILLI);
        }
    }
    (compared, different)
}

fn extfrag(source: &Source, file: &str) -> Option<Extfrag> {
    let bytes = source.read(file).ok()?;
    let mut extfrag = Extfrag::default();
    extfrag.parse_into(&bytes).unwrap();
    Some(extfrag)
}

/// All zones of one source; how many indices were compared, how many differ.
fn compare_source(source: &Source, debugfs: &str) -> (usize, usize) {
    let snapshot = mw_collect::snapshot(source);
    let zones = &snapshot.sample.buddyinfo.value().unwrap().zones;
    let Some(own) = extfrag(source, &format!("{debugfs}/extfrag/unusable_index")) else {
        return (0, 0);
    };
    let ours = |at: usize, order: usize| {
        i32::try_from(fragmentation::unusable_milli(&zones[at], order)).unwrap()
    };
    compare(&snapshot, &own, ours)
}

/// Promise (Checking): The index of unusable free memory equals the kernel's own.
#[test]
fn our_index_is_the_kernels_own_on_every_captured_tree() {
    let (mut compared, mut different) = (0, 0);
    for fixture in mw_test::fixtures() {
        let source = input::open(&mw_test::fixture(&fixture)).unwrap();
        let (more, odd) = compare_source(&source, "/sys/kernel/debug");
        compared += more;
        different += odd;
    }
    println!("{compared} indices compared, {different} differ");
    assert!(compared > 1000, "{compared}");
    // A machine under load changes between the two readings.
    assert!(different * 20 <= compared, "{different} of {compared} differ");
}

/// debugfs, mounted for the test and unmounted when dropped.
struct Debugfs(tempfile::TempDir);

impl Debugfs {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "debugfs", "none"])
            .arg(dir.path())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(Self(dir))
    }
}

impl Drop for Debugfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn our_index_is_the_kernels_own_on_this_machine() {
    let Some(debugfs) = Debugfs::mount() else {
        return mw_test::skip("debugfs cannot be mounted");
    };
    let source = Source::live().unwrap();
    let path = debugfs.0.path().to_str().unwrap();
    let least = (0..5)
        .map(|_| compare_source(&source, path))
        .min_by_key(|(_, different)| *different)
        .unwrap();
    println!("{} indices compared, {} differ", least.0, least.1);
    assert!(least.0 > 0 && least.1 * 10 <= least.0, "{least:?}");
}
