//! Logs of our own in every shape: the answer is the same whatever stands before a line.

use mw_kernel_log::{GroupKind, KernelLogAnswer, LogCause, explain};
use proptest::prelude::*;

const SPARC: &str = include_str!("logs/sparc64.log");
const POLICY: &str = include_str!("logs/memory-policy.log");
const LOW: &str = include_str!("logs/low-memory-32-bit.log");
const CONTAINER: &str = include_str!("logs/container-limit-v2.log");
const CMA: &str = include_str!("logs/cma-atomic.log");

const BASES: [(&str, LogCause, &str); 5] = [
    (
        SPARC,
        LogCause::Programs,
        "cc1plus (90115) was killed: 3 processes of cc1plus held 14.3 GiB of 15.7 GiB",
    ),
    (
        POLICY,
        LogCause::MemoryPolicy,
        "simul (7100) was killed: the nodes of its memory policy (node 1) had no memory left",
    ),
    (
        LOW,
        LogCause::LowZone,
        "httpd (2310) was killed: zones DMA and Normal had no memory left while 1.8 GiB were free above",
    ),
    (
        CONTAINER,
        LogCause::CgroupLimit,
        "node (41000) was killed: its container reached its memory limit of 256 MiB",
    ),
    (
        CMA,
        LogCause::Cma,
        "kworker/1:2 could not get one page without waiting: free memory was in CMA",
    ),
];

fn text(answer: &KernelLogAnswer) -> String {
    let rows = answer.groups.iter().flat_map(|group| &group.rows);
    rows.map(|row| format!("{}: {}\n", row.label, row.text)).collect()
}

fn prefixed(log: &str, prefix: impl Fn(usize) -> String) -> String {
    log.lines().enumerate().map(|(at, line)| format!("{}{line}\n", prefix(at))).collect()
}

/// Programs' and pastes' shapes of one log.
fn shapes(log: &str) -> Vec<(&'static str, String)> {
    let with = |prefix: fn(usize) -> String| prefixed(log, prefix);
    let json = |line: &str| serde_json::Value::from(line).to_string();
    let lines = || log.lines();
    vec![
        ("bare", log.to_owned()),
        ("dmesg", with(|at| format!("[  900.{at:06}] "))),
        ("caller", with(|at| format!("[  900.{at:06}][ T712] "))),
        ("ctime", with(|_| "[Thu Dec  7 00:05:14 2017] ".to_owned())),
        ("dmesg -x", with(|_| "kern  :warn  : [Thu Dec  7 00:05:14 2017] ".to_owned())),
        ("priority", with(|at| format!("<4>[  900.{at:06}] "))),
        ("syslog", with(|at| format!("Jan 29 01:42:13 web3 kernel: [  900.{at:06}] "))),
        ("syslog without uptime", with(|_| "Jan 29 01:42:13 web3 kernel: ".to_owned())),
        ("without a host", with(|_| "Jan 29 01:42:13 kernel: ".to_owned())),
        ("tag", with(|_| "kernel: ".to_owned())),
        ("iso", with(|at| format!("2026-02-03T04:05:06.{at:06}+09:00 web3 kernel: "))),
        ("talos", with(|at| format!("10.5.0.3: kern: warning: [2026-02-03T04:05:06.{at:06}Z]: "))),
        (
            "openwrt",
            with(|at| format!("Thu Dec  7 00:05:14 2017 kern.warn kernel: [  900.{at:06}] ")),
        ),
        (
            "vmware",
            with(|at| format!("2024-05-06T07:08:09.1Z| vcpu-5| Guest: <4>[ 1000.{at:06}] ")),
        ),
        ("guest", with(|at| format!("vcpu-5 - Guest: <6>[ 1000.{at:06}] "))),
        ("compose", with(|at| format!("edge-agent_1  | [ 1000.{at:06}] "))),
        ("tabs", with(|_| "2026-02-03T04:05:06Z\tweb3\tkernel\t".to_owned())),
        ("quoted", with(|at| format!("> > [  900.{at:06}] "))),
        ("indented", with(|_| "      ".to_owned())),
        ("numbered", with(|at| format!("{} [  900.{at:06}] ", at + 565))),
        ("coloured", with(|at| format!("\x1b[32m[  900.{at:06}] \x1b[0m"))),
        ("padded", lines().map(|line| format!("[  900.000001] {line:<250}\r\n")).collect()),
        (
            "docker",
            lines()
                .map(|line| format!("{{\"log\":{},\"time\":\"t\"}}\n", json(&format!("{line}\n"))))
                .collect(),
        ),
        (
            "journal",
            lines()
                .map(|line| {
                    format!("{{\"SYSLOG_IDENTIFIER\":\"kernel\",\"MESSAGE\":{}}}\n", json(line))
                })
                .collect(),
        ),
        ("pretty", lines().map(|line| format!("\t\"MESSAGE\" : {},\n", json(line))).collect()),
        ("export", lines().map(|line| format!("_HOSTNAME=a\nMESSAGE={line}\n\n")).collect()),
        ("garbled", prefixed(log, |_| "[  900.000001] ".to_owned()).replace("+0x", "\u{fffd}+0x")),
    ]
}

