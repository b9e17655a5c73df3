//! Arguments of `pool`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use mw_pool::{Name, Nodes, Pages};
use std::path::PathBuf;

/// Arguments of `pool`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolArgs {
    /// The server's socket [default: /run/memwright-pool/pool.sock]
    #[arg(long, global = true, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: PoolCommand,
}

/// The commands of `pool`.
#[derive(Debug, Clone, Subcommand)]
pub enum PoolCommand {
    /// Keep pools and hand their memory out: runs until it is ended
    Serve(PoolServeArgs),
    /// Make a pool, and wait until all of its memory is there
    Create(PoolCreateArgs),
    /// List the pools that one may use: their size, and what of them is ready
    List(PoolShowArgs),
    /// Show what the server and its pools have done, for people, programs or Prometheus
    Stats(PoolStatsArgs),
    /// Make a pool larger
    Grow(PoolSizeArgs),
    /// Make a pool smaller, by memory that is not in use
    Shrink(PoolSizeArgs),
    /// Give up contents that are kept in a pool
    Release(PoolNameArgs),
    /// Remove a pool; programs that have memory of it keep that until they end
    Remove(PoolNameArgs),
}

/// Arguments of `pool serve`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolServeArgs {
    /// The most memory of all pools together [default: half of this machine's]
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub budget: Option<u64>,
}

/// Arguments of `pool create`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolCreateArgs {
    /// How it is asked for: letters, digits, '-', '_' and '.'
    #[arg(value_name = "NAME")]
    pub name: Name,
    /// How much memory
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub size: u64,
    /// Huge pages: 2M or 1G of the kernel's own pool, or thp [default: none]
    #[arg(long, value_name = "PAGES", value_parser = huge)]
    pub huge: Option<Pages>,
    /// Where its pages come from: NODES alone as in 0-1,3, or interleave for all nodes in turn, or
    /// interleave:NODES
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    pub node: Option<Nodes>,
    /// Users who may have memory of it, by name or number [default: who makes it]
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub owner: Vec<String>,
    /// Groups whose members may have memory of it, by name or number
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub group: Vec<String>,
    /// Zero memory that goes from one user to another in place: they trust each other not to hold
    /// pages in pipes or devices; without it such memory is exchanged for other
    #[arg(long)]
    pub trusting: bool,
    /// Return at once; its memory comes in the background
    #[arg(long)]
    pub no_wait: bool,
}

/// Arguments of `pool list`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolShowArgs {
    /// Output as JSON, described in docs/schema
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `pool stats`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolStatsArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = PoolFormat::Text)]
    pub format: PoolFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Output formats of `pool stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolFormat {
    /// For people
    Text,
    /// For programs, described in docs/schema
    Json,
    /// For Prometheus, in its text format
    Metrics,
}

/// Arguments of `pool grow` and `pool shrink`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolSizeArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    pub name: Name,
    /// By how much; rounded up to what the pool is made of
    #[arg(value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub size: u64,
}

/// Arguments of `pool remove` and `pool release`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolNameArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    pub name: Name,
}

/// Reads the pages of a pool.
pub(crate) fn huge(text: &str) -> Result<Pages, String> {
    let known = Pages::ALL.into_iter().find(|pages| pages.name().eq_ignore_ascii_case(text));
    known.ok_or_else(|| format!("'{text}' is none of 2M, 1G, thp, 4k"))
}

/// Reads where pages come from.
pub(crate) fn nodes(text: &str) -> Result<Nodes, String> {
    let list = |text: &str| {
        mw_proc::cpulist::parse(text.as_bytes())
            .ok()
            .filter(|nodes| !nodes.is_empty() && nodes.len() <= mw_pool::spec::MAX_NODES)
            .ok_or_else(|| format!("'{text}' is no list of nodes: write 0-1,3 or interleave"))
    };
    match text.split_once(':') {
        None if text == "interleave" => {
            let all = std::fs::read("/sys/devices/system/node/has_memory").unwrap_or_default();
            Ok(Nodes::Interleave(mw_proc::cpulist::parse(&all).unwrap_or_else(|_| vec![0])))
        }
        Some(("interleave", nodes)) => list(nodes).map(Nodes::Interleave),
        _ => list(text).map(Nodes::Bind),
    }
}
