//! Arguments of `run`.

use clap::{Args as ClapArgs, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Clone, Default, ClapArgs)]
pub struct RunArgs {
    /// Lock what the command maps, as it is touched; populate large memory when it is mapped
    #[arg(long)]
    pub lock: bool,
    /// Populate large memory after it is mapped: in the background, while CPUs are idle, or, with
    /// 'now', in parallel before the call that maps it returns
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "background"
    )]
    pub prefault: Option<Prefault>,
    /// Transparent huge pages [default: as the machine is set up]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub huge: Option<HugePolicy>,
    /// Keep transfers of files that are at least this large, and sequential runs, out of the page
    /// cache; a setting of 'memwright iotune' for the path takes precedence [default: cached]
    #[arg(long, value_name = "SIZE", value_parser = direct_io)]
    pub direct_io: Option<u64>,
    /// The same for reads
    #[arg(long)]
    pub direct_io_reads: bool,
    /// Take large shared memory, System V segments too, from this pool (see pool), which has it ready;
    /// what the pool cannot serve comes from the kernel
    #[arg(long, value_name = "NAME")]
    pub pool: Option<mw_pool::PoolName>,
    /// Refuse what the pool cannot serve: the command does not start without the pool, and its mmap
    /// and shmget fail with ENOMEM
    #[arg(long)]
    pub pool_strict: bool,
    /// Do in parallel what is at least this large, 1M or more [default: 32M]
    #[arg(long, value_name = "SIZE", value_parser = threshold)]
    pub threshold: Option<u64>,
    /// Write one summary to standard error when the command ends: what was done for it and all that
    /// it has started, and how much time that saved, or why nothing was done
    #[arg(long)]
    pub stats: bool,
    /// Show what would be done for the command and what prevents it; run nothing
    #[arg(long)]
    pub explain: bool,
    /// The library that the command is run with [default: libmemwright_preload.so beside this
    /// program or in ../lib/memwright]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// Time at which large memory is populated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Prefault {
    /// While CPUs are idle; the program does not wait for it
    Background,
    /// Before the call that maps it returns
    Now,
}

/// Use of transparent huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HugePolicy {
    /// None, for the command and all that it starts
    Never,
    /// For large memory that is populated, as far as they are free without compaction; where they are not,
    /// the folios of 16 KiB to 1 MiB that the machine allows
    Auto,
    /// For all large private memory
    Always,
}

/// A size from which on something is done in parallel.
pub(crate) fn threshold(text: &str) -> Result<u64, String> {
    let bytes = mw_model::parse_size(text).map_err(|error| error.to_string())?;
    if bytes < mw_iotune::environment::THRESHOLD_MIN_BYTES {
        return Err(format!("'{text}' is too small: write 1M or more"));
    }
    Ok(bytes)
}

/// A size from which on transfers of files go uncached.
pub(crate) fn direct_io(text: &str) -> Result<u64, String> {
    let bytes = mw_model::parse_size(text).map_err(|error| error.to_string())?;
    if bytes < mw_iotune::SIZE_MIN_BYTES {
        return Err(format!("'{text}' is too small: write 4k or more"));
    }
    Ok(bytes)
}
