//! `/dev/kmsg` (3.5 and later): records of the kernel's log that tell of the end of a process, and of the
//! page cache that was dropped by hand.
//!
//! Names of processes are foreign text, up to 15 characters of anything: what follows one is read from its end.

use crate::oom_lines::{
    OomChoiceLine, OomConstraint, OomKillLine, OomTableHead, OomTableLine, kib,
};
use crate::scan;

/// A record: its time, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRecord {
    /// Since boot, without time in suspend.
    pub at_us: u64,
    pub message: KernelMessage,
}

/// Kinds of records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelMessage {
    /// `postgres invoked oom-killer: …`: whose allocation failed. The first record of a kill.
    OomInvoked { by: String },
    /// `memory: usage 65536kB, limit 65536kB, failcnt 12`: of the group whose limit was met.
    OomUsage { limit_bytes: u64 },
    /// The head of the table of tasks.
    OomTableHead(OomTableHead),
    /// A row of it; [`OomTableHead::task`] reads it.
    OomTableRow(String),
    /// `oom-kill:constraint=…`: whose limit it was (4.19 and later).
    OomChoice(OomChoice),
    /// `Tasks in /db are going to be killed due to memory.oom.group set`: more kills of the same choice follow.
    OomGroup,
    /// `Killed process 812 (postgres)`, by the OOM killer.
    OomKill {
        pid: u32,
        name: String,
        within_cgroup: bool,
        resident_bytes: Option<u64>,
        /// User of the process (5.5 and later), in the first user namespace.
        user: Option<u32>,
    },
    /// `postgres[812]: segfault at …`, and other faults that end a process.
    Fault { pid: u32, name: String, what: String },
    /// `bash (812): drop_caches: 3`: who wrote to the file, and what.
    DropCaches { pid: u32, name: String, value: u32 },
}

/// Victim of the OOM killer, and the domain that was short of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OomChoice {
    pub pid: u32,
    pub constraint: OomConstraint,
    /// The group whose limit was met; `None` where it was not a group's.
    pub limit_of: Option<String>,
    /// The group of the process.
    pub group: Option<String>,
}

/// The longest text of a fault.
const MAX_WHAT_CHARS: usize = 80;

/// Facilities from 1 on are programs', which may write to the log as well.
const PRIORITIES_OF_KERNEL: u64 = 8;

/// Reads one record: `priority,sequence,time,flags;message`. `None` for what a program wrote or what tells of nothing
/// here.
#[must_use]
pub fn parse(text: &[u8]) -> Option<KernelRecord> {
    let (prefix, message) = scan::split_once(text, b';')?;
    let mut fields = prefix.split(|&byte| byte == b',');
    let priority = scan::parse_u64(fields.next()?).ok()?;
    if priority >= PRIORITIES_OF_KERNEL {
        return None;
    }
    let at_us = scan::parse_u64(fields.nth(1)?).ok()?;
    let line = message.split(|&byte| byte == b'\n').next()?;
    let message = message_of(&scan::lossy_escaped(line))?;
    Some(KernelRecord { at_us, message })
}

/// Reads the text of one record.
#[must_use]
pub fn message(line: &str) -> Option<KernelMessage> {
    message_of(&scan::lossy_escaped(line.as_bytes()))
}

fn message_of(line: &str) -> Option<KernelMessage> {
    let readers =
        [oom_table, oom_invoked, oom_usage, oom_choice, oom_group, oom_kill, drop_caches, fault];
    readers.into_iter().find_map(|read| read(line))
}

/// A record as dmesg would print it, with its priority: `<4>[    5.678901] text`. Lines within it are lines again.
#[must_use]
pub fn line(text: &[u8]) -> Option<String> {
    let (prefix, message) = scan::split_once(text, b';')?;
    let mut fields = prefix.split(|&byte| byte == b',');
    let priority = scan::parse_u64(fields.next()?).ok()?;
    let at_us = scan::parse_u64(fields.nth(1)?).ok()?;
    let (seconds, fraction) = (at_us.checked_div(1_000_000)?, at_us.checked_rem(1_000_000)?);
    let message = scan::lossy(message.split(|&byte| byte == b'\n').next()?);
    let lines = message.split("\\x0a").filter(|line| !line.is_empty());
    Some(lines.map(|line| format!("<{priority}>[{seconds:5}.{fraction:06}] {line}\n")).collect())
}

fn oom_table(line: &str) -> Option<KernelMessage> {
    Some(match OomTableLine::parse(line)? {
        OomTableLine::Head(head) => KernelMessage::OomTableHead(head),
        OomTableLine::Row(row) => KernelMessage::OomTableRow(row.to_owned()),
    })
}

