//! Arguments of `iotune`.

use super::{FormatArgs, TextOrJson};
use clap::{Args as ClapArgs, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Clone, ClapArgs)]
pub struct IotuneArgs {
    #[command(subcommand)]
    pub action: IotuneAction,
}

#[derive(Debug, Clone, Subcommand)]
pub enum IotuneAction {
    /// Show settings by path, their source, and what programs did
    Show {
        /// A file or directory [default: all that have a setting]
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
        #[command(flatten)]
        format: FormatArgs<TextOrJson>,
    },
    /// Change a path and everything below it, in running programs too
    Set {
        /// A file or directory
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// discovered_direct_iosz=SIZE|off: transfers of SIZE or more go uncached;
        /// discovered_direct_reads=on|off: so do reads
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Remove the settings of a path
    Unset {
        /// A file or directory
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Keep the current settings across reboots
    Save {
        /// Keep only the settings of this path [default: all]
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
    },
}
