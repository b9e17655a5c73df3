//! Arguments of `slurm`.

use super::duration::delay;
use super::{FailOn, cost_limits, room_request};
use clap::{Args as ClapArgs, Subcommand};
use mw_model::Request;
use mw_room::CostLimits;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Clone, ClapArgs)]
pub struct SlurmArgs {
    #[command(subcommand)]
    pub command: SlurmCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum SlurmCommand {
    /// Drain this node while check finds a hazard, then resume it; for HealthCheckProgram
    Health(SlurmHealthArgs),
    /// Make memory available before or after a job; for Prolog and Epilog: the exit code is always 0
    Prolog(SlurmPrologArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct SlurmHealthArgs {
    /// Name of the node [default: $SLURMD_NODENAME, or the host name up to the first dot]
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Drain at this severity or above [default: critical, or warning with --drain-on]
    #[arg(long, value_name = "SEVERITY")]
    pub severity: Option<FailOn>,
    /// Drain for findings of these rules only
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub drain_on: Vec<String>,
    /// Drain only once the finding has been there for this long, in at least three checks
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = delay)]
    pub after: Duration,
    /// Drain only if a job of this size would wait or fail: SIZE[,lock][,huge=2M|1G|thp][,node=N]
    #[arg(long, value_name = "REQUEST")]
    pub job: Option<Request>,
    /// Once the node is drained and idle, make room for this much, check again, and resume the node if the
    /// hazard is gone: SIZE[,lock][,huge=2M|1G|thp][,node=N]
    #[arg(long, value_name = "REQUEST", value_parser = room_request)]
    pub make_room: Option<Request>,
    /// Limits of --make-room, as for make-room; its time is at most what remains of 50 s
    #[arg(
        long,
        value_name = "LIMITS",
        default_value = "",
        hide_default_value = true,
        value_parser = cost_limits,
        requires = "make_room"
    )]
    pub max_cost: CostLimits,
    /// Also keep what the node offers in its field Extra, in GiB, for jobs that ask for it (Slurm 23.11,
    /// extra_constraints): mem is available without writeback or swap, mem2m in blocks of 2 MiB
    #[arg(long)]
    pub extra: bool,
    /// Show what would be done to the node, without doing it
    #[arg(long)]
    pub dry_run: bool,
    /// Judge a captured tree instead of this machine, to rehearse: as for check
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// Directory of the findings of earlier checks, and of the journal for --make-room [default:
    /// /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct SlurmPrologArgs {
    /// Size and kind of the memory: SIZE[,lock][,huge=2M|1G|thp][,node=N]
    #[arg(long, value_name = "REQUEST", value_parser = room_request)]
    pub make_room: Request,
    /// Limits, as for make-room: slurmctld may requeue a job whose prolog takes longer than BatchStartTimeout
    #[arg(long, value_name = "LIMITS", default_value = "time=5s", value_parser = cost_limits)]
    pub max_cost: CostLimits,
    /// Directory of the journal [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// True if the command line is that of `slurm prolog`, right or wrong.
pub(crate) fn is_prolog(line: &[std::ffi::OsString]) -> bool {
    line.windows(2).any(|words| words == ["slurm", "prolog"])
}