fn oom_invoked(line: &str) -> Option<KernelMessage> {
    let (by, _) = line.rsplit_once(" invoked oom-killer: ")?;
    Some(KernelMessage::OomInvoked { by: by.to_owned() })
}

fn oom_usage(line: &str) -> Option<KernelMessage> {
    let (_, limit) = line.strip_prefix("memory: usage ")?.split_once(", limit ")?;
    Some(KernelMessage::OomUsage { limit_bytes: kib(limit.split(',').next()?)? })
}

fn oom_choice(line: &str) -> Option<KernelMessage> {
    let choice = OomChoiceLine::parse(line)?;
    Some(KernelMessage::OomChoice(OomChoice {
        pid: choice.pid?,
        constraint: choice.constraint.unwrap_or_default(),
        limit_of: choice.limit_of.map(str::to_owned),
        group: choice.group.map(str::to_owned),
    }))
}

fn oom_group(line: &str) -> Option<KernelMessage> {
    let is_it = line.starts_with("Tasks in ") && line.ends_with("due to memory.oom.group set");
    is_it.then_some(KernelMessage::OomGroup)
}

fn oom_kill(line: &str) -> Option<KernelMessage> {
    let kill = OomKillLine::parse(line).filter(|kill| kill.is_done)?;
    Some(KernelMessage::OomKill {
        pid: kill.pid,
        name: kill.name.to_owned(),
        within_cgroup: kill.within_cgroup,
        resident_bytes: kill.resident_bytes(),
        user: kill.user,
    })
}

fn drop_caches(line: &str) -> Option<KernelMessage> {
    let (who, value) = line.rsplit_once("): drop_caches: ")?;
    let (name, pid) = who.rsplit_once(" (")?;
    Some(KernelMessage::DropCaches {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        value: value.parse().ok()?,
    })
}

