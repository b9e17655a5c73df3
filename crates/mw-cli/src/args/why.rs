//! Arguments of `why`.

use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `why`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WhyArgs {
    /// Also write the path to this file, as JSON that Perfetto and chrome://tracing open
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
