//! Nothing left, counters that cannot be right, and what the first line says of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{Answer, Finding, HugePageExcess, OriginKind, Reading, Request, Severity, Window};
use mw_proc::meminfo::Meminfo;
use mw_proc::vmstat::Counter;

fn window(fixture: &str) -> Window {
    let source = input::open(&mw_test::fixture(fixture));
    mw_collect::window(&source.unwrap_or_else(|error| panic!("{fixture}: {error}")))
}

fn meminfo(window: &mut Window) -> &mut Meminfo {
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    meminfo
}

fn found(window: &Window, rule: &str) -> Option<Finding> {
    let report = mw_rules::check(window, None);
    report.findings.into_iter().find(|finding| finding.rule == rule)
}

fn verdict(window: &Window) -> String {
    mw_rules::check(window, None).verdict
}

fn answer(window: &Window, request: &str) -> Answer {
    let request: Request = request.parse().unwrap();
    mw_rules::preflight::assess(window, &request).unwrap().answer()
}

/// Promise (Checking): The verdict is not "ready" where a request of 1% of memory is not served without a wait.
#[test]
fn no_machine_is_ready_with_nothing_left() {
    let mut tried = 0;
    for fixture in mw_test::fixtures() {
        let mut window = window(&fixture);
        if window.now.sample.meminfo.value().is_none() {
            continue;
        }
        let meminfo = meminfo(&mut window);
        let least = meminfo.mem_total_bytes.unwrap() / 100;
        meminfo.mem_free_bytes = Some(least / 2);
        meminfo.mem_available_bytes = Some(least - 1);
        assert!(!verdict(&window).starts_with("ready"), "{fixture}: {}", verdict(&window));
        tried += 1;
    }
    assert!(tried > 50, "{tried} fixtures");
}

/// Promise (Checking): A machine with little memory left and no swap is not "ready", and one with 1 GiB left is not low.
#[test]
fn little_memory_and_no_swap_are_reported() {
    const MIB: u64 = 1 << 20;
    let left = |total_mib: u64, available_mib: u64, swap_mib: u64| {
        let mut window = window("healthy/debian-6.1");
        let meminfo = meminfo(&mut window);
        meminfo.mem_total_bytes = Some(total_mib * MIB);
        meminfo.mem_free_bytes = Some(available_mib * MIB);
        meminfo.mem_available_bytes = Some(available_mib * MIB);
        meminfo.swap_total_bytes = Some(swap_mib * MIB);
        meminfo.swap_free_bytes = Some(swap_mib * MIB);
        found(&window, "memory-exhausted").map(|finding| finding.severity)
    };
    assert_eq!(left(974, 30, 0), Some(Severity::Warning));
    assert_eq!(left(974, 60, 0), Some(Severity::Warning), "6%");
    assert_eq!(left(974, 110, 0), None);
    assert_eq!(left(974, 30, 500), None);
    assert_eq!(left(48 << 10, 1025, 0), None, "enough for most requests");
    assert_eq!(left(48 << 10, 900, 0), Some(Severity::Warning));
}

/// 1.6 GiB of 125.8 GiB are left.
#[test]
fn kills_beside_one_large_program_make_little_memory_a_warning() {
    let mut window =
        window("reports/jj06-a-hundred-of-one-hundred-and-twenty-eight-for-the-objects");
    let said = found(&window, "memory-exhausted").unwrap().headline;
    assert!(said.contains("no swap, after 2 OOM kills since boot"), "{said}");
    let Reading::Value(vmstat) = &mut window.now.sample.vmstat else { panic!("vmstat") };
    vmstat.set(Counter::OomKill, Some(0));
    assert_eq!(found(&window, "memory-exhausted"), None, "a server that is sized so");
}

/// Promise (Checking): The machine is not called ready below a request that it refuses.
#[test]
fn a_machine_that_refuses_the_request_is_not_ready() {
    let window = window("healthy/debian-6.1");
    let verdict = |request: &str| {
        let assessment = mw_rules::preflight::assess(&window, &request.parse().unwrap()).unwrap();
        let preflight = mw_render::preflight_words::describe(&assessment);
        mw_rules::check(&window, Some(preflight)).verdict
    };
    assert!(verdict("64M").starts_with("ready: "), "{}", verdict("64M"));
    assert!(!verdict("64G").contains("ready: "), "{}", verdict("64G"));
    assert!(verdict("64G").contains("available"), "{}", verdict("64G"));
}

