//! What the kernel's log says of the end of processes and of dropped caches, from /dev/kmsg.

use mw_model::{MemoryHolder, Missing, OomHistory, OomShortage, OomVictim, ServiceProcess};
use mw_proc::kmsg::{self, KernelMessage, OomChoice};
use mw_proc::oom_lines::{OomConstraint, OomTableHead, OomTask};
use mw_sys::{PidNamespace, monotonic_ns, unix_ms};
use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use rustix::io::Errno;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

const FILE: &str = "/dev/kmsg";

/// Messages that are kept, the latest.
const MAX_KEPT: usize = 256;
/// Kills, and writes to drop_caches, that wait to be taken; later ones are only counted.
const MAX_UNTAKEN: usize = 256;
/// Records that are read at once: what the largest usual buffer holds.
const MAX_RECORDS: usize = 20_000;
/// A record is never longer (CONSOLE_EXT_LOG_MAX of the kernel).
const RECORD_BYTES: usize = 8192;
/// The largest holders of memory that are kept of a kill.
const MAX_HOLDERS: usize = 8;

/// Follows the kernel's log from when it was opened.
#[derive(Debug)]
pub struct KernelLog {
    /// Or why it may not be read.
    file: io::Result<OwnedFd>,
    /// It counts processes in another namespace than this program.
    is_foreign: bool,
    kept: VecDeque<LoggedEnd>,
    untaken: LoggedEvents,
    shortage: OomFacts,
}

/// A message with its time.
#[derive(Debug, Clone)]
pub(crate) struct LoggedEnd {
    pub(crate) unix_ms: u64,
    pub(crate) message: KernelMessage,
}

/// Records since they were last taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedEvents {
    pub kills: Vec<LoggedKill>,
    pub drops: Vec<LoggedDrop>,
    /// Kills that are in neither list: there were too many.
    pub more_kills: u64,
    /// The kernel overwrote records before they were read.
    pub has_lost: bool,
}

/// A kill of the OOM killer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedKill {
    pub victim: OomVictim,
    /// The largest, where the kernel listed them.
    pub holders: Vec<MemoryHolder>,
}

/// A write to /proc/sys/vm/drop_caches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedDrop {
    pub unix_ms: u64,
    pub process: ServiceProcess,
    pub value: u32,
}

/// Facts from the records before a kill.
#[derive(Debug, Default)]
struct OomFacts {
    invoked_by: Option<String>,
    limit_bytes: Option<u64>,
    head: Option<OomTableHead>,
    largest: Vec<MemoryHolder>,
    choice: Option<OomChoice>,
    /// Others of the group are killed as well.
    of_group: bool,
}

