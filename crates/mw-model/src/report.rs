//! The outcome of `check`, for every output format.

use crate::{Answer, CallerLimit, Exhaustion, Finding, Missing, Preflight, Severity};
use serde::Serialize;

/// The version of the JSON form of [`Report`]; it goes up when a consumer could break.
pub const SCHEMA_VERSION: u32 = 1;

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// The version of memwright that made it.
    pub memwright: String,
    /// `live`, or the tree that was checked.
    pub root: String,
    /// What another tool wrote or somebody pasted, where it was that which was checked: "the output of 'free' in MiB".
    pub input: Option<String>,
    /// The kernel's version, where it is known.
    pub kernel: Option<String>,
    /// Time of the snapshot, in milliseconds since 1970.
    pub taken_unix_ms: Option<u64>,
    /// The verdict in one line.
    pub verdict: String,
    /// Evidence that a check needs and could not read: if there is any, the verdict is that the machine could not
    /// be checked.
    pub unchecked: Vec<Missing>,
    /// Kernel files that another program provides, such as lxcfs in a container.
    pub replaced: Vec<Missing>,
    /// The severity of the worst finding; absent if there is none.
    pub worst: Option<Severity>,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory available to the calling process without writeback or swap, in bytes: that of the machine,
    /// or what `limited_by` leaves of it.
    pub ready_bytes: Option<u64>,
    /// The limit because of which less is available to the calling process than on the machine.
    pub limited_by: Option<CallerLimit>,
    /// Limits on the calling process that could not be determined: less than `ready_bytes` may be
    /// available.
    pub limits_unseen: Vec<Missing>,
    /// The program with the most anonymous memory, where it has a tenth of memory or more.
    pub largest_program: Option<LargestProgram>,
    /// What has most memory beside programs and the page cache, where that is a tenth of memory or more.
    pub largest_other: Option<LargestOther>,
    /// The page cache of files, in bytes, where that is half of memory or more, and as much is available.
    pub page_cache_bytes: Option<u64>,
    /// The answer to `--for`.
    pub preflight: Option<Preflight>,
    /// Forecasts of the recorder: of the pages of `--for`, or else of huge pages. Empty without a recorder.
    pub exhaustion: Vec<Exhaustion>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Rules that passed.
    pub quiet: Vec<String>,
    /// Rules that could not be checked.
    pub skipped: Vec<SkippedRule>,
}

impl Report {
    /// True if the verdict is that the machine could not be checked: too much of it is hidden, and
    /// no finding decides the verdict.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let refused = self.preflight.as_ref().is_some_and(|p| p.answer == Answer::No);
        let is_settled = refused || self.worst == Some(Severity::Critical);
        let is_blind = self.findings.is_empty() && self.quiet.is_empty();
        is_blind || (!self.unchecked.is_empty() && !is_settled)
    }
}

/// All processes of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LargestProgram {
    /// The name of the processes.
    pub name: String,
    pub processes: u64,
    /// Their anonymous memory, in bytes.
    pub bytes: u64,
    /// The reason why transparent huge pages may hold more of it than the program uses.
    pub huge_pages: Option<HugePageExcess>,
}

/// Reason why transparent huge pages may hold more memory than a program uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum HugePageExcess {
    /// Its threads have about a huge page each, which may be one of stack.
    Stacks { threads: u64 },
    /// Huge pages of this kernel have so many bytes: a program that touches a little takes a whole one.
    LargePages { page_bytes: u64 },
    /// khugepaged has made so many bytes of huge pages since boot, several times what is in use: it may refill what programs
    /// have released.
    Refilled { made_bytes: u64 },
}

impl LargestProgram {
    /// `postgres (12 processes)`.
    #[must_use]
    pub fn label(&self) -> String {
        match self.processes {
            1 => self.name.clone(),
            count => format!("{} ({count} processes)", self.name),
        }
    }
}

/// Memory that is no program's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LargestOther {
    /// Files of tmpfs and shared memory, kernel objects, or a pool of huge pages.
    pub name: String,
    pub bytes: u64,
}

/// A rule that could not be checked, and why.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SkippedRule {
    /// The rule's id.
    pub rule: String,
    /// Evidence that could not be read.
    pub missing: Missing,
}