/// Promise (Findings): Where a full cgroup reads its pages again and again, the finding names it and its limit.
#[test]
fn a_full_cgroup_that_reads_its_pages_again_is_named() {
    let mut window = window("reports/g12-fifty-mib-for-forty-of-code");
    let finding = found(&window, "working-set-thrash").unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    let said = &finding.headline;
    assert!(said.ends_with("at its limit of 50 MiB, and 3 other cgroups at theirs"), "{said}");
    let Reading::Value(zoneinfo) = &mut window.now.sample.zoneinfo else { panic!("zoneinfo") };
    zoneinfo.zones.iter_mut().for_each(|zone| zone.free_pages = zone.high_pages);
    let said = found(&window, "working-set-thrash").unwrap().headline;
    assert!(!said.contains("limit"), "kswapd may reclaim as well: {said}");
}

#[test]
fn the_largest_holder_is_named_whatever_it_is() {
    let headline = |fixture: &str| found(&window(fixture), "memory-exhausted").unwrap().headline;
    assert!(headline("memory-exhausted/firing").ends_with("process indexer (310) has 793.0 MiB"));
    assert!(headline("memory-exhausted/firing").contains("no swap"));
    assert!(headline("memory-exhausted/firing-swap").contains("302.7 MiB of swap free"));
    assert!(headline("memory-exhausted/firing-segment").ends_with("SysV segment 7 has 761.7 MiB"));
    assert!(headline("memory-exhausted/firing-dirty").contains("has to be written first"));
}

#[test]
fn free_swap_is_no_want_of_memory_for_the_oom_killer() {
    let impact = |fixture: &str| found(&window(fixture), "memory-exhausted").unwrap().impact;
    assert!(impact("memory-exhausted/firing").contains("OOM killer"));
    assert!(!impact("memory-exhausted/firing-swap").contains("OOM killer"));
}

/// Promise (Checking): A counter above MemTotal is not added up: neither the verdict nor an answer exceeds the machine's
/// memory.
#[test]
fn what_cannot_be_is_not_available() {
    for fixture in ["firing", "firing-lists", "firing-lxcfs", "firing-cgroup"] {
        let window = window(&format!("contradictory-counters/{fixture}"));
        let report = mw_rules::check(&window, None);
        let (ready, memory) = (report.ready_bytes.unwrap(), report.memory_bytes.unwrap());
        assert!(ready <= memory, "{fixture}: {ready} of {memory}");
        assert!(!report.verdict.starts_with("ready"), "{fixture}: {}", report.verdict);
        assert_eq!(answer(&window, "2G"), Answer::No, "{fixture}");
    }
}

#[test]
fn a_container_beside_its_host_is_no_kernel_defect() {
    let remedy = |fixture: &str| {
        let finding = found(&window(fixture), "contradictory-counters").unwrap();
        finding.remedy.unwrap().summary
    };
    assert!(remedy("contradictory-counters/firing-lxcfs").contains("container"));
    assert!(remedy("contradictory-counters/firing").contains("kernel"));
    assert!(remedy("contradictory-counters/firing-cgroup").contains("cgroups"));
}

#[test]
fn nodes_of_another_machine_do_not_count() {
    let window = window("contradictory-counters/firing-lxcfs");
    assert_eq!(window.now.origin.kind, OriginKind::Tree);
    let nodes = mw_model::zones::node_meminfos(&window.now);
    let totals: Vec<u64> = nodes.iter().filter_map(|(_, node)| node.mem_total_bytes).collect();
    assert_eq!(totals, [256 << 20]);
}

#[test]
fn memory_that_is_accounted_for_is_not_unowned() {
    let mut window = window("unowned-memory/firing");
    let headline = found(&window, "unowned-memory").unwrap().headline;
    assert!(headline.starts_with("199.8 MiB belong to no process"), "{headline}");
    meminfo(&mut window).sunreclaim_bytes = Some(208_240 << 10);
    assert_eq!(found(&window, "unowned-memory"), None, "it is slab memory");
}

