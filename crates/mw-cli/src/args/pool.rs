//! Arguments of `pool`.

use super::{FormatArgs, Formats, TextOrJson};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use mw_pool::{NumaPolicy, PageSize, PoolName};
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct PoolArgs {
    /// Socket of the server [default: /run/memwright-pool/pool.sock]
    #[arg(long, global = true, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    #[command(subcommand)]
    pub command: PoolCommand,
}

#[derive(Debug, Clone, Subcommand)]
pub enum PoolCommand {
    /// Run the pool server
    Serve(PoolServeArgs),
    /// Create a pool, and wait until it is populated
    Create(PoolCreateArgs),
    /// List the pools that you may use, with their size and state
    List(PoolShowArgs),
    /// Show statistics of the server and its pools
    Stats(PoolStatsArgs),
    /// Grow a pool
    Grow(PoolSizeArgs),
    /// Shrink a pool by memory that is not leased
    Shrink(PoolSizeArgs),
    /// Discard contents that a pool preserves
    Release(PoolNameArgs),
    /// Remove a pool; programs keep the memory that they have leased until they end
    Remove(PoolNameArgs),
}

#[derive(Debug, Clone, ClapArgs)]
pub struct PoolServeArgs {
    /// Limit of all pools together [default: half of the machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub budget: Option<u64>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct PoolCreateArgs {
    /// Name of the pool: letters, digits, '-', '_' and '.'
    #[arg(value_name = "NAME")]
    pub name: PoolName,
    /// Size of the pool
    #[arg(long, value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub size: u64,
    /// Huge pages: 2M or 1G (hugetlb), thp, folios of 16k to 1M, or best, the largest that are free
    /// without compaction, mixed [default: none]
    #[arg(long, value_name = "PAGES", value_parser = huge)]
    pub huge: Option<PageSize>,
    /// NUMA nodes of its pages: NODES as in 0-1,3, interleave for all nodes in turn, or
    /// interleave:NODES
    #[arg(long, value_name = "NODES", value_parser = nodes)]
    pub node: Option<NumaPolicy>,
    /// Users who may lease its memory, by name or number [default: its creator]
    #[arg(long, value_name = "USER", value_delimiter = ',')]
    pub owner: Vec<String>,
    /// Groups whose members may lease its memory, by name or number
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub group: Vec<String>,
    /// Zero memory in place when it passes from one user to another: the users trust each other
    /// not to hold pages in pipes or devices; by default such memory is exchanged
    #[arg(long)]
    pub trusting: bool,
    /// Return at once, and populate in the background
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct PoolShowArgs {
    /// The pool [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<PoolName>,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
}

#[derive(Debug, Clone, ClapArgs)]
pub struct PoolStatsArgs {
    /// The pool [default: all]
    #[arg(value_name = "NAME")]
    pub name: Option<PoolName>,
    #[command(flatten)]
    pub format: FormatArgs<PoolFormat>,
}

/// Output formats of `pool stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolFormat {
    /// For people
    Text,
    /// For programs; the documentation has its schema
    Json,
    /// Prometheus text format
    Metrics,
}

impl Formats for PoolFormat {
    const DEFAULT: Self = Self::Text;
    const JSON: Self = Self::Json;
}

/// Arguments of `pool grow` and `pool shrink`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolSizeArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    pub name: PoolName,
    /// By how much; rounded up to whole stripes
    #[arg(value_name = "SIZE", value_parser = mw_model::parse_size)]
    pub size: u64,
}

/// Arguments of `pool remove` and `pool release`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PoolNameArgs {
    /// The pool
    #[arg(value_name = "NAME")]
    pub name: PoolName,
}

/// Parses the page size of a pool.
pub(crate) fn huge(text: &str) -> Result<PageSize, String> {
    text.parse().map_err(|error: mw_memory::InvalidPageSize| error.to_string())
}

/// Parses the NUMA nodes of a pool.
pub(crate) fn nodes(text: &str) -> Result<NumaPolicy, String> {
    let list = |text: &str| {
        mw_proc::cpulist::parse(text.as_bytes())
            .ok()
            .filter(|nodes| !nodes.is_empty() && nodes.len() <= mw_pool::spec::MAX_NODES)
            .ok_or_else(|| {
                format!("invalid node list '{text}' (use for example 0-1,3, or interleave)")
            })
    };
    match text.split_once(':') {
        None if text == "interleave" => {
            let all = mw_sys::kernel_file::read("/sys/devices/system/node/has_memory")
                .unwrap_or_default();
            Ok(NumaPolicy::Interleave(mw_proc::cpulist::parse(&all).unwrap_or_else(|_| vec![0])))
        }
        Some(("interleave", nodes)) => list(nodes).map(NumaPolicy::Interleave),
        _ => list(text).map(NumaPolicy::Bind),
    }
}
