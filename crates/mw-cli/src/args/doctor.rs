//! Arguments of `doctor`.

use super::{FormatArgs, TextOrJson};
use clap::Args as ClapArgs;

#[derive(Debug, Clone, ClapArgs)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Also describe what is in place
    #[arg(short, long)]
    pub verbose: bool,
}