#[test]
fn shared_memory_of_a_process_a_mount_or_for_swap_is_not_unowned() {
    let mut window = window("unowned-memory/firing-shared");
    assert!(found(&window, "unowned-memory").is_some());
    meminfo(&mut window).swap_free_bytes = Some(1 << 30);
    assert_eq!(found(&window, "unowned-memory"), None);
}

#[test]
fn an_arc_is_no_leak_of_kernel_objects() {
    let mut window = window("zfs-arc/firing-slab");
    assert_eq!(found(&window, "slab-bloat"), None);
    assert_eq!(found(&window, "unowned-memory"), None);
    window.now.arc = Reading::default();
    assert!(found(&window, "slab-bloat").is_some(), "the same slab without an ARC");
}

#[test]
fn an_arc_within_its_limits_is_a_note() {
    let mut window = window("zfs-arc/firing-slab");
    let severity = |window: &Window| found(window, "zfs-arc").unwrap().severity.to_string();
    assert_eq!(severity(&window), "warning");
    let Reading::Value(arc) = &mut window.now.arc else { panic!("arc") };
    (arc.max_bytes, arc.metadata_limit_bytes) = (Some(1 << 40), None);
    assert_eq!(severity(&window), "note");
}

/// Promise (Checking): What the ZFS ARC releases when memory is short counts, slowly.
#[test]
fn an_arc_gives_memory_slowly() {
    let mut window = window("zfs-arc/firing");
    meminfo(&mut window).swap_free_bytes = Some(0);
    assert_eq!(answer(&window, "440M"), Answer::Slowly);
    window.now.arc = Reading::default();
    assert_eq!(answer(&window, "440M"), Answer::No, "without an ARC it is a leak");
}

/// A group at its own limit is no trouble of the machine.
#[test]
fn the_verdict_names_the_only_cgroup_in_trouble() {
    let window = window("cgroup-limit/firing-objects");
    assert!(verdict(&window).starts_with("cgroup /pods/build may stall or fail: 1 warning;"));
}

#[test]
fn the_machine_stalls_where_the_machine_is_in_trouble() {
    for fixture in ["zfs-arc/firing-slab", "unowned-memory/firing"] {
        assert!(verdict(&window(fixture)).starts_with("may stall under load:"), "{fixture}");
    }
}

#[test]
fn kills_at_a_cgroups_limit_are_not_put_down_to_the_machine() {
    let mut window = window("oom-kill/firing-cgroup-unlogged");
    let finding = found(&window, "oom-kill").unwrap();
    assert!(
        finding.headline.ends_with(": 12 of them in cgroup /batch.slice at its limit of 64 MiB")
    );
    assert!(finding.remedy.unwrap().summary.starts_with("raise the limit of cgroup /batch.slice"));
    let Reading::Value(cgroups) = &mut window.now.cgroups else { panic!("cgroups") };
    // It reached its limit, and reclaim within it was enough: the machine's shortage has killed its processes.
    cgroups.limited[0].events.oom = Some(0);
    let finding = found(&window, "oom-kill").unwrap();
    assert!(!finding.headline.contains("cgroup"), "{}", finding.headline);
}

/// Promise (Findings): An idle pool of huge pages is critical where the rest of memory is used up.
#[test]
fn an_idle_pool_is_why_the_rest_is_used_up() {
    let mut window = window("hugepage-hoard/firing");
    let severity = |window: &Window| found(window, "hugepage-hoard").unwrap().severity;
    assert_eq!(severity(&window), Severity::Warning);
    let meminfo = meminfo(&mut window);
    let least = meminfo.mem_total_bytes.unwrap() / 100;
    (meminfo.mem_free_bytes, meminfo.mem_available_bytes) = (Some(least / 2), Some(least - 1));
    assert_eq!(severity(&window), Severity::Critical);
    assert_eq!(mw_rules::check(&window, None).findings[0].rule, "hugepage-hoard");
}

/// Promise (Findings): Shared memory without an owner is noted from three tenths of memory on, also where swap has room.
#[test]
fn much_shared_memory_without_an_owner_is_noted_beside_swap() {
    let mut window = window("unowned-memory/firing-shared");
    let meminfo = meminfo(&mut window);
    let total = meminfo.mem_total_bytes.unwrap();
    (meminfo.swap_total_bytes, meminfo.swap_free_bytes) = (Some(total), Some(total));
    assert_eq!(found(&window, "unowned-memory"), None, "swap takes a fifth of memory");
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    meminfo.shmem_bytes = Some(total / 2);
    let note = found(&window, "unowned-memory").unwrap();
    assert_eq!(note.severity, Severity::Note);
    assert!(note.headline.contains("shared memory without a mount"), "{}", note.headline);
}

