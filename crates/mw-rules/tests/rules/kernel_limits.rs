//! Limits of the kernel and of cgroups that are not of memory as a whole.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::input;
use mw_model::{Finding, OriginKind, Reading, Window};
use mw_proc::cgroups::CgroupCount;
use mw_proc::key_users::KeyUser;
use mw_proc::limits::Rlimit;
use mw_proc::sysvipc_sem::Semaphores;
use mw_proc::user_beancounters::Beancounter;
use mw_proc::version::KernelVersion;

fn window(fixture: &str) -> Window {
    mw_collect::window(&input::open(&mw_test::fixture(fixture)).unwrap())
}

fn found(window: &Window, rule: &str) -> Vec<Finding> {
    let report = mw_rules::check(window, None);
    report.findings.into_iter().filter(|finding| finding.rule == rule).collect()
}

fn set(window: &mut Window, name: &str, value: &str) {
    window.now.sysctl.values.insert(name.to_owned(), Ok(value.to_owned()));
}

/// Promise (Findings): Limits of sockets, open files, tasks, asynchronous I/O and keys are reported before the kernel
/// refuses.
#[test]
fn each_limit_is_found_by_its_own_setting() {
    let subject = |fixture: &str| {
        let found = found(&window(&format!("kernel-limit/{fixture}")), "kernel-limit");
        assert_eq!(found.len(), 1, "{fixture}");
        found[0].subject.to_string()
    };
    assert_eq!(subject("firing"), "net.ipv4.tcp_mem");
    assert_eq!(subject("firing-files"), "fs.file-max");
    assert_eq!(subject("firing-threads"), "kernel.threads-max");
    assert_eq!(subject("firing-keys"), "kernel.keys.maxkeys");
    assert_eq!(subject("firing-orphans"), "net.ipv4.tcp_max_orphans");
    assert_eq!(subject("firing-connections"), "net.netfilter.nf_conntrack_max");
    assert_eq!(subject("firing-cgroups"), "kernel memory");
    assert_eq!(subject("firing-tasks"), "cgroup /ci.service");
    assert_eq!(subject("firing-tasks-v1"), "cgroup /docker/5b2e");
    assert_eq!(subject("firing-descriptors"), "process nginx");
    assert_eq!(subject("firing-semaphores"), "kernel.sem");
    let mut of_root = window("kernel-limit/firing-keys");
    let Reading::Value(keys) = &mut of_root.now.keys else { panic!("keys") };
    *keys =
        vec![KeyUser { uid: 0, bytes: 24_999_000, max_bytes: 25_000_000, ..KeyUser::default() }];
    assert_eq!(found(&of_root, "kernel-limit")[0].subject.to_string(), "kernel.keys.root_maxbytes");
    let mut container = window("kernel-limit/quiet");
    let privvmpages = Beancounter {
        container: 3580,
        resource: "privvmpages".to_owned(),
        held: 128_000,
        barrier: 131_072,
        limit: 131_072,
        refused: 1021,
    };
    let idle = Beancounter { resource: "numproc".to_owned(), refused: 0, ..privvmpages.clone() };
    container.now.beancounters = Reading::Value(vec![privvmpages, idle]);
    let refused = found(&container, "kernel-limit");
    let expected =
        "OpenVZ refused container 3580 1021 requests: privvmpages has 500 MiB of 512 MiB";
    assert_eq!(refused.iter().map(|of| of.headline.as_str()).collect::<Vec<_>>(), [expected]);
    let mut window = window("kernel-limit/quiet");
    set(&mut window, "fs.aio-nr", "65000");
    assert_eq!(found(&window, "kernel-limit")[0].subject.to_string(), "fs.aio-max-nr");
    set(&mut window, "fs.aio-nr", "0");
    set(&mut window, "kernel.pty.max", "4096");
    set(&mut window, "kernel.pty.nr", "3000");
    assert_eq!(found(&window, "kernel-limit"), []);
    set(&mut window, "kernel.pty.nr", "4000");
    assert_eq!(found(&window, "kernel-limit")[0].subject.to_string(), "kernel.pty.max");
}

/// Linux 4.7 releases the number of a deleted memory cgroup, and so does an older kernel that counts more cgroups than there
/// are numbers. The groups of the unified hierarchy need not have the memory controller.
#[test]
fn deleted_cgroups_use_up_numbers_only_where_they_keep_them() {
    let old = || window("kernel-limit/firing-cgroups");
    let is_found = |window: &Window| !found(window, "kernel-limit").is_empty();
    assert!(is_found(&old()));
    let mut newer = old();
    newer.now.origin.kernel = KernelVersion::parse(b"4.7.0").ok();
    assert!(!is_found(&newer));
    let count = |window: &mut Window, change: fn(&mut CgroupCount)| {
        let Reading::Value(Some(memory)) = &mut window.now.memory_hierarchy else { panic!() };
        change(memory);
    };
    let mut more = old();
    count(&mut more, |memory| memory.groups = 80_000);
    assert!(!is_found(&more));
    let mut few = old();
    count(&mut few, |memory| memory.groups = 6_000);
    assert!(!is_found(&few));
    let mut unified = old();
    count(&mut unified, |memory| memory.hierarchy = 0);
    assert!(!is_found(&unified));
}

