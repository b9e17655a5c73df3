//! Arguments of `why`.

use super::duration;
use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `why`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WhyArgs {
    /// Trace this running process and its children instead of a command
    #[arg(long, value_name = "PID", conflicts_with_all = ["unit", "cgroup", "command"])]
    pub pid: Option<u32>,
    /// Trace the processes of this systemd unit
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["cgroup", "command"])]
    pub unit: Option<String>,
    /// Trace the processes of this cgroup and of those below it
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    pub cgroup: Option<PathBuf>,
    /// Time for which to trace running processes; Ctrl-C ends it early [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "command")]
    pub duration: Option<Duration>,
    /// Also write what was traced to this file, as JSON that Perfetto and chrome://tracing open
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave out the functions of programs: record no user stacks
    #[arg(long)]
    pub no_user_stacks: bool,
    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required_unless_present_any = ["pid", "unit", "cgroup"],
        trailing_var_arg = true
    )]
    pub command: Vec<OsString>,
}