/// Promise (Checking): Locked memory that leaves little to others is named with who locked it, and so is what
/// vm.vfs_cache_pressure keeps.
#[test]
fn locked_memory_and_kept_dentries_are_named() {
    let mut window = window("healthy/debian-6.1");
    assert!(found(&window, "pinned-memory").is_none());
    let meminfo = meminfo(&mut window);
    let total = meminfo.mem_total_bytes.unwrap();
    meminfo.mlocked_bytes = Some(total / 10 * 7);
    assert!(found(&window, "pinned-memory").is_none(), "much is available");
    let meminfo = self::meminfo(&mut window);
    meminfo.mem_free_bytes = Some(total / 20);
    meminfo.mem_available_bytes = Some(total / 10);
    let locked = found(&window, "pinned-memory").unwrap();
    assert!(locked.headline.contains("locked (70% of memory)"), "{}", locked.headline);
    assert_eq!(locked.severity, Severity::Note);

    let mut window = self::window("healthy/debian-6.1");
    let meminfo = self::meminfo(&mut window);
    meminfo.slab_bytes = Some(total / 10 * 6);
    meminfo.sreclaimable_bytes = Some(total / 10 * 6);
    window.now.dentries = Reading::default();
    let kept = |window: &Window| found(window, "slab-bloat").unwrap().headline;
    assert!(!kept(&window).contains("vfs_cache_pressure"), "{}", kept(&window));
    let sysctl = &mut window.now.sysctl.values;
    sysctl.insert("vm.vfs_cache_pressure".to_owned(), Ok("10".to_owned()));
    assert!(kept(&window).contains("vm.vfs_cache_pressure of 10"), "{}", kept(&window));
}

/// Promise (Checking): A request that no process of a 32-bit kernel has addresses for is refused.
#[test]
fn a_request_is_refused_where_addresses_end() {
    const GIB: u64 = 1 << 30;
    let mut window = window("healthy/debian-6.1");
    assert_eq!(answer(&window, "3M"), Answer::Yes);
    let meminfo = meminfo(&mut window);
    meminfo.vmalloc_total_bytes = Some(GIB / 4);
    let words = |window: &Window, request: &str| {
        let request: Request = request.parse().unwrap();
        format!("{:?}", mw_rules::preflight::assess(window, &request).unwrap())
    };
    assert!(words(&window, "3G").contains("AddressSpace"));
    assert!(!words(&window, "2G").contains("AddressSpace"));
    let meminfo = self::meminfo(&mut window);
    meminfo.vmalloc_total_bytes = Some(GIB << 10);
    assert!(!words(&window, "3G").contains("AddressSpace"));
}

/// Promise (Findings): A cgroup at memory.max whose tasks did nothing but wait for memory in half of the last minute is named.
#[test]
fn a_cgroup_at_its_limit_whose_tasks_only_wait_is_named() {
    let mut window = window("reports/bb04-a-dump-of-41-gib-through-five-gib-of-slice");
    let finding = found(&window, "cgroup-limit").unwrap();
    assert_eq!(finding.subject.to_string(), "cgroup /system.slice");
    let said = &finding.headline;
    assert!(said.starts_with("its tasks waited for memory for 87% of the last minute"), "{said}");
    let Reading::Value(cgroups) = &mut window.now.cgroups else { panic!("cgroups") };
    for group in &mut cgroups.limited {
        let full = group.pressure.as_mut().and_then(|pressure| pressure.full.as_mut());
        if let Some(full) = full {
            full.avg60_percent = 30.0;
        }
    }
    assert!(found(&window, "cgroup-limit").is_none(), "a program that reads through its limit");
}

