//! The steps of `cargo xtask ci` that are campaigns of this program.

use crate::{cluster, lab, system};

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Step {
    Lab,
    Starve,
    Fence,
    ClusterSoftware,
    System,
}

pub(crate) fn run(step: Step) -> anyhow::Result<()> {
    match step {
        Step::Lab => lab::full(),
        Step::Starve => cluster::starve::full(),
        Step::Fence => cluster::fence::full(),
        Step::ClusterSoftware => cluster::software::full(),
        Step::System => system::full(),
    }
}
