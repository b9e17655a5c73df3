//! The command line. Help, man pages and completions are made from it.

#[cfg(feature = "watch")]
mod export;
mod format;
#[cfg(feature = "run")]
mod iotune;
#[cfg(feature = "lab")]
mod lab;
pub(crate) mod missing;
#[cfg(any(feature = "top", feature = "watch"))]
mod moment;
#[cfg(feature = "pool")]
mod pool;
#[cfg(feature = "watch")]
mod replay;
#[cfg(feature = "run")]
mod run;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "watch")]
mod watch;

use clap::{Args as ClapArgs, CommandFactory, Parser, Subcommand, ValueEnum};
use mw_model::{Request, Severity};
use mw_segment::{Kind, Page};
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "watch")]
pub use export::{ExportArgs, Form, To};
pub use format::{FormatArgs, Formats, TextOrJson};
#[cfg(feature = "run")]
pub use iotune::{IotuneAction, IotuneArgs};
#[cfg(feature = "lab")]
pub use lab::{Acceleration, CaseKind, LabArgs, LabFormat};
#[cfg(any(feature = "top", feature = "watch"))]
pub use moment::Moment;
#[cfg(any(feature = "top", feature = "watch"))]
pub(crate) use moment::duration;
#[cfg(feature = "pool")]
pub use pool::{
    PoolArgs, PoolCommand, PoolCreateArgs, PoolFormat, PoolNameArgs, PoolServeArgs, PoolShowArgs,
    PoolSizeArgs, PoolStatsArgs,
};
#[cfg(feature = "pool")]
pub(crate) use pool::{huge, nodes};
#[cfg(feature = "watch")]
pub use replay::ReplayArgs;
#[cfg(feature = "run")]
pub use run::{HugePolicy, RunArgs};
#[cfg(feature = "run")]
pub(crate) use run::{direct_io, threshold};
#[cfg(feature = "top")]
pub use top::TopArgs;
#[cfg(feature = "watch")]
pub(crate) use watch::is_name;
#[cfg(feature = "watch")]
pub use watch::{IncidentId, IncidentsArgs, ProbeArg, ReportArgs, ReportFormat, WatchArgs};

/// Big memory on Linux, allocated fast, and never a stall.
#[derive(Debug, Parser)]
#[command(name = "memwright", version, propagate_version = true, after_help = EXIT_CODES)]
#[command(max_term_width = 100)]
pub struct Args {
    /// Configuration file [default: /etc/memwright/memwright.toml where it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0  fine
  1  findings at or above --fail-on, a request that is refused, or something left unmended
  2  usage: the command line or the configuration is wrong
  3  could not look, or a request that a limit which could not be determined may refuse
  4  refused: a privilege is missing
  5  failed part-way and rolled back
  126, 127  run: the command cannot be executed, or is not found";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether this machine can hand out large memory without stalling, and what is wrong
    Check(CheckArgs),
    /// Write the kernel's memory state to a file, to be looked at elsewhere with check --root
    Capture(CaptureArgs),
    /// Show a rule's page: what it finds, why it hurts, how to fix it
    Explain(ExplainArgs),
    /// Mend what check finds, see that it helped, and note how to take it back
    Fix(FixArgs),
    /// Take changes back, byte for byte
    Undo(UndoArgs),
    /// List what was changed, and what has become of it
    Changes(ChangesArgs),
    /// Measure what it costs here to create, lock and destroy large memory, before and after
    Bench(BenchArgs),
    /// Run a command whose large memory is populated, locked and freed in parallel
    #[cfg(feature = "run")]
    Run(RunArgs),
    /// Keep large and sequential transfers out of the page cache, per path, and show what that did
    #[cfg(feature = "run")]
    Iotune(IotuneArgs),
    /// Keep memory warm for programs: a restart finds it populated, locked and zeroed
    #[cfg(feature = "pool")]
    Pool(PoolArgs),
    /// Record what memory does, and when a service stalls say why: runs until it is ended
    #[cfg(feature = "watch")]
    Watch(WatchArgs),
    /// List the stalls that were recorded
    #[cfg(feature = "watch")]
    Incidents(IncidentsArgs),
    /// Show a stall: what it was, its cause, what mends it, and all the evidence
    #[cfg(feature = "watch")]
    Report(ReportArgs),
    /// Watch memory in the terminal: this machine as it is, or any moment of a recording
    #[cfg(feature = "top")]
    Top(TopArgs),
    /// Write a recording, or an incident of it, for other programs
    #[cfg(feature = "watch")]
    Export(ExportArgs),
    /// Play memory failures on real kernels in virtual machines: made, found, mended, taken back
    #[cfg(feature = "lab")]
    Lab(LabArgs),
}

/// Arguments of `check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CheckArgs {
    /// Also say whether this much memory can be had: SIZE[,lock][,huge=2M|1G|thp][,node=N]
    #[arg(long = "for", value_name = "REQUEST")]
    pub request: Option<Request>,
    /// Say whether this pool has it ready, and only else whether it can be had the ordinary way
    #[cfg(feature = "pool")]
    #[arg(long, value_name = "NAME", requires = "request", conflicts_with = "root")]
    #[cfg_attr(feature = "watch", arg(conflicts_with = "recording"))]
    pub pool: Option<mw_pool::Name>,
    /// Look at a captured tree instead of this machine: a folder with proc/ and sys/ (also as
    /// sosreport lays it out), or a file written by capture
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// A recording to look at instead.
    #[cfg(feature = "watch")]
    #[command(flatten)]
    pub replay: ReplayArgs,
    /// Exit with 1 from this severity on [default: critical]
    #[arg(long, value_name = "SEVERITY")]
    pub fail_on: Option<FailOn>,
    /// How to print the answer.
    #[command(flatten)]
    pub format: FormatArgs<Format>,
    /// Also list the rules that found nothing
    #[arg(short, long)]
    pub verbose: bool,
}

