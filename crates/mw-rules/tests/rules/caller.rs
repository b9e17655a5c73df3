//! What is available is what the calling process can get, not what the machine has.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{
    Cgroup, CgroupVersion, Cgroups, LimitKind, Missing, Reading, Report, Severity, Window, caller,
};
use mw_proc::limits::Rlimits;
use mw_proc::meminfo::Meminfo;

const MIB: u64 = 1 << 20;

/// A healthy machine of 1 GiB with two nodes and no limit on anybody.
fn healthy() -> Window {
    mw_collect::window(&input::open(&mw_test::fixture("healthy/numa-2")).unwrap())
}

fn check(window: &Window) -> Report {
    mw_rules::check(window, None)
}

fn meminfo(window: &mut Window) -> &mut Meminfo {
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    meminfo
}

fn set(window: &mut Window, name: &str, value: &str) {
    window.now.sysctl.values.insert(name.to_owned(), Ok(value.to_owned()));
}

/// Strict overcommit with such a limit, of which `promised` is promised.
fn strict(limit: u64, promised: u64) -> Window {
    let mut window = healthy();
    set(&mut window, "vm.overcommit_memory", "2");
    let meminfo = meminfo(&mut window);
    meminfo.commit_limit_bytes = Some(limit);
    meminfo.committed_as_bytes = Some(promised);
    window
}

fn groups(own: Vec<Cgroup>) -> Cgroups {
    Cgroups { version: CgroupVersion::V2, own, ..Cgroups::default() }
}

fn group(path: &str, max: Option<u64>, current: u64) -> Cgroup {
    Cgroup {
        path: path.to_owned(),
        max_bytes: max,
        current_bytes: Some(current),
        ..Cgroup::default()
    }
}

#[test]
fn without_a_limit_it_is_what_the_machine_has() {
    let report = check(&healthy());
    assert_eq!((report.limited_by, report.limits_unseen), (None, Vec::new()));
    assert!(report.verdict.contains(" available without writeback or swap"), "{}", report.verdict);
}

#[test]
fn the_commit_limit_binds() {
    let report = check(&strict(308 * MIB, 100 * MIB));
    let limit = report.limited_by.unwrap();
    assert_eq!((limit.kind, limit.limit_bytes), (LimitKind::Commit, 308 * MIB));
    // The capture was made by root: only the reserve for a user is kept back, by what is mapped.
    let ready = report.ready_bytes.unwrap();
    assert!((200 * MIB..=208 * MIB).contains(&ready), "{ready}");
    assert!(report.verdict.contains("of the 308 MiB commit limit available"));
}

#[test]
fn a_low_commit_limit_is_a_finding_and_the_default_is_none() {
    let found = |window: &Window| {
        let findings = check(window).findings;
        findings.into_iter().find(|finding| finding.rule == "overcommit-refusal")
    };
    let memory = meminfo(&mut healthy()).mem_total_bytes.unwrap();
    let low = found(&strict(memory * 16 / 100, 20 * MIB)).unwrap();
    assert_eq!(low.severity, Severity::Warning);
    assert!(low.headline.contains(", 16% of the "), "{}", low.headline);
    assert!(found(&strict(memory / 2 - 4096, 20 * MIB)).is_none());
    assert_eq!(found(&strict(200 * MIB, 190 * MIB)).unwrap().severity, Severity::Critical);
    // Of memory that is in huge page pools nothing is promised, and half of the rest is enough.
    let mut pooled = strict((memory - 128 * MIB) / 2 - 4096, 20 * MIB);
    let line = meminfo(&mut pooled);
    (line.hugepages_total_pages, line.hugetlb_bytes) = (Some(64), Some(128 * MIB));
    assert!(found(&pooled).is_none());
}

#[test]
fn a_low_commit_limit_is_lifted_by_what_set_it() {
    let steps = |kbytes: &str, ratio: &str| {
        let mut window = strict(100 * MIB, 10 * MIB);
        set(&mut window, "vm.overcommit_kbytes", kbytes);
        set(&mut window, "vm.overcommit_ratio", ratio);
        let findings = check(&window).findings;
        let finding = findings.into_iter().find(|f| f.rule == "overcommit-refusal").unwrap();
        finding.remedy.unwrap().summary
    };
    assert_eq!(steps("102400", "0"), "set vm.overcommit_ratio to 90");
    assert_eq!(steps("0", "10"), "set vm.overcommit_ratio to 90");
    assert!(
        steps("0", "95").starts_with("commit less memory"),
        "the ratio is not what makes it low"
    );
}

#[test]
fn the_tightest_cgroup_of_the_chain_binds() {
    let mut window = healthy();
    let chain =
        vec![group("/a/b", Some(400 * MIB), 10 * MIB), group("/a", Some(256 * MIB), 16 * MIB)];
    window.now.cgroups = Reading::Value(groups(chain));
    let report = check(&window);
    assert_eq!(report.ready_bytes, Some(240 * MIB));
    assert!(report.verdict.starts_with("ready: 240 MiB of cgroup /a's 256 MiB available"));
    let mut cached = group("/a", Some(256 * MIB), 200 * MIB);
    cached.stat.inactive_file_bytes = Some(100 * MIB);
    cached.stat.file_dirty_bytes = Some(30 * MIB);
    window.now.cgroups = Reading::Value(groups(vec![cached]));
    let report = check(&window);
    assert_eq!(report.ready_bytes, Some((56 + 70) * MIB), "clean page cache is available");
    assert!(report.verdict.contains("of this cgroup's 256 MiB available"));
}

