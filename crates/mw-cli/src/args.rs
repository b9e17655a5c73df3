//! The command line. Help, man pages and completions are made from it.

mod blame;
mod doctor;
mod duration;
mod export;
mod fail_on;
mod fleet;
mod format;
mod heartbeats;
mod iotune;
mod k8s;
mod killed;
pub mod lab;
mod make_room;
mod moment;
mod notify;
mod overview;
mod pool;
mod replay;
mod run;
pub mod ship;
mod slurm;
mod top;
mod trends;
mod watch;
pub(crate) mod watch_settings;
mod why;

use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use mw_bench::BenchPlacement;
use mw_memory::{NumaPolicy, PageSize};
use mw_model::Request;
use mw_segment::SegmentKind;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use blame::BlameArgs;
pub use doctor::DoctorArgs;
pub(crate) use duration::duration;
pub use export::{ExportArgs, ExportTarget, Form};
pub use fail_on::FailOn;
pub use fleet::{
    FleetArgs, FleetCommand, FleetDriftArgs, FleetFactsArgs, FleetFormat, FleetIncidentsArgs,
    FleetReportArgs, FleetRoomArgs, WayArgs,
};
pub use format::{FormatArgs, Formats, TextOrJson};
pub use heartbeats::HeartbeatsArgs;
pub use iotune::{IotuneAction, IotuneArgs};
pub use k8s::{K8sArgs, K8sCommand, K8sConditionArgs};
pub use killed::KilledArgs;
pub use make_room::MakeRoomArgs;
pub(crate) use make_room::{cost_limits, room_request};
pub use moment::TimeArg;
pub use notify::NotifyArgs;
pub use pool::{
    PoolArgs, PoolCommand, PoolCreateArgs, PoolFormat, PoolNameArgs, PoolServeArgs, PoolShowArgs,
    PoolSizeArgs, PoolStatsArgs,
};
pub(crate) use pool::{huge, nodes};
pub use replay::ReplayArgs;
pub use run::{HugePolicy, Prefault, RunArgs};
pub(crate) use run::{direct_io, threshold};
pub(crate) use slurm::is_prolog;
pub use slurm::{SlurmArgs, SlurmCommand, SlurmHealthArgs, SlurmPrologArgs};
pub use top::TopArgs;
pub use trends::TrendsArgs;
pub(crate) use watch::is_name;
pub use watch::{
    IncidentId, IncidentsArgs, Listen, ProbeArg, ReportArgs, ReportFormat, ServiceArg, ServiceName,
    WatchArgs, WatchSettings,
};
pub use why::WhyArgs;

