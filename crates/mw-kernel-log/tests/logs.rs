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