#[test]
fn a_limit_above_what_is_mounted_and_one_of_memory_and_swap_bind() {
    let mut window = healthy();
    let own = vec![group("/", None, 6 * MIB)];
    let hidden = Cgroups { limit_above_bytes: Some(256 * MIB), ..groups(own) };
    window.now.cgroups = Reading::Value(hidden);
    let report = check(&window);
    assert_eq!(report.ready_bytes, Some(250 * MIB));
    assert!(report.verdict.contains("of a parent cgroup's 256 MiB"), "{}", report.verdict);
    let with_swap = Cgroup {
        swap_max_bytes: Some(300 * MIB),
        swap_current_bytes: Some(290 * MIB),
        ..group("/a", Some(256 * MIB), 6 * MIB)
    };
    let cgroups = Cgroups { version: CgroupVersion::V1, ..groups(vec![with_swap]) };
    window.now.cgroups = Reading::Value(cgroups);
    assert_eq!(check(&window).ready_bytes, Some(10 * MIB));
}

#[test]
fn resource_limits_bind() {
    let mut window = healthy();
    window.now.origin.mapped_bytes = Some(12 * MIB);
    window.now.origin.data_bytes = Some(2 * MIB);
    let mut limited = |name: &str, soft: &str, hard: &str| {
        let text = format!("Max {name} {soft} {hard} bytes\n");
        window.now.limits = Reading::Value(Rlimits::parse(text.as_bytes()).unwrap());
        let report = check(&window);
        (report.ready_bytes.unwrap(), report.limited_by.map(|limit| limit.kind))
    };
    let soft = (256 * MIB).to_string();
    let space = limited("address space", &soft, "unlimited");
    assert_eq!(space, (244 * MIB, Some(LimitKind::AddressSpace)));
    assert_eq!(limited("data size", &soft, "unlimited"), (254 * MIB, Some(LimitKind::Data)));
    // A soft limit of 0 is not enforced, the hard one is.
    assert_eq!(limited("data size", "0", "unlimited").1, None);
    assert_eq!(limited("data size", "0", &soft), (254 * MIB, Some(LimitKind::Data)));
    // Locking is not what the first line is about.
    assert_eq!(limited("locked memory", "8388608", "8388608").1, None);
}

#[test]
fn a_cpuset_of_one_node_binds() {
    let mut window = healthy();
    let whole = check(&window).ready_bytes.unwrap();
    window.now.origin.memory_nodes = Some(vec![1]);
    let report = check(&window);
    let ready = report.ready_bytes.unwrap();
    assert!(ready > whole / 4 && ready < whole * 3 / 4, "{ready} of {whole}");
    assert!(report.verdict.contains(" on node 1 (cpuset) available"), "{}", report.verdict);
    window.now.origin.memory_nodes = Some(vec![0, 1, 2, 3]);
    assert_eq!(check(&window).limited_by, None);
}

#[test]
fn a_limit_that_cannot_be_read_is_not_unlimited() {
    let mut window = healthy();
    let why = || Missing::skipped("/sys/fs/cgroup/a/memory.max", "not permitted");
    let own = vec![group("/a", None, MIB)];
    window.now.cgroups = Reading::Value(Cgroups { unseen: vec![why()], ..groups(own) });
    let report = check(&window);
    assert_eq!(report.limits_unseen, [why()]);
    let says = "; a limit on this process could not be determined";
    assert!(report.verdict.contains(says), "{}", report.verdict);
    window.now.cgroups = Reading::Missing(why());
    window.now.limits = Reading::Missing(Missing::failed("/proc/self/limits", "masked"));
    let report = check(&window);
    assert_eq!(report.limits_unseen.len(), 2, "{:?}", report.limits_unseen);
    // A tree without these files, and a kernel without cgroups, have no limit.
    window.now.cgroups = Reading::Missing(Missing::absent("/proc/self/cgroup", "not in this tree"));
    window.now.limits = Reading::Missing(Missing::absent("/proc/self/limits", "not in this tree"));
    assert_eq!(caller::available(&window.now, MIB).unseen, []);
}

/// Dentries and inodes of a build fill a group and are freed when it needs the memory.
#[test]
fn kernel_memory_of_a_version_1_group_may_be_reclaimable() {
    let mut window = healthy();
    let mut found = |kernel_bytes| {
        let full = Cgroup { kernel_bytes, ..group("/a", Some(100 * MIB), 99 * MIB) };
        let version = CgroupVersion::V1;
        window.now.cgroups =
            Reading::Value(Cgroups { limited: vec![full], version, ..Cgroups::default() });
        check(&window).findings.iter().any(|finding| finding.rule == "cgroup-limit")
    };
    assert!(found(Some(2 * MIB)));
    assert!(!found(Some(60 * MIB)));
}

#[test]
fn a_group_that_was_seen_is_a_finding_also_where_others_were_not_looked_at() {
    let mut window = healthy();
    let full = group("/a", Some(100 * MIB), 99 * MIB);
    let seen = Cgroups { limited: vec![full], truncated: true, ..Cgroups::default() };
    window.now.cgroups = Reading::Value(seen);
    let is_limit = |rule: &str| rule == "cgroup-limit";
    assert!(check(&window).findings.iter().any(|finding| is_limit(&finding.rule)));
    window.now.cgroups = Reading::Value(Cgroups { truncated: true, ..Cgroups::default() });
    assert!(check(&window).skipped.iter().any(|skipped| is_limit(&skipped.rule)));
}