/// Promise (Kernel logs): The answer is the same in every shape in which programs write a log and people paste it.
#[test]
fn the_answer_does_not_depend_on_the_shape() {
    for (base, cause, summary) in BASES {
        let expected = text(&explain(base.as_bytes()));
        for (name, log) in shapes(base) {
            let answer = explain(log.as_bytes());
            assert_eq!(answer.summary, summary, "{name}\n{log}");
            assert_eq!(answer.groups[0].cause, Some(cause), "{name}");
            assert_eq!(text(&answer), expected, "{name}");
        }
    }
}

/// Lines of a mail end between words, those of a terminal at a column.
#[test]
fn folded_lines_are_put_together() {
    for (base, _, summary) in BASES {
        for width in [72, 78] {
            let stamped = prefixed(base, |at| format!("[  900.{at:06}] "));
            let folded: String = stamped.lines().map(|line| fold(line, width)).collect();
            assert_eq!(explain(folded.as_bytes()).summary, summary, "{width}\n{folded}");
        }
    }
}

fn fold(line: &str, width: usize) -> String {
    let mut out = String::from("> ");
    let mut column = 0;
    for word in line.split(' ') {
        if column > 0 && column + 1 + word.len() > width {
            out.push_str("\n> ");
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.len();
    }
    out + "\n"
}

#[test]
fn two_reports_at_once_are_of_one_cause() {
    let answer = explain(include_bytes!("logs/two-cpus.log"));
    let [group] = answer.groups.as_slice() else { panic!("{answer:?}") };
    assert_eq!((group.count, group.cause), (2, Some(LogCause::Fragmentation)));
    assert!(answer.summary.ends_with("the largest free block has 8 KiB"), "{}", answer.summary);
}

/// Promise (Kernel logs): Words of programs, of RCU and of a daemon that kills are no kill of the kernel.
#[test]
fn words_that_mislead_mislead_nobody() {
    for (log, summary) in [
        (&include_bytes!("logs/java-heap.log")[..], "the kernel killed nothing: a Java program"),
        (include_bytes!("logs/rcu-words.log"), "the kernel killed nothing: RCU's words"),
        (include_bytes!("logs/earlyoom.log"), "earlyoom, not the kernel, killed chrome (9912)"),
        (include_bytes!("logs/soft-lockup.log"), "CPU 3 did not schedule for 23 s in kswapd0"),
        (b"[    1.000000] eth0: link up\n", "no kill, failed allocation or blocked task in 1 line"),
        (b"", "unknown: "),
    ] {
        let answer = explain(log);
        assert!(answer.summary.starts_with(summary), "{}", answer.summary);
        assert!(answer.groups.iter().all(|group| group.kind != GroupKind::OomKill), "{answer:?}");
    }
    let answer = explain(include_bytes!("logs/earlyoom.log"));
    let last = answer.groups.last().unwrap();
    assert_eq!(last.cause, Some(LogCause::OptionalRequest), "{answer:?}");
}

/// A log that begins or ends within a report says what it has.
#[test]
fn a_part_of_a_report_is_read_as_far_as_it_goes() {
    let lines: Vec<&str> = SPARC.lines().collect();
    for cut in 1..lines.len() {
        let end = explain(lines[cut..].join("\n").as_bytes());
        assert!(
            end.summary.contains("cc1plus (90115) was killed") || cut + 1 == lines.len(),
            "{cut}: {}",
            end.summary
        );
        let begin = explain(lines[..cut].join("\n").as_bytes());
        assert!(
            begin.groups.iter().all(|group| group.request.is_some() || !group.victims.is_empty()),
            "{cut}"
        );
    }
}

#[test]
fn many_kills_are_one_group() {
    let log = prefixed(&CONTAINER.repeat(300), |at| format!("[{:5}.{:06}] ", at / 50, at));
    let answer = explain(log.as_bytes());
    let [group] = answer.groups.as_slice() else { panic!("{:?}", answer.groups.len()) };
    assert_eq!(group.count, 300);
    assert!(group.rows[0].text.contains("killed: node (300 times)"), "{:?}", group.rows[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise (Kernel logs): No input makes the reader panic, and the answer is bounded.
    #[test]
    fn any_bytes_have_a_bounded_answer(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000),
        cuts in proptest::collection::vec((0_usize..4_000, any::<u8>()), 0..40),
        which in 0_usize..5,
    ) {
        let answer = explain(&bytes);
        prop_assert!(answer.groups.len() <= 12);
        let mut log = BASES[which].0.as_bytes().to_vec();
        for (at, byte) in cuts {
            let at = at % log.len();
            log[at] = byte;
        }
        let answer = explain(&log);
        prop_assert!(answer.groups.len() <= 12);
        prop_assert!(text(&answer).len() < 64 << 10);
    }
}

/// Zones of two nodes, of which the first has no memory left.
const TWO_NODES: &str = "\
Mem-Info:
active_anon:6100000 inactive_anon:20000 isolated_anon:0
 active_file:1000 inactive_file:1000 isolated_file:0
 unevictable:0 dirty:0 writeback:0 unstable:0
 free:5600000 slab_reclaimable:9000 slab_unreclaimable:9000
 mapped:900 shmem:90 pagetables:12000 bounce:0
Node 0 Normal free:15000kB min:15200kB low:19000kB high:22800kB present:25165824kB
lowmem_reserve[]: 0 0 0 0
Node 1 Normal free:22385000kB min:17400kB low:21750kB high:26100kB present:25165824kB
lowmem_reserve[]: 0 0 0 0
Node 0 Normal: 3750*4kB 0*8kB = 15000kB
Node 1 Normal: 250*4kB 0*8kB 5465*4096kB = 22385640kB
0 pages in swap cache
Free swap  = 0kB
Total swap = 0kB
12582912 pages RAM
";

fn of_nodes(allowed: &str) -> KernelLogAnswer {
    explain(
        format!(
            "sim invoked oom-killer: gfp_mask=0x280da, order=0, oom_adj=0\n\
             sim cpuset=user mems_allowed={allowed}\n\
             Pid: 77, comm: sim Not tainted 2.6.32.12-0.7-default #1\n{TWO_NODES}\
             Out of memory: kill process 77 (sim) score 900 or a child\n\
             Killed process 77 (sim) vsz:24000000kB, anon-rss:24000000kB, file-rss:0kB\n"
        )
        .as_bytes(),
    )
}

/// Before 2.6.39 the kernel lists the nodes that the task may not use as well.
#[test]
fn a_cpuset_is_the_cause_only_where_other_nodes_have_the_memory() {
    let confined = of_nodes("0");
    assert_eq!(confined.groups[0].cause, Some(LogCause::Cpuset), "{confined:?}");
    assert!(text(&confined).contains("allows node 0 only while other nodes had 21.3 GiB free"));
    assert_ne!(of_nodes("0-1").groups[0].cause, Some(LogCause::Cpuset));
    assert_ne!(of_nodes("1").groups[0].cause, Some(LogCause::Cpuset), "its own node has memory");
}

fn of_low_memory(dma_free_kb: u64, order: u32) -> KernelLogAnswer {
    let log = format!(
        "squid invoked oom-killer: gfp_mask=0x42d0, order={order}, oom_score_adj=0
squid cpuset=/ mems_allowed=0
CPU: 9 PID: 145 Comm: squid Not tainted 3.10.24 #1
Mem-Info:
active_anon:658515 inactive_anon:54399 isolated_anon:0
 free:6911872 slab_reclaimable:58120 slab_unreclaimable:26010
DMA free:{dma_free_kb}kB min:36kB low:44kB high:52kB present:15968kB managed:6960kB
lowmem_reserve[]: 0 573 36539 36539
Normal free:37856kB min:3044kB low:3804kB high:4564kB present:897016kB managed:587688kB
lowmem_reserve[]: 0 0 287725 287725
HighMem free:27607300kB min:512kB low:48272kB high:96036kB present:36828872kB managed:36828872kB
lowmem_reserve[]: 0 0 0 0
DMA: 1*4kB (UE) 1*8kB (UE) 1*16kB (UE) 0*32kB 0*64kB 0*128kB 1*256kB (UE) 0*512kB 0*1024kB 1*2048kB (UE) 0*4096kB = 2332kB
Normal: 5682*4kB (UEM) 1561*8kB (UEM) 165*16kB (UEM) 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 0*4096kB = 37856kB
HighMem: 1*4kB (UM) 0*8kB 6740*4096kB (UM) = 27607300kB
9437184 pages RAM
"
    );
    // A daemon leaves a column empty behind its tag.
    let prefix = |at| format!("Dec 27 08:49:05 proxy kernel: : [267622.{at:06}] ");
    explain(prefixed(&log, prefix).as_bytes())
}

/// A block is served only if the watermark holds without it: zone DMA is some pages above, and all its memory is kept.
#[test]
fn low_memory_of_a_32_bit_kernel_is_named_where_high_memory_is_free() {
    let answer = of_low_memory(2332, 3);
    assert_eq!(answer.groups[0].cause, Some(LogCause::Fragmentation), "{answer:?}");
    let text = text(&answer);
    assert!(text.contains("26.3 GiB are free in higher zones"), "{text}");
    assert!(text.contains("remedy: a 64-bit kernel"), "{text}");
    assert_ne!(of_low_memory(9000, 3).groups[0].cause, Some(LogCause::Fragmentation), "DMA has it");
}

#[test]
fn swap_is_full_with_some_pages_free() {
    let reason = |free_kb: u64| {
        let swap = format!("Free swap  = {free_kb}kB\nTotal swap = 4194300kB");
        let log = of_swap(&swap);
        text(&explain(log.as_bytes()))
    };
    assert!(reason(24).contains("swap is full"), "{}", reason(24));
    assert!(!reason(400_000).contains("swap is full"));
}

fn of_swap(swap: &str) -> String {
    let head = "sim invoked oom-killer: gfp_mask=0x280da, order=0, oom_adj=0\n\
        Pid: 77, comm: sim Not tainted 2.6.32.12-0.7-default #1\n";
    let memory = TWO_NODES.replace("Free swap  = 0kB\nTotal swap = 0kB", swap);
    format!(
        "{head}{memory}Killed process 77 (sim) vsz:24000000kB, anon-rss:24000000kB, file-rss:0kB\n"
    )
}

/// Promise (Kernel logs): A refusal at a limit of tasks, sockets or bounce buffers is not reported as a shortage of memory.
#[test]
fn a_limit_of_tasks_is_not_the_heap_of_a_program() {
    let log = "Jun 19 20:23:11 a kernel: [403.164] cgroup: fork rejected by pids controller in /ci.service\n\
        Jun 19 20:40:02 a java[99]: java.lang.OutOfMemoryError: unable to create new native thread\n";
    let answer = explain(log.as_bytes());
    assert!(answer.summary.contains("limit of tasks (pids.max) of /ci.service"), "{answer:?}");
    assert!(!answer.notes.iter().any(|note| note.contains("-Xmx")), "{answer:?}");
    let map = explain(b"Jun 19 20:40:02 a java[99]: java.lang.OutOfMemoryError: Map failed\n");
    assert!(map.summary.contains("vm.max_map_count"), "{map:?}");
    assert!(!map.notes.iter().any(|note| note.contains("-Xmx")), "{map:?}");
    let heap =
        explain(b"Jun 19 20:40:02 a java[99]: java.lang.OutOfMemoryError: Java heap space\n");
    assert!(heap.summary.contains("its own heap"), "{heap:?}");
}

/// Kill of a task that the kernel kills first whatever its size, with the call trace that shows why.
fn of_first_victim(name: &str, function: &str, anon_kb: u64) -> KernelLogAnswer {
    explain(log_of_first_victim("sh", name, function, anon_kb).as_bytes())
}

fn log_of_first_victim(asker: &str, name: &str, function: &str, anon_kb: u64) -> String {
    let memory = TWO_NODES.replace("free:5600000", "free:9000").replace("22385000kB", "17000kB");
    format!(
        "{asker} invoked oom-killer: gfp_mask=0x280da, order=0, oom_adj=0\n\
         Call Trace:\n out_of_memory+0x5b/0x409\n {function}+0x37/0x114\n{memory}\
         [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n\
         [   2512]     0  2512  1204112   602112  9437184   262144             0 python3\n\
         Out of memory: Killed process 77 ({name}) total-vm:7560kB, anon-rss:{anon_kb}kB, file-rss:2136kB, \
         shmem-rss:0kB, UID:0 pgtables:48kB oom_score_adj:0\n"
    )
}

/// Promise (Kernel logs): A kill that kswapd starts itself is attributed to the age that the multi-gen LRU protects.
#[test]
fn a_kill_by_kswapd_is_one_of_the_age_that_it_may_not_reclaim() {
    let answer = |asker| explain(log_of_first_victim(asker, "a", "kswapd", 312).as_bytes());
    let by_kswapd = answer("kswapd3");
    assert_eq!(by_kswapd.groups[0].cause, Some(LogCause::ProtectedAge));
    assert!(text(&by_kswapd).contains("min_ttl_ms"), "{by_kswapd:?}");
    assert_ne!(answer("kswapdoctor").groups[0].cause, Some(LogCause::ProtectedAge));
}

/// Promise (Kernel logs): A kill because of what its victim had the kernel do is not blamed on the largest program.
#[test]
fn what_swaps_off_or_unmerges_is_killed_for_what_it_does() {
    let cause = |answer: &KernelLogAnswer| answer.groups[0].cause.unwrap();
    let swapoff = of_first_victim("swapoff", "try_to_unuse", 312);
    assert_eq!(cause(&swapoff), LogCause::SwapOff);
    // The area counts neither as total nor as free: the rows of processes have its pages.
    assert!(swapoff.summary.ends_with("what swapoff reads back from swap (1 GiB)"), "{swapoff:?}");
    assert!(!text(&swapoff).contains("swap: none"), "{swapoff:?}");
    let by_another = of_first_victim("swapoff", "filemap_fault", 312);
    assert_eq!(cause(&by_another), LogCause::SwapOff, "another task ran out of memory");
    let only_named_so = of_first_victim("swapoff", "filemap_fault", 24_000_000);
    assert_ne!(cause(&only_named_so), LogCause::SwapOff);
    let unmerge = of_first_victim("sh", "unmerge_and_remove_all_rmap_items", 312);
    assert_eq!(cause(&unmerge), LogCause::KsmUnmerge);
    assert_eq!(cause(&of_first_victim("sh", "__rb_allocate_pages", 312)), LogCause::TraceBuffers);
    assert_eq!(cause(&of_first_victim("sh", "filemap_fault", 312)), LogCause::Uncounted);
}

/// Promise (Kernel logs): What hurts nobody is told from a shortage: a request for a zone without pages, khugepaged's in the
/// background, a kernel thread that was never started.
#[test]
fn what_hurts_nobody_is_told_from_a_shortage() {
    let summary = |log: &str| explain(log.as_bytes()).summary;
    let stalled = "khugepaged: page allocation stalls for 10273ms, order:10, mode:0x4340ca(__GFP_HIGHMEM|__GFP_IO), \
                   nodemask=(null)\n";
    assert_eq!(
        summary(stalled),
        "khugepaged waited 10 s for 4 MiB: harmless, it works in the background"
    );
    assert!(summary(&stalled.replace("khugepaged", "postgres")).contains("too slowly"));
    let empty = "swapper/0: page allocation failure: order:5, mode:0xcc1(GFP_KERNEL|GFP_DMA), nodemask=(null)\n\
                 CPU: 0 PID: 1 Comm: swapper/0 Not tainted 5.13.0 #1\n\
                 Call Trace:\n alloc_page_interleave+0x13/0xb0\n dma_atomic_pool_init+0xdb/0x176\n do_one_initcall+0x67/0x320\n\
                 Mem-Info:\n\
                 Node 0 DMA free:0kB min:0kB low:0kB high:0kB present:636kB managed:0kB\n\
                 lowmem_reserve[]: 0 193 193 193 193\n\
                 Node 0 DMA32 free:165604kB min:2020kB low:2524kB high:3028kB present:260636kB managed:201620kB\n\
                 lowmem_reserve[]: 0 0 0 0 0\n";
    assert_eq!(
        summary(empty),
        "dma_atomic_pool_init (at boot) could not get 128 KiB: the zone that it asks for has no pages"
    );
    let cut = empty
        .replace("Node 0 DMA free:0kB min:0kB low:0kB high:0kB present:636kB managed:0kB\n", "");
    assert!(!summary(&cut).contains("no pages"), "the zone is not in the log");
    let hung = "INFO: task vchiq-keep/0:85 blocked for more than 120 seconds.\n\
                task:vchiq-keep/0    state:D stack:0     pid:85    tgid:85    ppid:2      flags:0x00000008\n\
                Call trace:\n __switch_to+0x188/0x230\n __schedule+0xa54/0xb28\n schedule+0x80/0x120\n \
                schedule_preempt_disabled+0x30/0x50\n kthread+0xd4/0x1a0\n ret_from_fork+0x10/0x20\n";
    assert!(summary(hung).ends_with("the driver that made it and has not started it"));
    let works = hung.replace(" kthread+", " vchiq_keepalive_thread_func+0x10/0x20\n kthread+");
    assert!(summary(&works).ends_with("something that the call trace does not show"));
}

/// Promise (Kernel logs): Objects of a cgroup that cannot be allocated, while no allocation of pages failed, are its limit and
/// not the machine's memory.
#[test]
fn objects_of_a_cgroup_are_refused_at_its_limit() {
    let log = "[ 8642.253395] SLUB: Unable to allocate memory on node -1, gfp=0xa20(GFP_ATOMIC)
[ 8642.269170]   cache: tw_sock_TCPv6(960:logs), object size: 232, buffer size: 240, default order: 1, min order: 0
[ 8642.293009]   node 0: slabs: 5, objs: 170, free: 0
";
    let of_group = explain(log.as_bytes());
    assert_eq!(of_group.groups[0].cause, Some(LogCause::CgroupLimit));
    assert!(
        of_group.summary.starts_with("cgroup logs had no room for kernel objects (tw_sock_TCPv6)")
    );
    assert!(text(&of_group).contains("network packets may have been dropped"));
    for other in [
        log.replace("gfp=0xa20(GFP_ATOMIC)", "gfp=0xcc0(GFP_KERNEL)"),
        format!(
            "[ 8600.1] a: page allocation failure: order:0, mode:0xa20(GFP_ATOMIC)\n[ 8601.1] X\n{log}"
        ),
    ] {
        let mut causes =
            explain(other.as_bytes()).groups.into_iter().filter_map(|group| group.cause);
        assert!(causes.all(|cause| cause != LogCause::CgroupLimit), "{other}");
    }
    let of_machine = explain(log.replace("(960:logs)", "").as_bytes());
    assert_eq!(of_machine.groups[0].cause, Some(LogCause::AtomicReserve));
}

/// Promise (Kernel logs): Kernels before 4.4 refuse a block that they have where too little of the free memory is in larger
/// blocks: that is fragmentation, not a shortage.
#[test]
fn old_kernels_keep_the_larger_blocks() {
    let of = |kernel: &str, small: u64| {
        let free = small * 8 + 4096;
        explain(
            format!(
                "[ 1.0] kworker/u:0: page allocation failure: order:4, mode:0xd0
[ 1.0] Pid: 7122, comm: kworker/u:0 Not tainted {kernel} #206
[ 1.0]  [<ffffffff812a633c>] ? kmem_cache_alloc_trace+0x87/0xf6
[ 1.0]  [<ffffffff812a633c>] ? check_partition+0x28/0x1ac
[ 1.0] Mem-Info:
[ 1.0] active_anon:100 inactive_anon:100 isolated_anon:0
[ 1.0]  active_file:100000 inactive_file:100000 isolated_file:0
[ 1.0]  free:{} slab_reclaimable:1000 slab_unreclaimable:1000
[ 1.0] Node 0 Normal free:{free}kB min:33804kB low:42252kB high:50704kB present:3102720kB managed:3055508kB
[ 1.0] lowmem_reserve[]: 0 0 0 0
[ 1.0] Node 0 Normal: 0*4kB {small}*8kB 0*16kB 0*32kB 0*64kB 0*128kB 0*256kB 0*512kB 0*1024kB 0*2048kB 1*4096kB = {free}kB
",
                free / 4
            )
            .as_bytes(),
        )
    };
    let old = of("3.8.0-4", 10_000);
    assert_eq!(old.groups[0].cause, Some(LogCause::Fragmentation), "{}", text(&old));
    assert!(text(&old).contains("probably in check_partition()"), "{}", text(&old));
    assert_ne!(of("4.19.0-4", 10_000).groups[0].cause, Some(LogCause::Fragmentation));
}

/// Promise (Kernel logs): A process that is chosen again and again did not end, and is not told as killed.
#[test]
fn a_process_that_is_chosen_again_did_not_end() {
    let line = "Memory cgroup out of memory: kill process 6016 (java) score 0 or a child\n";
    let again = explain(format!("[ 1.0] {line}[ 2.0] {line}[ 3.0] {line}").as_bytes());
    assert!(again.summary.starts_with("the kernel chose java (6016) 3 times, and it did not end"));
    let once = explain(format!("[ 1.0] {line}").as_bytes());
    assert!(once.summary.starts_with("java (6016) was killed"), "{}", once.summary);
    let killed = "Killed process 6016 (java) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n";
    for log in [
        format!("[ 1.0] {line}[ 2.0] {line}[ 3.0] {line}[ 4.0] {killed}"),
        format!("[ 1.0] {line}[ 1.0] {line}[ 1.0] {line}"),
    ] {
        let summary = explain(log.as_bytes()).summary;
        assert!(summary.starts_with("java (6016) was killed"), "{summary}: {log}");
    }
    let unknown =
        explain(b"[ 1.0] redis-server invoked oom-killer: gfp_mask=0xd0, order=0, oom_adj=-17\n");
    assert!(
        text(&unknown).contains("or the limit of a cgroup: the log has no"),
        "{}",
        text(&unknown)
    );
}

/// Promise (Kernel logs): The caches of a report that has lost its other lines are what held the memory.
#[test]
fn caches_alone_are_an_answer() {
    let answer = explain(
        b"[ 1.0] ip invoked oom-killer: gfp_mask=0xc2cc0(GFP_KERNEL|__GFP_COMP), order=3, oom_score_adj=0
[ 1.0] Unreclaimable slab info:
[ 1.0] Name                      Used          Total
[ 1.0] btrfs_extent_map     3207098KB    3375622KB
",
    );
    assert_eq!(answer.groups[0].cause, Some(LogCause::UnreclaimableSlab));
    assert!(answer.summary.ends_with("unreclaimable slab held 3.2 GiB, mostly btrfs_extent_map"));
}

/// Promise (Kernel logs): The kernel that saves a dump is known by the tables of the IOMMU that it takes over.
#[test]
fn the_kernel_of_a_dump_is_known_by_its_iommu() {
    let answer = explain(b"[ 3.0] Copied DEV table from previous kernel.\n");
    assert!(answer.notes.iter().any(|note| note.contains("crashkernel=")), "{:?}", answer.notes);
}
