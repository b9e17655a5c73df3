//! Requests for nearly all that there is.

use super::machine::{Machine, Memory};
use super::{GIB, IDLE};
use mw_model::{Answer, Cgroup, Cgroups, HugePool, HugetlbLimit, Reading};

const MIB: u64 = 1 << 20;

/// 16 GiB of which 15,360 MiB are free above the min watermark and 15,328 above the high one. The kernel may keep 163
/// MiB for atomic allocations.
const FREE: Memory = Memory { total: 16384, free: 15424, file: 0, dirty: 0, anon: 512, shmem: 0 };

fn answer(machine: Machine, mib: u64) -> Answer {
    machine.build().ask_as_it_is(&format!("{mib}M")).answer
}

/// A machine with so many MiB on the lists of its CPUs.
fn on_lists(memory: Memory, mib: u64) -> Machine {
    let mut machine = Machine::new(&[memory]).build();
    if let Reading::Value(zoneinfo) = &mut machine.snapshot.sample.zoneinfo {
        zoneinfo.zones[0].pcp_pages = Some((mib * MIB) >> 12);
    }
    machine
}

/// Promise (Findings): A request for the last of what the kernel, a cgroup, the commit limit or RLIMIT_AS leaves is
/// answered with `unknown` and the reason, not with a guess.
#[test]
fn what_the_kernel_may_keep_is_in_doubt() {
    // A hundredth and a 64th: 419 MiB. A page table needs 1 MiB for 512.
    for (mib, expected) in [(14800, Answer::Yes), (15310, Answer::Unknown), (15400, Answer::No)] {
        assert_eq!(answer(on_lists(FREE, 0), mib), expected, "{mib} MiB");
    }
    let why = on_lists(FREE, 0).ask_as_it_is("15310M").summary;
    assert!(
        why.starts_with("unknown, because it takes all that the kernel can give but "),
        "{why}"
    );
}

#[test]
fn pages_on_per_cpu_lists_and_own_memory_may_be_given() {
    let ask = |machine: Machine| machine.ask_as_it_is("15600M").answer;
    assert_eq!(ask(on_lists(FREE, 0)), Answer::No);
    assert_eq!(ask(on_lists(FREE, 512)), Answer::Unknown);
    let mut own = on_lists(FREE, 0);
    own.snapshot.origin.own_bytes = Some(512 * MIB);
    assert_eq!(ask(own), Answer::Unknown);
}

/// Promise (Findings): An inherited memory policy and cache that other cgroups protect are counted.
#[test]
fn a_memory_policy_binds_the_request_unless_it_names_a_node() {
    let bound = || Machine::new(&[IDLE, IDLE]).with(|s| s.origin.policy_nodes = Some(vec![0]));
    assert_eq!(answer(bound(), 8 << 10), Answer::Yes);
    assert_eq!(answer(bound(), 20 << 10), Answer::No);
    assert_eq!(bound().ask("8G,node=1").answer, Answer::Yes);
}

#[test]
fn a_limit_that_counts_the_program_itself_leaves_some_in_doubt() {
    let limited = |request: &str| {
        Machine::new(&[IDLE])
            .limits("Max address space  4294967296  4294967296  bytes\n")
            .with(|s| s.origin.mapped_bytes = Some(100 * MIB))
            .ask(request)
    };
    assert_eq!(limited("3900M").answer, Answer::Yes);
    let near = limited("4090M");
    assert_eq!(near.answer, Answer::Unknown);
    let starts =
        "unknown, because RLIMIT_AS refuses it to a program that maps 6 MiB or more besides";
    assert!(near.summary.starts_with(starts), "{}", near.summary);
    assert_eq!(limited("4097M").answer, Answer::No);
}

#[test]
fn all_of_a_group_or_of_the_commit_limit_leaves_no_program() {
    let group = Cgroup {
        path: "/job".to_owned(),
        max_bytes: Some(4 * GIB),
        current_bytes: Some(0),
        ..Cgroup::default()
    };
    let in_group = |mib| answer(Machine::new(&[IDLE]).groups(vec![group.clone()]), mib);
    assert_eq!(in_group(4086), Answer::Yes);
    assert_eq!(
        in_group(4088),
        Answer::Unknown,
        "8 MiB of page tables, and nothing for the program"
    );
    assert_eq!(in_group(4096), Answer::No);
    // 8 GiB may be committed, and 2 GiB are.
    let strict = |mib| answer(Machine::new(&[IDLE]).sysctl("vm.overcommit_memory", "2"), mib);
    assert_eq!(strict(6078), Answer::Yes, "the kernel's sum may be off by 64 MiB");
    assert_eq!(strict(6144), Answer::Unknown);
    assert_eq!(strict(6210), Answer::No);
}

#[test]
fn cache_that_a_cgroup_protects_is_not_available() {
    let cached = Memory { free: 1024, file: 13312, ..FREE };
    let machine = |min_bytes| {
        let mut keeper = Cgroup {
            path: "/keeper".to_owned(),
            current_bytes: Some(10 * GIB),
            min_bytes,
            is_leaf: true,
            ..Cgroup::default()
        };
        keeper.stat.inactive_file_bytes = Some(10 * GIB);
        let cgroups = Cgroups { limited: vec![keeper], ..Cgroups::default() };
        Machine::new(&[cached]).with(|s| s.cgroups = Reading::Value(cgroups))
    };
    assert_eq!(answer(machine(0), 8 << 10), Answer::Yes);
    let kept = machine(10 * GIB).ask("8G");
    assert_eq!(kept.answer, Answer::No);
    let holder = &kept.nodes[0].unreclaimable[0];
    assert_eq!(holder.holder, "page cache that cgroups protect (memory.min)");
}

/// Promise (Findings): Limits of the hugetlb controller are counted, of both versions of cgroups.
#[test]
fn a_cgroups_limit_of_huge_pages_counts() {
    let pool =
        HugePool { page_bytes: 2 << 20, total_pages: 60, free_pages: 60, ..HugePool::default() };
    let limit = HugetlbLimit {
        path: "/job".to_owned(),
        page_bytes: 2 << 20,
        file: "hugetlb.2MB.max".to_owned(),
        limit_bytes: 40 << 20,
        used_bytes: 2 << 20,
    };
    let cgroups = Cgroups { hugetlb: vec![limit], ..Cgroups::default() };
    let ask = |request| {
        let machine = Machine::new(&[IDLE]).pool(pool);
        machine.with(|s| s.cgroups = Reading::Value(cgroups.clone())).ask(request)
    };
    assert_eq!(ask("38M,huge=2M").answer, Answer::Yes);
    let refused = ask("40M,huge=2M");
    let said =
        "no: 40 MiB on 2 MiB huge pages: hugetlb.2MB.max of cgroup /job has 38 MiB, 2 MiB missing";
    assert_eq!(refused.summary, said);
}
