//! Trouble in the guest's kernel log.

/// Most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    Panic,
    /// `BUG`, `Oops`, a bad access.
    Oops,
    /// A task was blocked for long.
    HungTask,
    /// The OOM killer ended a process, which few cases intend.
    OutOfMemory,
    Warning,
    /// A soft lockup or RCU stall; on an emulated machine not necessarily an error.
    Stuck,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// The line, without its end.
    pub line: String,
}

impl Trouble {
    /// True if the kernel cannot be trusted after it.
    pub fn is_fatal(&self) -> bool {
        self.kind <= TroubleKind::Oops
    }

    /// True if a case that does not expect it has gone wrong.
    pub fn is_severe(&self) -> bool {
        self.kind <= TroubleKind::OutOfMemory
    }
}

/// Most specific first: the first pattern in a line decides.
const PATTERNS: &[(&str, TroubleKind)] = &[
    ("Kernel panic - not syncing", TroubleKind::Panic),
    ("BUG: soft lockup", TroubleKind::Stuck),
    ("BUG: workqueue lockup", TroubleKind::Stuck),
    ("blocked for more than", TroubleKind::HungTask),
    ("ut of memory: Killed process", TroubleKind::OutOfMemory),
    ("self-detected stall", TroubleKind::Stuck),
    ("detected stalls on CPUs", TroubleKind::Stuck),
    ("BUG: ", TroubleKind::Oops),
    ("kernel BUG at", TroubleKind::Oops),
    ("Oops: ", TroubleKind::Oops),
    ("general protection fault", TroubleKind::Oops),
    ("unable to handle", TroubleKind::Oops),
    ("WARNING: CPU", TroubleKind::Warning),
];

/// The lines of a console log that report trouble, in order.
pub fn scan(log: &str) -> Vec<Trouble> {
    log.lines()
        .filter_map(|line| {
            let (_, kind) = PATTERNS.iter().find(|(pattern, _)| line.contains(pattern))?;
            Some(Trouble { kind: *kind, line: line.trim_end().to_owned() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, want: Option<TroubleKind>) {
        let log = format!("[    0.000000] Linux version 6.1.0\n{line}\r\n[    2.0] fine\n");
        let got = scan(&log);
        assert_eq!(got.first().map(|t| t.kind), want, "{line}");
        assert!(got.iter().all(|t| !t.line.ends_with('\r')));
    }

    #[test]
    fn trouble_is_seen_and_graded() {
        check("[ 1.0] Kernel panic - not syncing: Out of memory", Some(TroubleKind::Panic));
        check("[ 1.0] BUG: kernel NULL pointer dereference, address: 0", Some(TroubleKind::Oops));
        check("[ 1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!", Some(TroubleKind::Stuck));
        check("[ 1.0] INFO: task dd:77 blocked for more than 120 s", Some(TroubleKind::HungTask));
        check("[ 1.0] WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:1", Some(TroubleKind::Warning));
    }

    #[test]
    fn an_oom_kill_is_severe_but_does_not_break_the_kernel() {
        for line in [
            "[ 9.0] Out of memory: Killed process 71 (hold) total-vm:1kB",
            "[ 9.0] Memory cgroup out of memory: Killed process 71 (hold)",
        ] {
            check(line, Some(TroubleKind::OutOfMemory));
            assert!(scan(line).iter().all(|t| t.is_severe() && !t.is_fatal()));
        }
        assert!(!scan("WARNING: CPU: 0").iter().any(Trouble::is_severe));
    }

    #[test]
    fn only_panic_and_oops_are_fatal() {
        let fatal = |line| scan(line).iter().any(Trouble::is_fatal);
        assert!(fatal("Oops: 0002 [#1]"));
        assert!(!fatal("WARNING: CPU: 0"));
    }
}
