//! What became of a service that does not answer at its address.

use super::{
    HOLDER_LIMIT, KnownService, ServiceTracker, WatchedProcess, is_socket_file, named, owners,
    sockets,
};
use crate::kernel_log::{KernelLog, LoggedEnd};
use mw_model::{Connection, EndKind, Outage, ProcessEnd, ServiceProcess, format_duration_ms};
use mw_proc::kmsg::KernelMessage;
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Instant;

/// Messages of the kernel's log this long before the last sign of life are of the same end.
const LEEWAY_MS: u64 = 2_000;

impl ServiceTracker {
    /// The listener at the address of a `connection` that failed at `failed_unix_ms`, the former listener there,
    /// and how that process ended. Call it at once, and not on the thread that probes: it takes 0.2 ms where
    /// nothing listens and at most about 50 ms otherwise. `None` for a probe without connection.
    pub fn outage(
        &self,
        connection: Option<&Connection>,
        failed_unix_ms: u64,
        log: &mut KernelLog,
    ) -> Option<Outage> {
        let connection = connection?;
        let (address, inode) = match connection {
            Connection::Tcp { peer, .. } => {
                (peer.to_string(), sockets::tcp(*peer, None).map(|socket| socket.inode))
            }
            Connection::Unix { path, .. } => {
                (path.display().to_string(), sockets::unix_listener(path))
            }
        };
        let known: Vec<u32> = self.known.iter().flat_map(KnownService::pids).collect();
        let holder = inode.and_then(|inode| {
            let (found, _) = owners(&[inode], &known, Instant::now() + HOLDER_LIMIT);
            named(found.first()?.1)
        });
        let mut outage =
            Outage { address, listens: inode.is_some(), listener: holder, ..Outage::default() };
        if let Some(known) = &self.known {
            outage.ended = known.ended(log.read());
            outage.former = known.watched.first().map(|watched| watched.process.clone());
        }
        let has_file = match connection {
            Connection::Unix { path, .. } => is_socket_file(path),
            Connection::Tcp { .. } => true,
        };
        outage.text = text(&outage, has_file, failed_unix_ms);
        Some(outage)
    }
}

impl KnownService {
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.service.processes.iter().map(|process| process.pid)
    }

    /// The process of the service that ended: the first one, or else one that the kernel's log names.
    fn ended(&self, log: &VecDeque<LoggedEnd>) -> Option<ProcessEnd> {
        let since = self.seen_unix_ms.saturating_sub(LEEWAY_MS);
        let gone = self.watched.iter().find(|watched| !watched.runs());
        if let Some(watched) = gone {
            let pid = watched.process.pid;
            let logged = logged(log, since, |killed, _| killed == pid);
            return Some(logged.unwrap_or_else(|| watched.end()));
        }
        let pids: Vec<u32> = self.pids().collect();
        let is_name = |name: &str| self.service.processes.iter().any(|known| known.name == name);
        logged(log, since, |killed, name| pids.contains(&killed) || is_name(name))
    }
}

/// The latest end in the kernel's log.
fn logged(
    log: &VecDeque<LoggedEnd>,
    since_unix_ms: u64,
    is_it: impl Fn(u32, &str) -> bool,
) -> Option<ProcessEnd> {
    log.iter().rev().filter(|end| end.unix_ms >= since_unix_ms).find_map(|end| {
        let (pid, name, how, detail) = match &end.message {
            KernelMessage::OomKill { pid, name, .. } => (*pid, name, EndKind::OomKilled, None),
            KernelMessage::Fault { pid, name, what } => {
                (*pid, name, EndKind::Signalled, Some(what))
            }
            _ => return None,
        };
        is_it(pid, name).then(|| ProcessEnd {
            process: ServiceProcess { pid, name: name.clone() },
            how,
            at_unix_ms: Some(end.unix_ms),
            limit_of: limit_of(log, pid),
            detail: detail.cloned(),
            ..ProcessEnd::default()
        })
    })
}

/// The group whose limit was met when a process was chosen.
fn limit_of(log: &VecDeque<LoggedEnd>, killed: u32) -> Option<String> {
    log.iter().rev().find_map(|end| match &end.message {
        KernelMessage::OomChoice(choice) if choice.pid == killed => choice.limit_of.clone(),
        _ => None,
    })
}

impl WatchedProcess {
    /// Its end, as far as the kernel reports it (6.15 and later).
    fn end(&self) -> ProcessEnd {
        let process = self.process.clone();
        let status = self
            .pidfd
            .as_ref()
            .and_then(|pidfd| mw_sys::exit_status_of(pidfd.as_fd()).ok().flatten());
        let Some(status) = status else {
            return ProcessEnd { process, ..ProcessEnd::default() };
        };
        // waitpid(2): the signal in the low 7 bits, the exit code in the second byte.
        let [low, code, ..] = status.to_le_bytes();
        match low & 0x7f {
            0 => ProcessEnd {
                process,
                how: EndKind::Exited,
                exit_code: Some(code.into()),
                ..ProcessEnd::default()
            },
            signal => ProcessEnd {
                process,
                how: EndKind::Signalled,
                signal: Some(signal.into()),
                ..ProcessEnd::default()
            },
        }
    }
}

fn text(outage: &Outage, has_file: bool, failed_unix_ms: u64) -> String {
    let address = &outage.address;
    let who = |process: &ServiceProcess| format!("{} (pid {})", process.name, process.pid);
    let now = match &outage.listener {
        Some(listener) => format!("{} listens on {address}", who(listener)),
        None if outage.listens => {
            format!("a process that is not visible here listens on {address}")
        }
        None if !has_file => format!("{address} does not exist"),
        None => format!("nothing listens on {address}"),
    };
    let before = match (&outage.ended, &outage.former) {
        (Some(ended), _) => format!("{} {}", who(&ended.process), end_text(ended, failed_unix_ms)),
        (None, Some(former)) if outage.listener.is_none() && !outage.listens => {
            format!("{} still runs, but does not listen", who(former))
        }
        _ => return now,
    };
    format!("{now}; {before}")
}

/// In one half sentence: `was killed by the OOM killer 1.2 s before`.
fn end_text(end: &ProcessEnd, failed_unix_ms: u64) -> String {
    let how = match (end.how, end.signal, end.exit_code) {
        (EndKind::OomKilled, ..) => "was killed by the OOM killer".to_owned(),
        (EndKind::Signalled, Some(signal), _) => format!("was killed by {}", signal_name(signal)),
        (EndKind::Signalled, None, _) => "was killed by a fault of its own".to_owned(),
        (EndKind::Exited, _, Some(code)) => format!("exited with code {code}"),
        (EndKind::Exited | EndKind::Unknown, ..) => "has ended".to_owned(),
    };
    let when = end.at_unix_ms.map(|at| match failed_unix_ms.checked_sub(at) {
        Some(before) => format!(" {} before", format_duration_ms(before as f64)),
        None => format!(" {} after that", format_duration_ms((at - failed_unix_ms) as f64)),
    });
    let why = match (&end.limit_of, &end.detail) {
        (Some(group), _) => format!(" (memory limit of cgroup {group})"),
        (None, Some(detail)) => format!(" ({detail})"),
        (None, None) => String::new(),
    };
    format!("{how}{}{why}", when.unwrap_or_default())
}

fn signal_name(signal: u32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}
