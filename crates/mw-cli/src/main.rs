//! The `memwright` program.

use clap::Parser;
use mw_cli::args::Args;
use std::process::ExitCode;

fn main() -> ExitCode {
    match mw_cli::run(Args::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("memwright: {failure}");
            failure.exit.into()
        }
    }
}
