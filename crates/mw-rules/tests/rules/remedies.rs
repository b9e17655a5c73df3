//! A remedy that cannot help is not proposed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{Disk, Finding, Reading, Remedy, Step, Window};
use mw_proc::vmstat::Counter;

fn firing(rule: &str) -> Window {
    let archive = mw_test::fixture(&format!("{rule}/firing"));
    mw_collect::window(&input::open(&archive).unwrap())
}

fn remedy(window: &Window, rule: &str) -> Remedy {
    let findings = mw_rules::check(window, None).findings;
    findings.into_iter().find(|finding| finding.rule == rule).unwrap().remedy.unwrap()
}

/// The machine has so much available.
fn leave(window: &mut Window, bytes: u64) {
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    // What is available is part of the whole.
    meminfo.mem_total_bytes = meminfo.mem_total_bytes.max(Some(bytes));
    meminfo.mem_free_bytes = Some(bytes);
    meminfo.mem_available_bytes = Some(bytes);
}

#[test]
fn a_filesystem_is_not_enlarged_beyond_memory() {
    let enlarges = |remedy: &Remedy| {
        let remounts =
            |step: &Step| matches!(step, Step::Manual { command } if command.contains("remount"));
        remedy.steps.iter().any(remounts)
    };
    let mut window = firing("tmpfs-full");
    leave(&mut window, 1 << 40);
    assert!(enlarges(&remedy(&window, "tmpfs-full")));
    leave(&mut window, 1 << 20);
    let remedy = remedy(&window, "tmpfs-full");
    assert!(!enlarges(&remedy), "{remedy:?}");
    assert!(remedy.summary.contains("too little memory"), "{}", remedy.summary);
}

#[test]
fn huge_pages_beyond_memory_are_not_asked_for_again() {
    let mut window = firing("hugepage-shortage");
    let Reading::Value(wanted) = &mut window.now.hugepages_wanted else { panic!("wanted") };
    let asked = wanted.last_mut().unwrap();
    asked.source = "/etc/sysctl.d/10-db.conf".to_owned();
    leave(&mut window, 1 << 40);
    assert!(remedy(&window, "hugepage-shortage").is_ours());
    leave(&mut window, 1 << 20);
    let remedy = remedy(&window, "hugepage-shortage");
    assert!(!remedy.is_ours(), "fix would drive everything else out of memory: {remedy:?}");
}

fn finding(window: &Window, rule: &str) -> Option<Finding> {
    mw_rules::check(window, None).findings.into_iter().find(|finding| finding.rule == rule)
}

fn count(window: &mut Window, counter: Counter, value: u64) {
    let Reading::Value(vmstat) = &mut window.now.sample.vmstat else { panic!("vmstat") };
    vmstat.set(counter, Some(value));
}

fn disk(window: &mut Window) -> &mut Disk {
    let Reading::Value(disks) = &mut window.now.disks else { panic!("disks") };
    let is_measured =
        |disk: &&mut Disk| disk.bdi.is_some_and(|bdi| bdi.written_bytes > Some(256 << 20));
    disks.iter_mut().find(is_measured).unwrap()
}

/// A machine whose device is slow and whose dirty limit is a hundredth of what can hold page cache.
fn slow_device(written: u64) -> Window {
    let mut window = firing("dirty-limit-too-high");
    let Reading::Value(disks) = &mut window.now.disks else { panic!("disks") };
    let bdi = disks[0].bdi.get_or_insert_default();
    bdi.written_bytes = Some(written);
    bdi.write_bandwidth_bytes_per_s = Some(2 << 20);
    window
}

/// Without `strict_limit` the kernel throttles nobody before half of both limits is dirty on the machine.
#[test]
fn a_share_without_a_strict_limit_limits_no_device() {
    let is_slow = |max_ratio, strict| {
        let mut window = slow_device(1 << 30);
        (disk(&mut window).max_ratio, disk(&mut window).strict_limit) = (Some(max_ratio), strict);
        let evidence = finding(&window, "dirty-limit-too-high").unwrap().evidence;
        evidence.iter().any(|evidence| evidence.what.starts_with("write speed"))
    };
    assert!(is_slow(100, Some(true)) && is_slow(100, None));
    assert!(is_slow(1, None) && is_slow(1, Some(false)), "up to the free run it may have all");
    assert!(!is_slow(1, Some(true)));
}

