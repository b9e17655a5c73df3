//! How close memwright comes to what limits it: creation to the zeroing bandwidth, attaching to the number of page
//! tables, and how late a latency-critical neighbour is beside each operation.

mod attach;
mod neighbour;
mod operation;
mod page;
mod server;
mod zeroing;

pub(crate) use operation::Operation;

use crate::ages;
use crate::workspace::{cargo, go_on, target_dir};
use mw_sys::SignalsBlocked;
use mw_test::alone;
use mw_test::measure::others;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PAGE: &str = "eval/results/ceilings.md";

/// Measures all three; `write` writes the page.
pub(crate) fn run(write: bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "needs root, for huge pages and SCHED_FIFO"
    );
    let _alone = alone();
    let build = ["build", "--locked", "--release", "--package", "mw-cli"];
    cargo(&build)?;
    // When it is interrupted, it releases its huge pages, and then ends by the signal.
    let _signals = SignalsBlocked::new()?;
    let load = others();
    let begun = Instant::now();
    println!("== creation beside the zeroing bandwidth");
    let zeroing = zeroing::measure(&memwright());
    println!("== attaching");
    let attach = attach::measure(&memwright());
    println!("== a neighbour");
    let neighbour = neighbour::measure();
    go_on()?;
    let conditions = page::Conditions { took: begun.elapsed(), load: [load, others()] };
    let parts = [
        page::part(zeroing, page::zeroing),
        page::part(attach, page::attach),
        page::part(neighbour, page::beside),
    ];
    let text = page::text(&conditions, &parts);
    println!("{text}");
    if write {
        ages::write(PAGE, &text)?;
        println!("wrote {PAGE}");
    }
    Ok(())
}

/// Runs an operation again and again for a while, as the process beside which `run` measures a neighbour.
pub(crate) fn operate(operation: Operation, seconds: u64) -> anyhow::Result<()> {
    let _signals = SignalsBlocked::new()?;
    operation::repeat(operation, &memwright(), Duration::from_secs(seconds))
}

fn memwright() -> PathBuf {
    target_dir().join("release/memwright")
}
