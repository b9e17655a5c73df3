//! The campaigns that `cargo xtask ci` runs in part: blind trials, preflight's answers, public reports, the queries over a
//! fleet, and the tables of kernel functions. They compare what memwright says with what has happened, and with real kernels.

mod campaign;
mod kernel;
mod preflight;
mod reports;
mod ship;
mod trials;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use xtask::{ages, packages, workspace};

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Campaigns that CI runs in part")]
struct CampaignArgs {
    #[command(subcommand)]
    task: CampaignTask,
}

#[derive(Subcommand)]
enum CampaignTask {
    /// Store the names of a kernel's functions and files in kernels/, list what differs from the nearest older kernel, and
    /// compare the tables of functions and counters with all stored kernels; without a name, only compare
    Kernel {
        /// Series and flavour of a Debian kernel, as in 6.12-cloud-amd64, 6.12-rt-amd64 or 7.3-arm64
        name: Option<String>,
    },
    /// Run the queries over the recordings of a fleet on DuckDB and ClickHouse, with a simulated fleet
    Ship {
        /// Only take the minutes of this recording for the simulated fleets: NAME=DIRECTORY, a data set of memwright ship;
        /// may be repeated
        #[arg(long, value_name = "NAME=DIRECTORY", conflicts_with = "fleet")]
        recorded: Vec<String>,
        /// Also on a fleet of so many machines and days, to see what it takes; may be repeated
        #[arg(long, num_args = 2, value_names = ["MACHINES", "DAYS"])]
        fleet: Vec<u32>,
        /// Write eval/results/ship-scale.md from it
        #[arg(long, requires = "fleet")]
        write: bool,
    },
    /// Play stalls that are drawn from a seed, and judge what the recorder says of them
    Trials {
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plays 0 to N - 1 of the seed
        #[arg(long, default_value_t = 10)]
        count: u32,
        /// Only this play, as SEED:INDEX
        #[arg(long, value_parser = trials::parse_play)]
        play: Option<(u64, u32)>,
        /// Play again what this file of results has, with the machines and magnitudes that it had
        #[arg(long, conflicts_with_all = ["play", "conditions", "host"])]
        repeat: Option<PathBuf>,
        /// Compose plays of these conditions alone, for example stop,flood; their results do not belong in eval/results/truth
        #[arg(long, value_delimiter = ',')]
        conditions: Vec<String>,
        /// At native speed in cgroups of this machine, and not in guests
        #[arg(long)]
        host: bool,
        /// Play nothing; write eval/results/truth.md from the results in eval/results/truth
        #[arg(long, conflicts_with_all = ["play", "results"])]
        report: bool,
        /// Play again what was diagnosed wrongly before: into eval/results/truth/former.jsonl
        #[arg(long, conflicts_with_all = ["play", "results", "report", "host"])]
        again: bool,
        /// Play nothing; fit the confidence of causes to eval/results/truth/fit.jsonl (crates/mw-rules/src/confidence.rs)
        #[arg(long, conflicts_with_all = ["play", "results", "report"])]
        calibrate: bool,
        /// The two plays of CI, whose results count nowhere
        #[arg(long, conflicts_with_all = ["play", "results", "report", "again", "calibrate", "host"])]
        quick: bool,
        /// The file that results are appended to [default: target/trials/results.jsonl]
        #[arg(long)]
        results: Option<PathBuf>,
        /// The `memwright` to judge [default: as `cargo build` makes it]
        #[arg(long)]
        program: Option<PathBuf>,
        /// Guests at once
        #[arg(long, default_value_t = 1)]
        jobs: usize,
    },
    /// Ask for memory with `check --for` in many conditions, take it, and compare
    Preflight {
        /// Conditions of lab/preflight (all of them, or those named)
        conditions: Vec<String>,
        /// 6.1, 6.12, or host for this machine (all, or those named)
        #[arg(long, value_delimiter = ',')]
        kernels: Vec<String>,
        /// Sizes are drawn from it
        #[arg(long, default_value_t = 1)]
        seed: u32,
        /// Ask nothing; write eval/results/preflight.md from eval/results/preflight/report.jsonl
        #[arg(long, conflicts_with_all = ["conditions", "kernels", "results"])]
        report: bool,
        /// The file that results are appended to [default: target/preflight/results.jsonl]
        #[arg(long)]
        results: Option<PathBuf>,
        /// The `memwright` to judge [default: as `cargo build` makes it]
        #[arg(long)]
        program: Option<PathBuf>,
        /// Guests at once
        #[arg(long, default_value_t = 1)]
        jobs: usize,
    },
    /// Judge what `check` and `explain --log` say of public reports (fixtures/reports)
    Reports {
        /// Reports by the beginning of their names [default: all]
        names: Vec<String>,
        /// Those as well that were set aside and never opened
        #[arg(long)]
        set_aside: bool,
        /// Store the verdicts and write docs/reports.md
        #[arg(long, conflicts_with = "names")]
        write: bool,
        /// Print the answers that are not right
        #[arg(long)]
        show: bool,
    },
    /// A step of `cargo xtask ci`
    #[command(hide = true)]
    Step { step: CampaignStep },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum CampaignStep {
    PreflightQuick,
    ShipQuick,
    Trials,
    Preflight,
}

fn main() -> anyhow::Result<()> {
    match CampaignArgs::parse().task {
        CampaignTask::Ship { recorded, .. } if !recorded.is_empty() => ship::record(&recorded),
        CampaignTask::Ship { fleet, write, .. } => {
            let (fleets, _) = fleet.as_chunks();
            let fleets: Vec<_> = fleets.iter().map(|[machines, days]| (*machines, *days)).collect();
            ship::run(&fleets, write)
        }
        CampaignTask::Trials { quick: true, .. } => trials::quick(),
        CampaignTask::Trials { report: true, .. } => trials::report(),
        CampaignTask::Trials { calibrate: true, .. } => trials::calibrate(),
        CampaignTask::Trials { again: true, program, .. } => trials::again(program),
        CampaignTask::Trials {
            seed,
            count,
            play,
            repeat,
            conditions,
            results,
            program,
            jobs,
            host,
            ..
        } => trials::run(&trials::TrialSelection {
            seed,
            count,
            only: play,
            repeat,
            conditions,
            results,
            program,
            jobs,
            on_host: host,
        }),
        CampaignTask::Preflight { report: true, .. } => preflight::report(),
        CampaignTask::Preflight {
            conditions,
            kernels,
            seed,
            results,
            program,
            jobs,
            report: false,
        } => preflight::run(&preflight::PreflightSelection {
            conditions,
            kernels,
            sizes: preflight::SizeChoice { seed, ..preflight::SizeChoice::default() },
            results,
            program,
            jobs,
        }),
        CampaignTask::Kernel { name: Some(name) } => kernel::add(&name),
        CampaignTask::Kernel { name: None } => kernel::check(),
        CampaignTask::Reports { names, set_aside, write, show } => {
            reports::run(&reports::ReportSelection { names, set_aside, write, show })
        }
        CampaignTask::Step { step: CampaignStep::PreflightQuick } => preflight::quick(),
        CampaignTask::Step { step: CampaignStep::ShipQuick } => ship::quick(),
        CampaignTask::Step { step: CampaignStep::Trials } => trials::full(),
        CampaignTask::Step { step: CampaignStep::Preflight } => preflight::full(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn xtask_names_every_campaign() {
        let command = CampaignArgs::command();
        let shown = command.get_subcommands().filter(|task| !task.is_hide_set());
        let mut names: Vec<&str> = shown.map(clap::Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(names, xtask::ACCURACY_CAMPAIGNS);
    }
}
