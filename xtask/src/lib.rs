//! The development tasks, which need only pure tables of the program, so that `cargo xtask` is built in seconds. The
//! campaigns, which use its crates, are the programs accuracy and eval, and the generated documentation is that of docgen:
//! they are built when they are first asked for.

pub mod ages;
pub mod arch;
mod ci;
mod circles;
mod command;
mod compiled_crates;
mod defences;
pub mod dist;
#[cfg(test)]
mod install;
mod lab;
mod links;
mod locks;
mod names;
mod new;
pub mod packages;
mod pictures;

mod python;
mod share;
mod tests;
mod tools;
mod units;
mod words;
pub mod workspace;

pub use command::{ACCURACY_CAMPAIGNS, CAMPAIGNS, run};
