//! The `memwright` program.

use std::process::ExitCode;

/// A command that reads a file from elsewhere has a limit of memory, and says where it has reached it.
#[global_allocator]
static ALLOCATOR: mw_sys::Allocator = mw_sys::Allocator;

fn main() -> ExitCode {
    mw_cli::main().into()
}