#[test]
fn the_raised_limit_is_enough() {
    let mut window = window("kernel-limit/firing");
    let remedy = found(&window, "kernel-limit").pop().unwrap().remedy.unwrap();
    let step = format!("{:?}", remedy.steps[0]);
    assert!(step.contains("net.ipv4.tcp_mem=\\\"11000 14700 44000\\\""), "{step}");
    set(&mut window, "net.ipv4.tcp_mem", "11000 14700 44000");
    assert_eq!(found(&window, "kernel-limit"), []);
}

/// Promise (Findings): Semaphores and message queues are reported before their limits, which are raised as far as there are
/// identifiers.
#[test]
fn objects_of_system_v_are_counted_against_their_limits() {
    let kernel_sem = |change: fn(&mut Window)| {
        let mut window = window("kernel-limit/firing-semaphores");
        change(&mut window);
        found(&window, "kernel-limit")
            .pop()
            .map(|finding| (finding.headline, format!("{:?}", finding.remedy.unwrap().steps)))
    };
    let (headline, steps) = kernel_sem(|_| ()).unwrap();
    assert_eq!(headline, "sets of semaphores are at the limit kernel.sem: 125 of 128 (98%)");
    assert!(steps.contains("kernel.sem=\\\"250 32000 32 256\\\""), "{steps}");
    let few = kernel_sem(|window| set(window, "kernel.sem", "32000\t1024000000\t500\t32000"));
    assert_eq!(few, None);
    let (headline, _) = kernel_sem(|window| set(window, "kernel.sem", "250 125 32 1000")).unwrap();
    assert_eq!(headline, "semaphores are at the limit kernel.sem: 125 of 125 (100%)");
    let (_, steps) = kernel_sem(|window| {
        set(window, "kernel.sem", "250 100000 32 32768");
        window.now.semaphores = Reading::Value(Semaphores { sets: 32_768, semaphores: 32_768 });
    })
    .unwrap();
    assert!(steps.contains("ipcmni_extend") && !steps.contains("sysctl"), "{steps}");
    let mut window = window("kernel-limit/quiet");
    window.now.message_queues = Reading::Value(32_000);
    set(&mut window, "kernel.msgmni", "32000");
    let steps =
        format!("{:?}", found(&window, "kernel-limit").pop().unwrap().remedy.unwrap().steps);
    assert!(steps.contains("kernel.msgmni=\\\"32768\\\""), "{steps}");
}

#[test]
fn a_group_full_of_dentries_is_named_once_with_what_fills_it() {
    let mut window = window("cgroup-limit/firing-objects");
    let full = found(&window, "cgroup-limit");
    assert_eq!(full.len(), 1, "not of the group above it as well");
    assert!(full[0].headline.starts_with("full of kernel objects: 239.4 MiB of 256 MiB"));
    let Reading::Value(cgroups) = &mut window.now.cgroups else { panic!("cgroups") };
    for group in &mut cgroups.limited {
        group.current_bytes = Some(200_000_000);
    }
    assert_eq!(found(&window, "cgroup-limit"), [], "a group below its limit");
}

#[test]
fn a_limit_of_kernel_memory_is_found_although_the_limit_of_memory_is_far() {
    let mut window = window("cgroup-limit/firing-kernel");
    let full = found(&window, "cgroup-limit").pop().unwrap();
    assert_eq!(full.subject.to_string(), "cgroup /jobs/j1");
    assert!(full.headline.contains("memory.kmem.limit_in_bytes), refused 977 times"));
    let Reading::Value(cgroups) = &mut window.now.cgroups else { panic!("cgroups") };
    for group in &mut cgroups.limited {
        group.kernel_limit_bytes = group.kernel_limit_bytes.map(|bytes| bytes * 2);
    }
    assert_eq!(found(&window, "cgroup-limit"), [], "the limit that the remedy names");
}

#[test]
fn a_group_with_more_than_the_machine_is_at_no_limit() {
    let window = window("contradictory-counters/firing-cgroup");
    assert_eq!(found(&window, "cgroup-limit"), []);
}

/// Promise (Findings): A caller that may lock next to nothing is told so before its programs fail.
#[test]
fn a_caller_that_may_lock_nothing_is_told() {
    let mut window = window("kernel-limit/quiet");
    window.now.origin.kind = OriginKind::Live;
    window.now.origin.effective_capabilities = Some(0);
    let Reading::Value(limits) = &mut window.now.limits else { panic!("limits") };
    limits.max_locked_memory = Some(Rlimit { soft: Some(64 << 10), hard: Some(64 << 10) });
    let headline = |window: &Window| found(window, "memlock-limit").pop().map(|f| f.headline);
    assert!(headline(&window).unwrap().contains("may lock 64 KiB only"));
    window.now.origin.effective_capabilities = Some(1 << 14);
    assert_eq!(headline(&window), None, "with CAP_IPC_LOCK the limit does not count");
    window.now.origin.effective_capabilities = Some(0);
    let Reading::Value(limits) = &mut window.now.limits else { panic!("limits") };
    limits.max_locked_memory = Some(Rlimit { soft: Some(8 << 20), hard: None });
    assert_eq!(headline(&window), None, "the kernel's default");
}
