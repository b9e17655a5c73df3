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
    /// Say what holds for a path or for all, where that comes from, and what programs did
    Show {
        /// A file or folder [default: all that have a setting]
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
        #[command(flatten)]
        format: FormatArgs<TextOrJson>,
    },
    /// Set what holds at and below a path: running programs see it at once
    Set {
        /// A file or folder
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// discovered_direct_iosz=SIZE|off, from how many bytes on transfers go uncached;
        /// discovered_direct_reads=on|off, whether reads do too
        #[arg(value_name = "KEY=VALUE", required = true)]
        settings: Vec<String>,
    },
    /// Take a path's setting away
    Unset {
        /// A file or folder
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Keep what is in force over a reboot
    Save {
        /// Keep this path's setting alone [default: all]
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
    },
}