/// Output formats of `check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs, described in docs/schema
    Json,
    /// For Nagios and its like; the exit code is then the plugin's state
    Nagios,
}

impl Formats for Format {
    const DEFAULT: Self = Self::Text;
    const JSON: Self = Self::Json;
}

/// The severity from which on `check` exits with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailOn {
    /// Any finding
    Note,
    /// What stalls under load
    Warning,
    /// What stalls now or at the next large request
    Critical,
    /// Never
    Never,
}

impl FailOn {
    /// Whether a severity is at or above it.
    pub fn is_reached_by(self, severity: Severity) -> bool {
        match self {
            Self::Note => true,
            Self::Warning => severity >= Severity::Warning,
            Self::Critical => severity >= Severity::Critical,
            Self::Never => false,
        }
    }
}

/// Arguments of `capture`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CaptureArgs {
    /// The file to write; - is standard output [default: memwright-TIME.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace paths that people chose (mounts, swap files, cgroups) by numbers
    #[arg(long)]
    pub redact: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExplainArgs {
    /// The rule; without it all rules are listed
    #[arg(value_name = "RULE")]
    pub rule: Option<String>,
}

/// Arguments of `fix`.
#[derive(Debug, Clone, ClapArgs)]
pub struct FixArgs {
    /// Mend these rules' findings only; some remedies are applied only when named
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    /// Show what would be changed and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Keep the changes over a reboot (files of memwright's own in sysctl.d, tmpfiles.d and udev's
    /// rules.d)
    #[arg(long)]
    pub persist: bool,
    /// How to print it.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Where the journal of changes is [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `undo`.
#[derive(Debug, Clone, ClapArgs)]
pub struct UndoArgs {
    /// The changes to take back, as numbered by changes; without it all of them
    #[arg(value_name = "CHANGE")]
    pub changes: Vec<u64>,
    /// Put the former value back even where somebody else has changed it since
    #[arg(long)]
    pub force: bool,
    /// How to print it.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Where the journal of changes is [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `changes`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ChangesArgs {
    /// Also list changes that were taken back
    #[arg(long)]
    pub all: bool,
    /// How to print it.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Where the journal of changes is [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// Arguments of `bench`.
#[derive(Debug, Clone, ClapArgs)]
pub struct BenchArgs {
    /// How large a segment [default: 4G, or less where memory is short]
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub size: Option<u64>,
    /// What it is made of: ism, dism, memfd, anon or hugetlb
    #[arg(long, value_name = "KIND", default_value = "memfd", value_parser = bench_kind)]
    pub kind: Kind,
    /// How many threads [default: 1, 2, 4 and so on to the number of processors, 16 at most]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = thread_count)]
    pub threads: Vec<usize>,
    /// Page sizes: 4k, thp, 2M or 1G [default: 4k, thp and 2M]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = bench_page)]
    pub page: Vec<Page>,
    /// Where its pages come from: local, bind:NODES, interleave:NODES, or split:NODES for an equal
    /// part from each; NODES as in 0-1,3
    #[arg(long, value_name = "POLICY", default_value = "local")]
    pub place: Place,
    /// Draw the table into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// How often each way is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = round_count)]
    pub rounds: usize,
    /// Reserve the huge pages that are missing, and give them back at the end or when interrupted;
    /// after a kill -9, 'memwright undo' gives them back (as root)
    #[arg(long)]
    pub reserve: bool,
    /// Where the journal of changes is, for --reserve [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// How to print it.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

/// Where the pages of a segment that is measured come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// From the node that the program runs on.
    Local,
    /// From these nodes alone.
    Bind(Vec<u32>),
    /// From these nodes in turn.
    Interleave(Vec<u32>),
    /// An equal part from each of these nodes.
    Split(Vec<u32>),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write local, bind:NODES, interleave:NODES or split:NODES".to_owned();
        if text == "local" {
            return Ok(Self::Local);
        }
        let (policy, nodes) = text.split_once(':').ok_or_else(wrong)?;
        let nodes = mw_proc::cpulist::parse(nodes.as_bytes())
            .ok()
            .filter(|nodes| !nodes.is_empty())
            .ok_or_else(|| format!("'{nodes}' is no list of nodes: write 0-1,3"))?;
        match policy {
            "bind" => Ok(Self::Bind(nodes)),
            "interleave" => Ok(Self::Interleave(nodes)),
            "split" => Ok(Self::Split(nodes)),
            _ => Err(wrong()),
        }
    }
}

fn bench_kind(text: &str) -> Result<Kind, String> {
    match text.parse() {
        Ok(Kind::Posix) => Err("a posix segment costs what a memfd of one stripe does".to_owned()),
        other => other.map_err(|error: mw_segment::UnknownName| error.to_string()),
    }
}

fn bench_page(text: &str) -> Result<Page, String> {
    match text.parse() {
        Ok(Page::Auto) => Err("name the sizes: 4k, thp, 2M, 1G".to_owned()),
        other => other.map_err(|error: mw_segment::UnknownName| error.to_string()),
    }
}

/// The most threads and rounds that can be asked for.
const MAX_COUNT: usize = 1024;

fn thread_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
    count.ok_or_else(|| format!("write a number from 1 to {MAX_COUNT}"))
}

fn round_count(text: &str) -> Result<usize, String> {
    thread_count(text)
}

/// The whole command line, for man pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}
