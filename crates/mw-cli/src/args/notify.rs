//! Arguments of `notify`.

use clap::Args as ClapArgs;

#[derive(Debug, Clone, ClapArgs)]
pub struct NotifyArgs {
    /// Send a test message to each receiver, and report whether it was delivered
    #[arg(long)]
    pub test: bool,
    /// Only these receivers, by name
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}