/// Half a minute of a slow device is less than the smallest ratio of a large machine.
#[test]
fn what_a_ratio_cannot_express_is_set_in_bytes() {
    let mut window = slow_device(1 << 30);
    count(&mut window, Counter::NrFreePages, 64 << 20);
    let summary = remedy(&window, "dirty-limit-too-high").summary;
    assert_eq!(summary, "set vm.dirty_bytes to 62914560 and vm.dirty_background_bytes to 31457280");
    disk(&mut window).max_ratio_fine = Some(1_000_000);
    let remedy = remedy(&window, "dirty-limit-too-high");
    let is_strict =
        |step: &Step| matches!(step, Step::Write { path, .. } if path.ends_with("/strict_limit"));
    assert!(is_strict(&remedy.steps[0]) && remedy.is_ours(), "{remedy:?}");
}

#[test]
fn a_slow_device_is_limited_only_where_the_kernel_can() {
    let mut window = firing("dirty-throttle");
    let Reading::Value(disks) = &mut window.now.disks else { panic!("disks") };
    disks[0].bdi.get_or_insert_default().reclaimable_bytes = Some(1 << 40);
    disks[0].max_ratio = Some(100);
    disks[0].max_ratio_fine = None;
    assert!(!format!("{:?}", remedy(&window, "dirty-throttle")).contains("max_ratio"));
    let Reading::Value(disks) = &mut window.now.disks else { panic!("disks") };
    disks[0].max_ratio_fine = Some(1_000_000);
    let steps = format!("{:?}", remedy(&window, "dirty-throttle").steps);
    assert!(steps.contains("strict_limit") && steps.contains("max_ratio_fine"), "{steps}");
}

/// Promise (Checking): Anonymous memory of a group is reclaimable while swap and the group's limits have room for it.
#[test]
fn memory_that_can_be_swapped_out_does_not_fill_a_limit() {
    let fires = |swap_free: u64, change: &dyn Fn(&mut mw_model::Cgroup)| {
        let mut window = firing("cgroup-limit");
        let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
        meminfo.swap_free_bytes = Some(swap_free);
        let Reading::Value(cgroups) = &mut window.now.cgroups else { panic!("cgroups") };
        cgroups.own.iter_mut().chain(&mut cgroups.limited).for_each(change);
        finding(&window, "cgroup-limit").is_some()
    };
    assert!(fires(0, &|_| {}));
    assert!(!fires(1 << 30, &|_| {}));
    assert!(fires(1 << 30, &|group| group.swap_max_bytes = Some(0)));
    assert!(fires(1 << 30, &|group| group.swap_high_bytes = Some(1 << 20)));
}

/// A huge page of which a part was freed stays whole on the LRU lists until memory is short, and can be moved.
#[test]
fn parts_of_huge_pages_are_not_pinned() {
    let names_pinned = |deferred, pinned| {
        let mut window = firing("fragmented-node");
        count(&mut window, Counter::ThpDeferredSplitPage, deferred);
        count(&mut window, Counter::NrFollPinAcquired, pinned);
        let finding = finding(&window, "fragmented-node").unwrap();
        finding.headline.contains("pinned")
    };
    assert!(names_pinned(0, 0), "in pipes");
    assert!(!names_pinned(500, 0));
    assert!(names_pinned(500, 1 << 20));
}

fn report(name: &str) -> Window {
    let archive = mw_test::fixture(&format!("reports/{name}"));
    mw_collect::window(&input::open(&archive).unwrap())
}

/// Promise (Findings): Where faults on mapped files read far more than a page and drop what is read again, the read-ahead
/// of the device is named; so is a swappiness of 0 where swap is free.
#[test]
fn reclaim_names_the_setting_that_causes_it() {
    let mut window = report("aa07-reads-two-megabytes-for-every-page");
    let said = remedy(&window, "reclaim-storm").summary;
    assert!(said.contains("on dm-1, lower its read-ahead of 2 MiB to 128 KiB"), "{said}");
    let Reading::Value(disks) = &mut window.now.disks else { panic!("disks") };
    disks.iter_mut().for_each(|disk| disk.read_ahead_bytes = Some(6 << 20));
    let said = remedy(&window, "reclaim-storm").summary;
    assert!(!said.contains("read-ahead"), "no fault reads so much: {said}");
    let Reading::Value(disks) = &mut window.now.disks else { panic!("disks") };
    disks.iter_mut().for_each(|disk| disk.read_ahead_bytes = Some(128 << 10));
    let said = remedy(&window, "reclaim-storm").summary;
    assert!(!said.contains("read-ahead"), "{said}");

    let mut window = report("aa06-swap-that-may-not-be-used");
    let said = remedy(&window, "reclaim-storm").summary;
    assert!(said.starts_with("set vm.swappiness to 1"), "{said}");
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    meminfo.swap_free_bytes = Some(0);
    let said = remedy(&window, "reclaim-storm").summary;
    assert!(!said.contains("swappiness"), "no swap is free: {said}");
}