fn open_log() -> Result<OwnedFd, Errno> {
    open(FILE, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

fn unreadable(error: Errno) -> Missing {
    match error {
        Errno::NOENT => Missing::absent(FILE, "no such file"),
        error => Missing::skipped(FILE, format!("{error} (needs root)")),
    }
}

impl Default for KernelLog {
    fn default() -> Self {
        Self::open()
    }
}

impl KernelLog {
    /// Opens the log at its end. Where it may not be read (without `CAP_SYSLOG`), it stays empty.
    pub fn open() -> Self {
        let file = open_log();
        Self::of(file.and_then(|file| seek(&file, SeekFrom::End(0)).map(|_| file)))
    }

    fn of(file: Result<OwnedFd, Errno>) -> Self {
        Self {
            file: file.map_err(io::Error::from),
            is_foreign: PidNamespace::of_this_process()
                .is_ok_and(|namespace| namespace != PidNamespace::Initial),
            kept: VecDeque::new(),
            untaken: LoggedEvents::default(),
            shortage: OomFacts::default(),
        }
    }

    /// The latest kills in the log of the running machine.
    ///
    /// # Errors
    /// The log cannot be read: it needs `CAP_SYSLOG`.
    pub fn history() -> Result<OomHistory, Missing> {
        let mut history = OomHistory::default();
        Self::victims()?.into_iter().for_each(|victim| history.add(victim));
        Ok(history)
    }

    /// The kills in the log of the running machine, the earliest first.
    ///
    /// # Errors
    /// As of [`Self::history`].
    pub fn victims() -> Result<Vec<OomVictim>, Missing> {
        let file = open_log().map_err(unreadable)?;
        let mut log = Self::of(Ok(file));
        let mut bytes = [0; RECORD_BYTES];
        let mut victims = Vec::new();
        for _ in 0..MAX_RECORDS {
            if !log.read_record(&mut bytes) {
                break;
            }
            victims.extend(log.untaken.kills.drain(..).map(|kill| kill.victim));
        }
        Ok(victims)
    }

    /// All records of the running machine, as lines with the priority and the time since boot.
    ///
    /// # Errors
    /// As of [`Self::history`].
    pub fn text() -> Result<Vec<u8>, Missing> {
        let file = open_log().map_err(unreadable)?;
        let mut bytes = [0; RECORD_BYTES];
        let mut text = Vec::new();
        for _ in 0..MAX_RECORDS {
            match rustix::io::read(&file, &mut bytes[..]) {
                Ok(0) => break,
                Ok(got) => {
                    let line = kmsg::line(bytes.get(..got).unwrap_or_default());
                    text.extend_from_slice(line.unwrap_or_default().as_bytes());
                }
                // Records that were overwritten meanwhile.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        Ok(text)
    }

    /// A descriptor that is readable when there is something to read.
    ///
    /// # Errors
    /// The log may not be read.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        match &self.file {
            Ok(file) => file.try_clone(),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// Reads what came since the last call; what the buffer lost meanwhile is passed over.
    pub(crate) fn read(&mut self) -> &VecDeque<LoggedEnd> {
        let mut bytes = [0; RECORD_BYTES];
        for _ in 0..MAX_RECORDS {
            if !self.read_record(&mut bytes) {
                break;
            }
        }
        &self.kept
    }

    /// Reads the next record; false if there is none, or the log cannot be read.
    fn read_record(&mut self, bytes: &mut [u8; RECORD_BYTES]) -> bool {
        let Ok(file) = &self.file else { return false };
        match rustix::io::read(file, &mut bytes[..]) {
            Ok(0) | Err(Errno::AGAIN) => return false,
            Ok(got) => self.note(bytes.get(..got).unwrap_or_default()),
            Err(Errno::PIPE) => {
                self.untaken.has_lost = true;
                self.shortage = OomFacts::default();
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        true
    }

    /// Records since the last call.
    pub fn take(&mut self) -> LoggedEvents {
        self.read();
        std::mem::take(&mut self.untaken)
    }

    fn note(&mut self, record: &[u8]) {
        let Some(record) = kmsg::parse(record) else { return };
        let unix_ms = logged_unix_ms(record.at_us);
        let mut message = record.message;
        if self.is_foreign {
            forget_number(&mut message);
        }
        self.note_event(unix_ms, &message);
        if matches!(
            message,
            KernelMessage::OomKill { .. }
                | KernelMessage::OomChoice(_)
                | KernelMessage::Fault { .. }
        ) {
            self.kept.push_back(LoggedEnd { unix_ms, message });
            if self.kept.len() > MAX_KEPT {
                self.kept.pop_front();
            }
        }
    }

    fn note_event(&mut self, unix_ms: u64, message: &KernelMessage) {
        let shortage = &mut self.shortage;
        match message {
            KernelMessage::OomInvoked { by } => {
                *shortage = OomFacts { invoked_by: Some(by.clone()), ..OomFacts::default() };
            }
            KernelMessage::OomUsage { limit_bytes } => {
                // The first: those of swap and kernel memory follow.
                shortage.limit_bytes.get_or_insert(*limit_bytes);
            }
            KernelMessage::OomTableHead(head) => shortage.head = Some(*head),
            KernelMessage::OomTableRow(row) => shortage.row(row),
            KernelMessage::OomChoice(choice) => shortage.choice = Some(choice.clone()),
            KernelMessage::OomGroup => shortage.of_group = true,
            KernelMessage::OomKill { pid, name, within_cgroup, resident_bytes, user } => {
                let process = ServiceProcess { pid: *pid, name: name.clone() };
                let mut kill = shortage.kill(unix_ms, process, *within_cgroup);
                (kill.victim.resident_bytes, kill.victim.user) = (*resident_bytes, *user);
                if self.untaken.kills.len() < MAX_UNTAKEN {
                    self.untaken.kills.push(kill);
                } else {
                    self.untaken.more_kills = self.untaken.more_kills.saturating_add(1);
                }
            }
            KernelMessage::DropCaches { pid, name, value } => {
                if self.untaken.drops.len() < MAX_UNTAKEN {
                    let process = ServiceProcess { pid: *pid, name: name.clone() };
                    self.untaken.drops.push(LoggedDrop { unix_ms, process, value: *value });
                }
            }
            KernelMessage::Fault { .. } => {}
        }
    }
}

/// Kills that lines of a kernel's log tell of, each line with its time.
pub fn logged_victims<'a>(lines: impl IntoIterator<Item = (u64, &'a str)>) -> Vec<OomVictim> {
    let mut log = KernelLog::of(Err(Errno::NOENT));
    let mut victims = Vec::new();
    for (unix_ms, line) in lines {
        if let Some(message) = kmsg::message(line) {
            log.note_event(unix_ms, &message);
            victims.extend(log.untaken.kills.drain(..).map(|kill| kill.victim));
        }
    }
    victims
}

impl OomFacts {
    fn row(&mut self, row: &str) {
        let Some(task) = self.head.and_then(|head| head.task(row)) else { return };
        self.largest.push(holder(&task));
        let held = |of: &MemoryHolder| of.resident_bytes.saturating_add(of.swapped_bytes);
        self.largest.sort_by_key(|of| Reverse(held(of)));
        self.largest.truncate(MAX_HOLDERS);
    }

    /// The kill that follows. The records before it are of another where the kernel left out those of this one, which
    /// it does where many are killed.
    fn kill(&self, unix_ms: u64, process: ServiceProcess, within_cgroup: bool) -> LoggedKill {
        let choice = self.choice.as_ref();
        let choice = choice.filter(|choice| self.of_group || choice.pid == process.pid);
        let is_of_these = choice.is_some();
        let shortage = match (choice, within_cgroup) {
            (Some(choice), _) => match choice.constraint {
                OomConstraint::Machine => OomShortage::Machine,
                OomConstraint::Cpuset => OomShortage::Cpuset,
                OomConstraint::MemoryPolicy => OomShortage::MemoryPolicy,
                OomConstraint::Cgroup => OomShortage::Cgroup(choice.limit_of.clone()),
            },
            (None, true) => OomShortage::Cgroup(None),
            (None, false) => OomShortage::Machine,
        };
        let victim = OomVictim {
            process,
            count: 1,
            first_unix_ms: unix_ms,
            last_unix_ms: unix_ms,
            shortage,
            limit_bytes: self.limit_bytes.filter(|_| is_of_these && within_cgroup),
            cgroup: choice.and_then(|choice| choice.group.clone()),
            invoked_by: self.invoked_by.clone().filter(|_| is_of_these),
            ..OomVictim::default()
        };
        let holders = self.largest.iter().filter(|_| is_of_these).cloned().collect();
        LoggedKill { victim, holders }
    }
}

fn holder(task: &OomTask<'_>) -> MemoryHolder {
    let bytes = |pages: u64| pages.saturating_mul(mw_sys::page_bytes() as u64);
    MemoryHolder {
        process: ServiceProcess { pid: task.pid, name: task.name.to_owned() },
        resident_bytes: bytes(task.resident_pages),
        swapped_bytes: bytes(task.swapped_pages),
        has_ended: false,
    }
}

/// A number of another namespace is that of another process here.
fn forget_number(message: &mut KernelMessage) {
    match message {
        KernelMessage::OomChoice(OomChoice { pid, .. })
        | KernelMessage::OomKill { pid, .. }
        | KernelMessage::Fault { pid, .. }
        | KernelMessage::DropCaches { pid, .. } => *pid = 0,
        _ => {}
    }
}

/// The time of day of a record: its clock is the monotonic one, but for corrections of a few milliseconds.
fn logged_unix_ms(at_us: u64) -> u64 {
    let ago_ns = monotonic_ns().saturating_sub(at_us.saturating_mul(1_000));
    unix_ms().saturating_sub(ago_ns / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        postgres invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
memory: usage 65536kB, limit 65536kB, failcnt 12
swap: usage 0kB, limit 9007199254740988kB, failcnt 0
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[    811]   105   811     4534      320    81920        0             0 sh
[    812]   105   812   245813    16384   200704       16             0 postgres
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/db,\
        task_memcg=/db/in,task=postgres,pid=812,uid=105
Memory cgroup out of memory: Killed process 812 (postgres) total-vm:983252kB, anon-rss:65536kB";

    fn log(is_foreign: bool) -> KernelLog {
        KernelLog { is_foreign, file: Err(io::ErrorKind::NotFound.into()), ..KernelLog::open() }
    }

    fn note(log: &mut KernelLog, lines: &str) {
        for line in lines.lines() {
            log.note(format!("4,1,1000,-;{}\n", line.trim_start()).as_bytes());
        }
    }

    #[test]
    fn a_kill_has_what_was_logged_before_it() {
        let mut log = log(false);
        note(&mut log, TABLE);
        let kills = log.take().kills;
        let [LoggedKill { victim, holders }] = kills.as_slice() else { panic!("{kills:?}") };
        assert_eq!(victim.process, ServiceProcess { pid: 812, name: "postgres".to_owned() });
        assert_eq!(victim.shortage, OomShortage::Cgroup(Some("/db".to_owned())));
        assert_eq!(victim.cgroup.as_deref(), Some("/db/in"));
        assert_eq!((victim.limit_bytes, victim.resident_bytes), (Some(64 << 20), Some(64 << 20)));
        assert_eq!(victim.invoked_by.as_deref(), Some("postgres"));
        let names: Vec<&str> = holders.iter().map(|holder| holder.process.name.as_str()).collect();
        assert_eq!(names, ["postgres", "sh"]);
        assert_eq!(log.take(), LoggedEvents::default(), "it is taken once");
    }

    /// The kernel leaves out the table, and whose limit it was, where it kills often.
    #[test]
    fn a_kill_has_nothing_of_the_one_before() {
        let mut log = log(false);
        note(&mut log, TABLE);
        note(&mut log, "Memory cgroup out of memory: Killed process 9 (redis) total-vm:9kB");
        let kills = log.take().kills;
        let last = &kills[1];
        assert_eq!(last.victim.shortage, OomShortage::Cgroup(None));
        assert_eq!((last.victim.limit_bytes, last.holders.len()), (None, 0));
        note(&mut log, "Tasks in /db are going to be killed due to memory.oom.group set");
        note(&mut log, "Memory cgroup out of memory: Killed process 10 (redis) total-vm:9kB");
        let of_group = log.take().kills;
        assert_eq!(of_group[0].victim.shortage, OomShortage::Cgroup(Some("/db".to_owned())));
    }

    #[test]
    fn numbers_of_another_namespace_are_nobodys_here() {
        let mut log = log(true);
        note(&mut log, TABLE);
        note(&mut log, "bash (7): drop_caches: 3");
        let events = log.take();
        assert_eq!(events.kills[0].victim.process.pid, 0);
        assert_eq!(events.drops[0].process, ServiceProcess { pid: 0, name: "bash".to_owned() });
    }

    #[test]
    fn a_flood_of_kills_is_counted() {
        let mut log = log(false);
        for _ in 0..MAX_UNTAKEN + 5 {
            note(&mut log, "Out of memory: Killed process 9 (redis) total-vm:9kB");
        }
        let events = log.take();
        assert_eq!((events.kills.len(), events.more_kills), (MAX_UNTAKEN, 5));
        assert_eq!(log.kept.len(), MAX_KEPT);
    }

    /// A record that a program writes to the log is not the kernel's.
    #[test]
    fn a_record_of_a_program_is_not_believed() {
        let mut log = KernelLog::open();
        let line = "memwright test: Out of memory: Killed process 4000000000 (memwright-test) x\n";
        if log.file.is_err() || std::fs::write("/dev/kmsg", line).is_err() {
            return mw_test::skip("needs root");
        }
        let is_it = |end: &LoggedEnd| {
            matches!(&end.message, KernelMessage::OomKill { pid: 4_000_000_000, .. })
        };
        assert!(!log.read().iter().any(is_it));
    }
}
