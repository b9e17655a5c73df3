//! The `memwright` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    mw_cli::main().into()
}