/// Predict, explain and fix memory stalls on Linux; allocate large memory in parallel
#[derive(Debug, Parser)]
#[command(name = "memwright", version, propagate_version = true)]
#[command(after_help = EXIT_CODES)]
#[command(max_term_width = 100)]
pub struct Args {
    /// Configuration file [default: /etc/memwright/memwright.toml if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0  success, nothing found
  1  findings at or above --fail-on, a request that would fail, findings that
     fix left, trends, a missing requirement (doctor), a drained node, or
     receivers that notify --test does not reach
  2  usage: invalid command line or configuration
  3  unknown: could not be checked, or a limit that could not be read may
     refuse the request
  4  permission denied: a privilege is missing
  5  a change failed and was rolled back
  126, 127  run: the command cannot be executed, or was not found";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check for conditions that make large allocations stall or fail
    Check(CheckArgs),
    /// Check the kernel features and privileges that memwright needs, and show how to enable them
    Doctor(DoctorArgs),
    /// Save the kernel's memory state to a file for check --root
    Capture(CaptureArgs),
    /// Show a rule's page, or what holds the machine's memory
    Explain(ExplainArgs),
    /// Fix what check finds, verify that it helped, and record how to revert it
    Fix(FixArgs),
    /// Revert changes to the exact former values
    Undo(UndoArgs),
    /// List the changes that fix made, and their state
    Changes(ChangesArgs),
    /// Make memory available for a large request, within cost limits
    MakeRoom(MakeRoomArgs),
    /// Drain this Slurm node while it has a hazard; free memory before jobs
    Slurm(SlurmArgs),
    /// Query many nodes: available memory, configuration drift, incidents
    Fleet(FleetArgs),
    /// Report the hazards of this node to Kubernetes
    K8s(K8sArgs),
    /// Measure creating, locking and destroying large memory, with and without memwright
    Bench(BenchArgs),
    /// Run a command so that its large memory is populated, locked and freed in parallel
    Run(RunArgs),
    /// Keep large and sequential I/O out of the page cache, per path
    Iotune(IotuneArgs),
    /// Keep pools of populated, locked and zeroed memory ready for programs that restart
    Pool(PoolArgs),
    /// Record memory counters, detect stalls and find their causes
    Watch(WatchArgs),
    /// List recorded incidents
    Incidents(IncidentsArgs),
    /// Show an incident: the stall, its cause, how to fix it, and the evidence
    Report(ReportArgs),
    /// Show who lost time in stalls, and to whom: the own limit, a neighbour, a device, the kernel
    Blame(BlameArgs),
    /// Show which program or part of the kernel killed a process, and why
    Killed(KilledArgs),
    /// Find late heartbeats in cluster logs, and the stall behind each
    Heartbeats(HeartbeatsArgs),
    /// Ship the recording to a shared Parquet data set in a directory or in S3
    Ship(ship::ShipArgs),
    /// Find steady memory growth, and forecast when memory or a limit is full
    Trends(TrendsArgs),
    /// List the receivers of notifications, and test whether messages arrive
    Notify(NotifyArgs),
    /// Show memory in the terminal: this machine live, or any moment of a recording
    Top(TopArgs),
    /// Export a recording or an incident: Parquet, CSV, JSON, profiles
    Export(ExportArgs),
    /// Run memory failures on real kernels in virtual machines: create, find, fix, revert
    Lab(lab::LabArgs),
    /// Trace a command or a running process, and report what it waited for
    Why(WhyArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct CheckArgs {
    /// Also check whether this much memory is available: SIZE[,lock][,huge=2M|1G|thp][,page=16k..1M|best][,node=N]
    #[arg(long = "for", value_name = "REQUEST")]
    pub request: Option<Request>,
    /// Check whether this pool has it ready; if not, whether the machine has it
    #[arg(long, value_name = "NAME", requires = "request", conflicts_with = "root")]
    #[arg(conflicts_with = "recording")]
    pub pool: Option<mw_pool::PoolName>,
    /// Check only these rules (ids, comma-separated)
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Check another machine: a directory with proc/ and sys/, a file written by capture, a sosreport or supportconfig as it
    /// comes, or pasted output of cat /proc/meminfo, free or vmstat (- is standard input)
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// A recording to look at instead.
    #[command(flatten)]
    pub replay: ReplayArgs,
    /// Exit with 1 at this severity or above [default: critical]
    #[arg(long, value_name = "SEVERITY")]
    pub fail_on: Option<FailOn>,
    /// Count a critical finding as a warning until it has been there for this long, in at least three checks: for
    /// programs that act on the exit code
    #[arg(long, value_name = "TIME", value_parser = duration::delay)]
    #[arg(conflicts_with = "recording")]
    pub after: Option<Duration>,
    /// Directory of the findings of earlier checks, for --after [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR", requires = "after")]
    pub state_dir: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<Format>,
    /// Write to FILE, replaced atomically; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also list the rules that passed
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs; the documentation has its schema
    Json,
    /// For Nagios and compatible monitoring; the exit code is the plugin state
    Nagios,
    /// For Kubernetes' node-problem-detector: one line of at most 80 bytes; exit code 0 fine, 1 a
    /// finding at or above --fail-on or a refused request, 3 could not be checked (unknown)
    Npd,
    /// Metrics in the Prometheus text format, for node_exporter's textfile collector;
    /// metrics.md of the documentation lists them
    Prometheus,
}

impl Formats for Format {
    const DEFAULT: Self = Self::Text;
    const JSON: Self = Self::Json;
}

#[derive(Debug, Clone, ClapArgs)]
pub struct CaptureArgs {
    /// The file to write; - is standard output [default: memwright-TIME.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace user-chosen paths (mounts, swap files, cgroups) by numbers
    #[arg(long)]
    pub redact: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct ExplainArgs {
    /// The rule; all rules are listed if omitted
    #[arg(value_name = "RULE")]
    pub rule: Option<String>,
    /// Account for all memory instead: parts that add up to MemTotal, and the cgroups, files and
    /// mounts that hold each
    #[arg(long, conflicts_with = "rule", group = "subject")]
    pub all_memory: bool,
    /// Explain a kernel log instead: what the OOM killer did, failed allocations, blocked tasks, and
    /// the cause of each. A file of any shape (dmesg, a syslog, the journal also as JSON, a paste), -
    /// for standard input; without FILE the log of this machine or of the tree
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "rule", group = "subject")]
    pub log: Option<Option<PathBuf>>,
    /// Read another machine: a directory with proc/ and sys/, a file written by capture, or a sosreport or supportconfig
    /// as it comes (- is standard input)
    #[arg(long, value_name = "DIR|FILE", requires = "subject")]
    pub root: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// List all parts, with the kernel files that they are computed from, and processes
    #[arg(short, long, requires = "all_memory")]
    pub verbose: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct FixArgs {
    /// Fix the findings of these rules only; some remedies are applied only when named
    #[arg(value_name = "RULE")]
    pub rules: Vec<String>,
    /// Apply the settings for a kind of machine, and the fixes of its rules (see profiles.md)
    #[arg(long, value_name = "NAME", value_parser = profile(), conflicts_with = "rules")]
    pub profile: Option<String>,
    /// Show what would change, without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Keep the changes across reboots (in memwright's own files in sysctl.d, tmpfiles.d and
    /// udev's rules.d)
    #[arg(long)]
    pub persist: bool,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Directory of the journal [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct UndoArgs {
    /// The changes to revert, as numbered by changes; all if omitted
    #[arg(value_name = "CHANGE")]
    pub changes: Vec<u64>,
    /// Restore the former value even if another program has changed it since
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Directory of the journal [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct ChangesArgs {
    /// Also list reverted changes
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Directory of the journal [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct BenchArgs {
    /// Size of the segment [default: 4G, or less if memory is short]
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub size: Option<u64>,
    /// Kind of segment: ism, dism, memfd, anon or hugetlb
    #[arg(long, value_name = "KIND", default_value = "memfd", value_parser = bench_kind)]
    pub kind: SegmentKind,
    /// Numbers of threads [default: powers of two up to the number of CPUs, at most 16]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = thread_count)]
    pub threads: Vec<usize>,
    /// Page sizes: 4k, thp, 2M, 1G, folios of 16k to 1M, or best, the largest that are free without
    /// compaction, mixed [default: 4k, thp and 2M]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = bench_page)]
    pub page: Vec<PageSize>,
    /// Memory policy: local, bind:NODES, interleave:NODES, or split:NODES for an equal part from
    /// each node; NODES as in 0-1,3
    #[arg(long, value_name = "POLICY", default_value = "local", value_parser = bench_place)]
    pub place: BenchPlacement,
    /// Write a plot of the results to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Number of measurements of each configuration
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = round_count)]
    pub rounds: usize,
    /// Reserve the missing huge pages, and release them at the end or when interrupted; after a
    /// kill -9, 'memwright undo' releases them (as root)
    #[arg(long)]
    pub reserve: bool,
    /// Directory of the journal, for --reserve [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

fn profile() -> clap::builder::PossibleValuesParser {
    let values = mw_rules::profiles::PROFILES.iter();
    values
        .map(|profile| clap::builder::PossibleValue::new(profile.name).help(profile.summary))
        .collect::<Vec<_>>()
        .into()
}

fn bench_place(text: &str) -> Result<BenchPlacement, String> {
    let wrong = || "use local, bind:NODES, interleave:NODES or split:NODES".to_owned();
    if text == "local" {
        return Ok(BenchPlacement::Uniform(NumaPolicy::Default));
    }
    let (policy, nodes) = text.split_once(':').ok_or_else(wrong)?;
    let nodes = mw_proc::cpulist::parse(nodes.as_bytes())
        .ok()
        .filter(|nodes| !nodes.is_empty())
        .ok_or_else(|| format!("invalid node list '{nodes}' (use for example 0-1,3)"))?;
    match policy {
        "bind" => Ok(BenchPlacement::Uniform(NumaPolicy::Bind(nodes))),
        "interleave" => Ok(BenchPlacement::Uniform(NumaPolicy::Interleave(nodes))),
        "split" => Ok(BenchPlacement::Split(nodes)),
        _ => Err(wrong()),
    }
}

fn bench_kind(text: &str) -> Result<SegmentKind, String> {
    match text.parse() {
        Ok(SegmentKind::Posix) => {
            Err("a posix segment costs the same as a memfd of one stripe; use memfd".to_owned())
        }
        other => other.map_err(|error: mw_segment::InvalidKind| error.to_string()),
    }
}

fn bench_page(text: &str) -> Result<PageSize, String> {
    text.parse().map_err(|error: mw_memory::InvalidPageSize| error.to_string())
}

/// Limit of --threads and --rounds.
const MAX_COUNT: usize = 1024;

fn thread_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_COUNT).contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {MAX_COUNT}"))
}

fn round_count(text: &str) -> Result<usize, String> {
    thread_count(text)
}

/// Reads the command line. The options of all commands together take 1 ms to build, which every program
/// under `run` would wait for: that command is read without the others. What it does not accept is read
/// again with them, for the same messages and help.
///
/// # Errors
/// What is wrong with it, or the help that is asked for.
pub(crate) fn parse(line: impl Iterator<Item = OsString>) -> Result<Args, clap::Error> {
    let line: Vec<OsString> = line.collect();
    if line.get(1).is_some_and(|first| first == "run")
        && let Ok(args) = RunLine::try_parse_from(line.iter().skip(1))
    {
        return Ok(Args { config: args.config, command: Command::Run(args.run) });
    }
    let mut command = with_overview(Args::command());
    let matches = command.try_get_matches_from_mut(line)?;
    Args::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn with_overview(command: clap::Command) -> clap::Command {
    let template = overview::template(&command);
    command.help_template(template)
}

/// The command line of `run` alone.
#[derive(Debug, Parser)]
struct RunLine {
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
}

/// The whole command line, for man pages and completions.
pub fn command() -> clap::Command {
    with_overview(Args::command())
}
