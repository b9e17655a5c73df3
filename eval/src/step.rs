//! The steps of `cargo xtask ci` that are campaigns, or the short form of one.

use crate::{cluster, lab, preflight, ship, system, trials};

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Step {
    PreflightQuick,
    ShipQuick,
    Lab,
    Trials,
    Preflight,
    Starve,
    Fence,
    ClusterSoftware,
    System,
}

pub(crate) fn run(step: Step) -> anyhow::Result<()> {
    match step {
        Step::PreflightQuick => preflight::quick(),
        Step::ShipQuick => ship::quick(),
        Step::Lab => lab::full(),
        Step::Trials => trials::full(),
        Step::Preflight => preflight::full(),
        Step::Starve => cluster::starve::full(),
        Step::Fence => cluster::fence::full(),
        Step::ClusterSoftware => cluster::software::full(),
        Step::System => system::full(),
    }
}
