//! The `memwright` program.

use clap::Parser;
use mw_cli::args::Args;
use mw_model::visible;
use std::process::ExitCode;

fn main() -> ExitCode {
    match mw_cli::run(Args::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("memwright: {}", visible::line(&failure.to_string()));
            failure.exit.into()
        }
    }
}