/// `name[pid]: segfault at 0 ip …`, `traps: name[pid] general protection fault ip:…`.
fn fault(line: &str) -> Option<KernelMessage> {
    const FAULTS: [&str; 3] = ["segfault at ", "general protection", "trap "];
    let line = line.strip_prefix("traps: ").unwrap_or(line);
    let (name, rest) = line.split_once('[')?;
    let (pid, what) = rest.split_once(']')?;
    let what = what.trim_start_matches([':', ' ']);
    FAULTS.iter().any(|fault| what.starts_with(fault)).then_some(())?;
    Some(KernelMessage::Fault {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        what: what.chars().take(MAX_WHAT_CHARS).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> Option<KernelMessage> {
        parse(format!("4,1234,5678901,-;{line}\n SUBSYSTEM=x\n").as_bytes()).map(|r| r.message)
    }

    fn choice(line: &str) -> OomChoice {
        match message(line) {
            Some(KernelMessage::OomChoice(choice)) => choice,
            other => panic!("{other:?}"),
        }
    }

    /// Promise (The recorder): What a process is called, what programs write to the kernel's log, and numbers of
    /// another PID namespace mislead no incident of kills.
    #[test]
    fn whom_the_oom_killer_chose() {
        let line = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
            oom_memcg=/db,task_memcg=/db/in,task=postgres,pid=812,uid=105";
        let expected = OomChoice {
            pid: 812,
            constraint: OomConstraint::Cgroup,
            limit_of: Some("/db".to_owned()),
            group: Some("/db/in".to_owned()),
        };
        assert_eq!(choice(line), expected);
        let hostile = line.replace("task=postgres", "task=a,pid=1,uid=0");
        assert_eq!(choice(&hostile), expected);
        let line = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,\
            global_oom,task_memcg=/,task=a,pid=9,uid=0";
        let group = Some("/".to_owned());
        assert_eq!(choice(line), OomChoice { pid: 9, group, ..OomChoice::default() });
        let line = "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,2,cpuset=a,mems_allowed=0,\
            global_oom,task_memcg=/,task=,oom_memcg=/x,pid=9,uid=0";
        let found = choice(line);
        assert_eq!((found.constraint, found.limit_of), (OomConstraint::Cpuset, None));
    }

    #[test]
    fn a_record_is_a_line_of_dmesg() {
        let record = b"4,1234,5678901,-;Mem-Info:\\x0a free:7\n SUBSYSTEM=x\n";
        let expected = "<4>[    5.678901] Mem-Info:\n<4>[    5.678901]  free:7\n";
        assert_eq!(line(record).as_deref(), Some(expected));
        assert_eq!(line(b"4,1"), None);
    }

    #[test]
    fn whom_the_oom_killer_ended() {
        let kill = |pid, name: &str, within_cgroup, kib: Option<u64>, user| {
            Some(KernelMessage::OomKill {
                pid,
                name: name.to_owned(),
                within_cgroup,
                resident_bytes: kib.map(|kib| kib << 10),
                user,
            })
        };
        let line = "Memory cgroup out of memory: Killed process 812 (postgres) total-vm:9kB, \
            anon-rss:2kB, file-rss:3kB, shmem-rss:4kB, UID:105 pgtables:60kB oom_score_adj:0";
        assert_eq!(message(line), kill(812, "postgres", true, Some(9), Some(105)));
        let hostile = line.replace("(postgres)", "(x) total-vm:1kB)");
        assert_eq!(message(&hostile), kill(812, "x) total-vm:1kB", true, Some(9), Some(105)));
        let line = "Out of memory: Killed process 7 (a b) total-vm:1kB";
        assert_eq!(message(line), kill(7, "a b", false, None, None));
        let old = message("Killed process 7 (a), UID 0, total-vm:1kB");
        assert_eq!(old, kill(7, "a", false, None, None));
        let line = "Tasks in /db are going to be killed due to memory.oom.group set";
        assert_eq!(message(line), Some(KernelMessage::OomGroup));
        assert_eq!(
            parse(b"4,1,5678901,-;Out of memory: Killed process 7 (a) x\n").unwrap().at_us,
            5_678_901
        );
    }

    #[test]
    fn who_held_what() {
        let head = |line: &str| match message(line) {
            Some(KernelMessage::OomTableHead(head)) => head,
            other => panic!("{other:?}"),
        };
        let row = |head: OomTableHead, line: &str| match message(line) {
            Some(KernelMessage::OomTableRow(row)) => head.task(&row).map(|task| {
                (task.pid, task.name.to_owned(), task.resident_pages, task.swapped_pages)
            }),
            other => panic!("{other:?}"),
        };
        let task = |pid, name: &str, resident_pages, swapped_pages| {
            Some((pid, name.to_owned(), resident_pages, swapped_pages))
        };
        for (first, line) in [
            (
                "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
                "[    812]   105   812   245813      448   200704       12         -1000 7  a [1]",
            ),
            (
                "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes \
                 swapents oom_score_adj name",
                "[    812]   105   812   245813      448      400       40         8   200704       \
                 12         -1000 7  a [1]",
            ),
            (
                "[ pid ]   uid  tgid total_vm      rss nr_ptes nr_pmds swapents oom_score_adj name",
                "[  812]   105   812     2927      448       5       0       12         -1000 7  a [1]",
            ),
        ] {
            assert_eq!(row(head(first), line), task(812, "7  a [1]", 448, 12));
            assert_eq!(head(first).task("[    1]     0     1"), None);
        }
        let line =
            "postgres invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";
        assert_eq!(message(line), Some(KernelMessage::OomInvoked { by: "postgres".to_owned() }));
        let line = "memory: usage 65536kB, limit 65536kB, failcnt 12";
        assert_eq!(message(line), Some(KernelMessage::OomUsage { limit_bytes: 64 << 20 }));
    }

    #[test]
    fn who_dropped_caches() {
        let dropped = |pid, name: &str, value| {
            Some(KernelMessage::DropCaches { pid, name: name.to_owned(), value })
        };
        assert_eq!(message("bash (812): drop_caches: 3"), dropped(812, "bash", 3));
        let hostile = "a (1): drop_cac (812): drop_caches: 1";
        assert_eq!(message(hostile), dropped(812, "a (1): drop_cac", 1));
    }

    #[test]
    fn faults() {
        let line = "redis-server[77]: segfault at 0 ip 00005 sp 00007 error 6 in redis-server";
        assert!(matches!(message(line), Some(KernelMessage::Fault { pid: 77, .. })));
        let line = "traps: java[78] general protection fault ip:7f sp:7f error:0";
        assert!(
            matches!(message(line), Some(KernelMessage::Fault { pid: 78, name, .. }) if name == "java")
        );
    }

    #[test]
    fn other_records() {
        for line in [
            "",
            "usb 1-1: new device",
            "audit[5]: x",
            "Killed process x (y)",
            "oom-kill:",
            "x: Out of memory: Killed process 7 (a) total-vm:1kB",
            "[drm] Initialized",
            "[1",
        ] {
            assert_eq!(message(line), None, "{line}");
        }
        for text in [&b""[..], b";", b"1;2", b"\xff,\xff,\xff;\xff"] {
            assert_eq!(parse(text), None);
        }
        let of_program = b"12,1,5678901,-;Out of memory: Killed process 7 (a) x\n";
        assert_eq!(parse(of_program), None, "a program may write anything to the log");
    }
}