/// Promise (Findings): A machine whose programs have more than memory, a part of it in swap, is not "ready".
#[test]
fn programs_with_more_than_memory_are_named() {
    let mut window = window("reports/x08-what-the-guest-freed-lies-in-the-swap-of-the-host");
    let finding = found(&window, "memory-exhausted").unwrap();
    assert_eq!(finding.severity, Severity::Warning);
    let said = &finding.headline;
    assert!(said.starts_with("programs and tmpfs have 66.9 GiB, more than memory"), "{said}");
    let Reading::Value(areas) = &mut window.now.swaps else { panic!("swaps") };
    areas.iter_mut().for_each(|area| area.path = "/dev/zram0".to_owned());
    assert!(found(&window, "memory-exhausted").is_none(), "zram holds its pages in memory");
}

/// Promise (Checking): Beside the program with the most memory stands why transparent huge pages may hold more than it uses:
/// many threads, the size of a huge page, or khugepaged that refills what was released.
#[test]
fn huge_pages_that_hold_more_than_a_program_uses_are_named() {
    let always = |report: &str, value: &[u8]| {
        let mut window = window(report);
        let Reading::Value(thp) = &mut window.now.thp else { panic!("thp") };
        thp.enabled = mw_proc::choice::Choice::parse(value).unwrap();
        window
    };
    let of = |window: &Window| mw_rules::check(window, None).largest_program.unwrap().huge_pages;
    let stacks = "reports/dd01-stacks-of-ten-thousand-threads-in-huge-pages";
    let reports = [
        (stacks, HugePageExcess::Stacks { threads: 10_020 }),
        (
            "reports/t04-huge-pages-of-half-a-gibibyte",
            HugePageExcess::LargePages { page_bytes: 512 << 20 },
        ),
        (
            "reports/l04-huge-pages-refill-what-was-given-back",
            HugePageExcess::Refilled { made_bytes: 41_204 << 21 },
        ),
    ];
    for (report, excess) in reports {
        assert_eq!(of(&always(report, b"[always] madvise never\n")), Some(excess), "{report}");
        assert_eq!(of(&always(report, b"always [madvise] never\n")), None, "{report}");
    }
    let mut window = always(stacks, b"[always] madvise never\n");
    window.now.origin.kernel = Some(mw_proc::version::KernelVersion::new(6, 12, 0));
    assert_eq!(of(&window), None, "such stacks get no huge pages there");
    let changed = |change: fn(&mut Vec<mw_model::Process>)| {
        let mut window = always(stacks, b"[always] madvise never\n");
        let Reading::Value(processes) = &mut window.now.processes else { panic!("processes") };
        processes.list.sort_by_key(|process| std::cmp::Reverse(process.status.threads));
        change(&mut processes.list);
        of(&window)
    };
    let asked_for_none = changed(|list| list[0].status.thp_enabled = Some(false));
    assert_eq!(asked_for_none, None);
    let of_one_thread = changed(|list| {
        let status = &mut list[0].status;
        (status.threads, status.rss_anon_bytes) = (Some(1), Some(2 << 20));
        list.extend(vec![list[0].clone(); 10_000]);
    });
    assert_eq!(of_one_thread, None, "a process each");
}

/// Promise (Findings): A cgroup at its limit is named with the program that has most memory in it.
#[test]
fn the_program_that_fills_a_cgroup_is_named() {
    let mut window = window("reports/x07-eight-gibibytes-of-old-prompts-per-model");
    let said = found(&window, "cgroup-limit").unwrap().headline;
    assert!(said.contains("; llama-server ("), "{said}");
    let Reading::Value(processes) = &mut window.now.processes else { panic!("processes") };
    for process in &mut processes.list {
        process.memory_cgroup = process.memory_cgroup.take().map(|_| "/elsewhere".to_owned());
    }
    let said = found(&window, "cgroup-limit").unwrap().headline;
    assert!(!said.contains("llama-server"), "{said}");
}

/// Promise (Findings): A systemd that has grown is re-executed; one of a user is none of the system's daemons.
#[test]
fn a_systemd_that_has_grown_is_re_executed() {
    let mut window = window("reports/ee04-the-first-process-remembers-every-question");
    let finding = found(&window, "grown-daemon").unwrap();
    assert!(format!("{:?}", finding.remedy).contains("daemon-reexec"));
    let Reading::Value(processes) = &mut window.now.processes else { panic!("processes") };
    let first = processes.list.iter_mut().find(|process| process.status.pid == Some(1)).unwrap();
    first.status.pid = Some(1001);
    assert!(found(&window, "grown-daemon").is_none());
}
