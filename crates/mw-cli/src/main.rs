//! The `memwright` program.

use mw_cli::args;
use std::process::ExitCode;

fn main() -> ExitCode {
    match mw_cli::run(args::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("memwright: {failure}");
            failure.exit.into()
        }
    }
}
