//! Arguments of `fleet`.

use super::duration::duration;
use super::{FormatArgs, TextOrJson, TimeArg};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use mw_model::Request;
use std::path::PathBuf;
use std::time::Duration;

/// A node that cannot be reached ends by itself, and nobody is asked for a password. A node gets neither the agent of the
/// user nor a port of this machine, whatever the user's configuration of ssh forwards.
const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=5 -o ClearAllForwardings=yes \
                   -o ForwardAgent=no -o ForwardX11=no";

#[derive(Debug, Clone, ClapArgs)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum FleetCommand {
    /// List the nodes that can provide this much memory now, best first
    Room(FleetRoomArgs),
    /// List the settings, kernels, findings, changes and pools that differ between nodes
    Drift(FleetDriftArgs),
    /// List the stalls of nodes; those with the same cause at the same time are one event
    Incidents(FleetIncidentsArgs),
    /// Write an HTML report of stalls by cause, node and event
    Report(FleetReportArgs),
    /// Print the facts of this machine that drift compares
    Facts(FleetFactsArgs),
}

/// Access to the nodes.
#[derive(Debug, Clone, ClapArgs)]
pub struct WayArgs {
    /// Command that runs another one on a node, which it takes as its last arguments
    #[arg(long, value_name = "COMMAND", default_value = SSH)]
    pub via: String,
    /// Query this many nodes at once
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub jobs: u32,
    /// Time limit of each node
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub timeout: Duration,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct FleetRoomArgs {
    /// Size and kind of the memory: SIZE[,lock][,huge=2M|1G|thp][,page=16k..1M|best][,node=N]
    #[arg(value_name = "REQUEST")]
    pub request: Request,
    /// Nodes to choose from: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell
    #[arg(long, value_name = "SET", required_unless_present = "prometheus")]
    pub nodes: Option<String>,
    /// Server with memwright's metrics (Prometheus, VictoriaMetrics, Thanos, Mimir): only nodes that have the memory
    /// by their metrics are queried, those with the most first
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,
    /// File with the token for that server
    #[arg(long, value_name = "FILE", requires = "prometheus", conflicts_with = "basic_auth_file")]
    pub token_file: Option<String>,
    /// File with USER:PASSWORD for that server
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub basic_auth_file: Option<String>,
    /// File with the certificates that may have signed the server's, in PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    pub ca_file: Option<PathBuf>,
    /// Label of the metrics that names the node; a port at its end is left out
    #[arg(long, value_name = "LABEL", default_value = "instance", requires = "prometheus")]
    pub label: String,
    /// Do not query the nodes: list them by their metrics
    #[arg(long, requires = "prometheus")]
    pub by_metrics: bool,
    /// Query this many nodes of the short list
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub ask: u32,
    /// Access to the nodes.
    #[command(flatten)]
    pub way: WayArgs,
    /// Output: a table, JSON, or the nodes that answer yes (with --by-metrics, all that are listed) as a node set
    /// for Slurm and ClusterShell
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: FleetFormat,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct FleetDriftArgs {
    /// The nodes: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell
    #[arg(long, value_name = "SET")]
    pub nodes: String,
    /// Access to the nodes.
    #[command(flatten)]
    pub way: WayArgs,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct FleetIncidentsArgs {
    /// The nodes: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell
    #[arg(long, value_name = "SET")]
    pub nodes: String,
    /// Only incidents that lasted beyond this time
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// Incidents with the same cause are one event while none begins later than this after the others
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = duration)]
    pub gap: Duration,
    /// Access to the nodes.
    #[command(flatten)]
    pub way: WayArgs,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct FleetReportArgs {
    /// The nodes: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell
    #[arg(long, value_name = "SET")]
    pub nodes: String,
    /// Write the HTML page to this file; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Only incidents that lasted beyond this time [default: seven days ago]
    #[arg(long, value_name = "TIME")]
    pub since: Option<TimeArg>,
    /// Incidents with the same cause are one event while none begins later than this after the others
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = duration)]
    pub gap: Duration,
    /// Access to the nodes.
    #[command(flatten)]
    pub way: WayArgs,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct FleetFactsArgs {
    /// A captured tree instead of this machine: as for check
    #[arg(long, value_name = "DIR|FILE")]
    pub root: Option<PathBuf>,
    /// The output format.
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    Text,
    Json,
    Nodeset,
}
