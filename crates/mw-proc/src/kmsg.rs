//! `/dev/kmsg` (3.5 and later): records of the kernel's log that tell of the end of a process.

use crate::scan;

/// A record: its time, and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Since boot, without time in suspend.
    pub at_us: u64,
    pub message: Message,
}

/// What is told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// `oom-kill:constraint=…`: whose limit it was (4.19 and later).
    OomChoice {
        pid: u32,
        /// The group whose limit was met; `None` where the machine's memory was short.
        limit_of: Option<String>,
    },
    /// `Killed process 812 (postgres)`, by the OOM killer.
    OomKill { pid: u32, name: String, within_cgroup: bool },
    /// `postgres[812]: segfault at …`, and other faults that end a process.
    Fault { pid: u32, name: String, what: String },
}

/// The longest text of a fault.
const MAX_WHAT_CHARS: usize = 80;

/// Reads one record: `priority,sequence,time,flags;message`. `None` for what tells of no process.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Record> {
    let (prefix, message) = scan::split_once(text, b';')?;
    let at_us = scan::parse_u64(prefix.split(|&byte| byte == b',').nth(2)?).ok()?;
    let line = message.split(|&byte| byte == b'\n').next()?;
    let line = scan::lossy_escaped(line);
    let message = oom_choice(&line).or_else(|| oom_kill(&line)).or_else(|| fault(&line))?;
    Some(Record { at_us, message })
}

fn oom_choice(line: &str) -> Option<Message> {
    let fields = line.strip_prefix("oom-kill:")?;
    let field = |name: &str| {
        let mut values = fields.split(',').filter_map(|field| field.split_once('='));
        values.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    let pid = field("pid")?.parse().ok()?;
    Some(Message::OomChoice { pid, limit_of: field("oom_memcg") })
}

fn oom_kill(line: &str) -> Option<Message> {
    let (before, after) = line.split_once("Killed process ")?;
    let (pid, rest) = after.split_once(" (")?;
    // A name may hold brackets.
    let end = rest.find(") total-vm").or_else(|| rest.find(')'))?;
    Some(Message::OomKill {
        pid: pid.parse().ok()?,
        name: rest.get(..end)?.to_owned(),
        within_cgroup: before.starts_with("Memory cgroup"),
    })
}

/// `name[pid]: segfault at 0 ip …`, `traps: name[pid] general protection fault ip:…`.
fn fault(line: &str) -> Option<Message> {
    const FAULTS: [&str; 3] = ["segfault at ", "general protection", "trap "];
    let line = line.strip_prefix("traps: ").unwrap_or(line);
    let (name, rest) = line.split_once('[')?;
    let (pid, what) = rest.split_once(']')?;
    let what = what.trim_start_matches([':', ' ']);
    FAULTS.iter().any(|fault| what.starts_with(fault)).then_some(())?;
    Some(Message::Fault {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        what: what.chars().take(MAX_WHAT_CHARS).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> Option<Message> {
        parse(format!("4,1234,5678901,-;{line}\n SUBSYSTEM=x\n").as_bytes()).map(|r| r.message)
    }

    #[test]
    fn kills_of_the_oom_killer() {
        let line = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,\
            oom_memcg=/db,task_memcg=/db/in,task=postgres,pid=812,uid=105";
        let limit_of = Some("/db".to_owned());
        assert_eq!(message(line), Some(Message::OomChoice { pid: 812, limit_of }));
        let line = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,\
            global_oom,task_memcg=/,task=a,pid=9,uid=0";
        assert_eq!(message(line), Some(Message::OomChoice { pid: 9, limit_of: None }));
        let line = "Memory cgroup out of memory: Killed process 812 (postgres) total-vm:1kB, \
            anon-rss:2kB";
        let name = "postgres".to_owned();
        let expected = Message::OomKill { pid: 812, name, within_cgroup: true };
        assert_eq!(message(line), Some(expected));
        let line = "Out of memory: Killed process 7 (a b) total-vm:1kB";
        let expected = Message::OomKill { pid: 7, name: "a b".to_owned(), within_cgroup: false };
        assert_eq!(message(line), Some(expected));
        assert_eq!(
            parse(b"4,1,5678901,-;Out of memory: Killed process 7 (a) x\n").unwrap().at_us,
            5_678_901
        );
    }

    #[test]
    fn faults() {
        let line = "redis-server[77]: segfault at 0 ip 00005 sp 00007 error 6 in redis-server";
        assert!(matches!(message(line), Some(Message::Fault { pid: 77, .. })));
        let line = "traps: java[78] general protection fault ip:7f sp:7f error:0";
        assert!(
            matches!(message(line), Some(Message::Fault { pid: 78, name, .. }) if name == "java")
        );
    }

    #[test]
    fn other_records() {
        for line in ["", "usb 1-1: new device", "audit[5]: x", "Killed process x (y)", "oom-kill:"]
        {
            assert_eq!(message(line), None, "{line}");
        }
        for text in [&b""[..], b";", b"1;2", b"\xff,\xff,\xff;\xff"] {
            assert_eq!(parse(text), None);
        }
    }
}
