//! Which test programs a run has, how many of them at once, and in which order.

use super::TestTarget;
use crate::share::{CommitShare, SHARES};
use std::collections::BTreeSet;

/// Test programs that measure time or watch the whole machine: two run at once, so that each has a CPU;
/// the longest first.
const PAIRED: &[&str] = &[
    "mw-segment faults",
    "mw-watch calm_again",
    "mw-watch sampling",
    "mw-watch crowd",
    "mw-cli watch",
    "mw-cli metrics",
    "mw-cli notify",
    "mw-cli fix",
    "mw-cli why",
    "mw-cli masked",
    "mw-probe pressure",
    "mw-probe canary",
    "mw-probe canary_stall",
    "mw-pool crowd",
    "mw-pool unproven",
];

/// Test programs that measure milliseconds; nothing else runs meanwhile.
const ALONE: &[&str] = &["mw-collect", "mw-profile cost"];

/// The longest test programs, which start first so that none runs on at the end by itself.
const FIRST: &[&str] = &[
    "mw-cli lab_command",
    "mw-preload services",
    "mw-cli endings",
    "mw-preload programs",
    "mw-preload uncached",
    "mw-cli namespaces",
    "mw-unwind programs",
    "mw-watch leak",
    "mw-cli slurm",
    "mw-remedy journal",
    "mw-watch oom",
    "mw-capi c_programs",
    "mw-cli available",
    "mw-cli make_room",
    "mw-cli bench",
    "mw-capi python",
    "mw-preload confined",
    "mw-render html",
    "mw-cli account",
    "mw-cli ship",
    "mw-preload sanitizers",
    "mw-record bounded",
    "mw-watch retention",
    "mw-cli limits",
    "mw-cli hung",
    "mw-rules trend",
    "mw-preload background",
    "mw-segment limits",
    "mw-record power_loss",
];

/// Test programs that start real services and guests in numbers and use 20 to 95 s of CPU time, and the longest that measure.
const SHARED: [&[&str]; SHARES] = [
    &["mw-preload services", "mw-preload confined", "mw-watch crowd"],
    &["mw-cli lab_command", "mw-preload uncached", "mw-preload sanitizers", "mw-watch sampling"],
    &[
        "mw-cli endings",
        "mw-preload programs",
        "mw-unwind programs",
        "mw-watch calm_again",
        "mw-segment faults",
    ],
];

/// Test programs by how many may run at once.
#[derive(Debug)]
pub(crate) struct TestGroups {
    pub(super) beside: Vec<TestTarget>,
    pub(super) paired: Vec<TestTarget>,
    pub(super) alone: Vec<TestTarget>,
}

impl TestGroups {
    pub(crate) fn of(mut targets: Vec<TestTarget>, share: CommitShare) -> Self {
        targets.retain(|target| !left_out(share).any(|name| name == target.name));
        let is_in =
            |list: &'static [&str]| move |target: &TestTarget| list.contains(&target.name.as_str());
        let (alone, others): (Vec<_>, Vec<_>) = targets.into_iter().partition(is_in(ALONE));
        let (mut paired, mut beside): (Vec<_>, Vec<_>) =
            others.into_iter().partition(is_in(PAIRED));
        let by_place = |list: &'static [&str]| {
            move |target: &TestTarget| {
                list.iter().position(|name| *name == target.name).unwrap_or(list.len())
            }
        };
        beside.sort_by_key(by_place(FIRST));
        paired.sort_by_key(by_place(PAIRED));
        Self { beside, paired, alone }
    }
}

/// Test programs that belong to the shares of other commits.
pub(crate) fn left_out(share: CommitShare) -> impl Iterator<Item = &'static str> {
    let (_, others) = share.divide(&SHARED);
    others.into_iter().flat_map(|names| names.iter().copied())
}

/// Fails where a list names a test program that is not among all of them.
pub(super) fn verify_names(all: &[TestTarget]) -> anyhow::Result<()> {
    let known: BTreeSet<&str> = all.iter().map(|target| target.name.as_str()).collect();
    let listed = [PAIRED, ALONE, FIRST].into_iter().chain(SHARED).flatten();
    let unknown: Vec<&str> = listed.copied().filter(|name| !known.contains(name)).collect();
    anyhow::ensure!(
        unknown.is_empty(),
        "no test programs, but listed in xtask/src/tests/order.rs: {}",
        unknown.join(", ")
    );
    Ok(())
}
