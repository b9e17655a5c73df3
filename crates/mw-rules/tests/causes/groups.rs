//! Which cgroup a cause names, of the service's own and those above it.

use crate::made::Made;
use crate::paths::{GROUP, explained, group, link, made, task, with_group};
use mw_critical_path::{CpuHolder, PathTask, TimeKind, Wait};
use mw_model::{GroupIo, GroupUse, Subject};

const SLICE: &str = "/system.slice";

fn slice() -> GroupUse {
    GroupUse { path: SLICE.to_owned(), memory_max_bytes: None, ..group() }
}

/// The cgroup that the first cause names, with the cause's rule.
fn named(made: &Made) -> (String, Option<String>) {
    let explanation = explained(made);
    let cause = explanation.causes.first().unwrap();
    let group = match &cause.finding.subject {
        Subject::Cgroup(path) => path.clone(),
        _ => None,
    };
    (cause.finding.rule.clone(), group)
}

fn is(rule: &str, group: &str) -> (String, Option<String>) {
    (rule.to_owned(), Some(group.to_owned()))
}

/// A refault counts in every group above that of the page.
#[test]
fn a_working_set_that_does_not_fit_is_that_of_the_group_whose_limit_was_met() {
    let thrash = |own: GroupUse, above: GroupUse| {
        let io =
            || vec![GroupIo { device: "sda".to_owned(), read_bytes: 400 << 20, written_bytes: 0 }];
        let made = made(&[(TimeKind::Waiting(Wait::FileRead), 95)]);
        let made = with_group(made, GroupUse { refaults_file: Some(91_000), io: io(), ..above });
        with_group(made, GroupUse { refaults_file: Some(90_000), io: io(), ..own })
    };
    let met = |group: GroupUse| GroupUse { max_events: Some(900), ..group };
    assert_eq!(named(&thrash(met(group()), slice())), is("working-set-thrash", GROUP));
    assert_eq!(named(&thrash(group(), met(slice()))), is("working-set-thrash", SLICE));
    assert_eq!(named(&thrash(group(), slice())), is("working-set-thrash", GROUP), "it has a limit");
}

#[test]
fn a_group_is_throttled_by_the_limit_that_it_exceeded() {
    let over = |group: GroupUse| GroupUse { high_events: Some(300), ..group };
    let calm = |group: GroupUse| GroupUse { high_events: Some(0), ..group };
    let waits = || made(&[(TimeKind::Waiting(Wait::MemoryHigh), 90)]);
    let of_own = with_group(with_group(waits(), calm(slice())), over(group()));
    assert_eq!(named(&of_own), is("cgroup-throttled", GROUP));
    let of_slice = with_group(with_group(waits(), over(slice())), calm(group()));
    assert_eq!(named(&of_slice), is("cgroup-throttled", SLICE));
    // A task at memory.max comes through the same code.
    let of_none = explained(&with_group(with_group(waits(), calm(slice())), calm(group())));
    let rules: Vec<&str> = of_none.causes.iter().map(|cause| &*cause.finding.rule).collect();
    assert!(!rules.contains(&"cgroup-throttled"), "{rules:?}");
    // On a kernel that does not count it.
    let uncounted = explained(&with_group(waits(), GroupUse { high_events: None, ..group() }));
    assert_eq!(uncounted.causes[0].finding.rule, "cgroup-throttled");
}

/// The groups below a frozen one are frozen, too.
#[test]
fn the_group_that_was_frozen_is_named() {
    let sleeps = || made(&[(TimeKind::Waiting(Wait::Sleep), 97)]);
    let frozen = |group: GroupUse| GroupUse { frozen: true, ..group };
    let both = with_group(with_group(sleeps(), frozen(group())), frozen(slice()));
    let verdict = explained(&both).verdict;
    assert!(verdict.ends_with("cgroup /system.slice was frozen"), "{verdict}");
    let own = with_group(with_group(sleeps(), frozen(group())), slice());
    let verdict = explained(&own).verdict;
    assert!(verdict.ends_with("db.service was frozen"), "{verdict}");
}

/// Nobody says which service a command asks; its wait ended with the wake-up by who thawed it.
#[test]
fn a_frozen_service_that_is_not_known_is_on_the_path() {
    let named = |wait| {
        let mut made = made(&[(TimeKind::TimedOut(Wait::Unknown), 97)]);
        let path = made.incident.path.as_mut().unwrap();
        let server = PathTask { cgroup: Some(GROUP.to_owned()), ..task(209, "redis-server") };
        path.chain =
            vec![link(&path.task, Wait::Socket, &server), link(&server, wait, &task(1, "sh"))];
        path.parts[0].task = PathTask { cgroup: Some("/".to_owned()), ..task(598, "sleep") };
        let frozen = GroupUse { frozen: true, of_service: false, ..group() };
        explained(&with_group(made, frozen)).verdict
    };
    assert!(named(Wait::Unknown).ends_with("db.service was frozen"), "{}", named(Wait::Unknown));
    assert!(!named(Wait::Futex).ends_with("was frozen"), "{}", named(Wait::Futex));
}

/// Who lowers a limit reclaims for it, and so do the tasks of a group for its limit; another group's limit only takes
/// CPU time.
#[test]
fn who_reclaims_for_a_limit_on_the_cpu_is_the_limits_work() {
    let share = |holder_group: &str, groups: &[GroupUse]| {
        let waits = (TimeKind::Runnable(CpuHolder::CgroupReclaimer(1)), 40);
        let mut made = made(&[waits, (TimeKind::Waiting(Wait::MemoryHigh), 50)]);
        for part in made.incident.path.iter_mut().flat_map(|path| &mut path.parts) {
            part.holder = Some(PathTask { cgroup: Some(holder_group.to_owned()), ..task(1, "sh") });
        }
        made.incident.groups = groups.to_vec();
        let explanation = explained(&made);
        let cause =
            explanation.causes.iter().find(|cause| cause.finding.rule == "cgroup-throttled");
        cause.and_then(|cause| cause.explains_percent)
    };
    let over = GroupUse { high_events: Some(300), ..group() };
    let batch = GroupUse { path: "/batch".to_owned(), of_service: false, ..over.clone() };
    assert_eq!(share("/", std::slice::from_ref(&over)), Some(90));
    assert_eq!(share(GROUP, &[over.clone(), batch.clone()]), Some(90));
    assert_eq!(share("/batch", &[over, batch]), Some(50));
}

/// Pages that a cgroup swaps in count as read, too.
#[test]
fn reads_of_reclaimed_pages_are_told_from_swap_ins() {
    let swapped_in: u64 = 3600;
    let first = |refaults_file: u64, read_pages: u64| {
        let io = |device: &str, pages: u64| GroupIo {
            device: device.to_owned(),
            read_bytes: pages * 4096,
            written_bytes: 0,
        };
        let use_of = GroupUse {
            high_events: Some(100),
            refaults_file: Some(refaults_file),
            refaults_anon: Some(swapped_in),
            io: vec![io("swap", swapped_in), io("sda", read_pages)],
            ..group()
        };
        let made = made(&[
            (TimeKind::Waiting(Wait::FileRead), 60),
            (TimeKind::Waiting(Wait::MemoryHigh), 30),
        ]);
        named(&with_group(made, use_of)).0
    };
    assert_eq!(first(590, 600), "cgroup-throttled");
    assert_eq!(first(70, 600), "slow-disk");
}
