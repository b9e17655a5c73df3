//! The campaigns that CI runs with `--full` alone: `cargo xtask CAMPAIGN --help`. They measure the program, judge what it
//! says, and write the pages of docs/ that rest on it.

mod ceilings;
mod cluster;
mod debian;
mod environments;
mod evaluate;
mod fixtures;
mod fleet;
mod huge_pages;
mod kubernetes;
mod lab;
mod oomanalyser;
mod peers;
mod plots;
mod recorders;
mod step;
mod suites;
mod system;
mod workspace;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use xtask::{ages, dist, packages};

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Campaigns")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the test suites of other projects without the library and under `memwright run`, and compare
    Suites {
        /// ltp, postgresql or cpython (all of them, or those named)
        names: Vec<String>,
        /// Option sets: default, prefault, lock, huge or direct-io (all of them, or those named)
        #[arg(long, value_delimiter = ',')]
        options: Vec<String>,
        /// Directory of LTP [default: $LTPROOT, or /opt/ltp]
        #[arg(long)]
        ltp: Option<PathBuf>,
        /// Write eval/results/suites.md from the latest result of every suite, run now or before
        #[arg(long)]
        write: bool,
    },
    /// Measure `fleet room` with the metrics of many nodes in Prometheus and VictoriaMetrics
    Fleet {
        /// Number of nodes
        #[arg(long, value_delimiter = ',', default_values_t = [1000, 10_000, 100_000])]
        nodes: Vec<u64>,
        /// memwright to try [default: built here]
        #[arg(long)]
        program: Option<PathBuf>,
        /// Write eval/results/fleet-scale.md from it
        #[arg(long)]
        write: bool,
    },
    /// Stop corosync, etcd, Galera, keepalived, Patroni and ZooKeeper, and look for their lines with memwright heartbeats;
    /// or starve a node of corosync, Pacemaker and PostgreSQL of memory, in two guests, without and with fencing; or one with
    /// etcd, Redis Sentinel, keepalived, Patroni, Galera, ZooKeeper and corosync
    Cluster {
        #[arg(default_value = "stop")]
        action: cluster::Action,
        /// memwright to try [default: target/debug/memwright]
        #[arg(long)]
        program: Option<PathBuf>,
        /// For `starve`: how long the flood goes on under `memwright run --direct-io` [default: 2]
        #[arg(long, value_name = "N")]
        minutes: Option<u64>,
        /// For `starve` and `fence`: what is available when the database has locked its memory
        #[arg(long, value_name = "MIB", default_value_t = cluster::starve::LEFT_MIB)]
        left: u64,
        /// Play nothing; judge what was played last
        #[arg(long)]
        again: bool,
        /// Write eval/results/cluster.md, eval/results/fencing.md, or the table of docs/heartbeats.md, from it
        #[arg(long)]
        write: bool,
    },
    /// Install the chart on Kubernetes' API server and set conditions of a node as a pod does; builds the server, etcd
    /// and Helm with Go (half an hour on 2 cores, once)
    Kubernetes {
        /// memwright to try [default: built here]
        #[arg(long)]
        program: Option<PathBuf>,
    },
    /// Boot a Debian with its systemd, install the package in it and use it as a stranger does: from the first verdict
    /// to an incident, a scrape, a restart and settings that are kept
    System {
        /// Series of kernels, such as 6.1 [default: all of the lab]
        #[arg(long, value_delimiter = ',')]
        kernel: Vec<String>,
        /// The Debian package to install [default: built here with the profile dev]
        #[arg(long)]
        package: Option<PathBuf>,
        /// The older Debian package to upgrade [default: the same sources with a lower version]
        #[arg(long)]
        previous: Option<PathBuf>,
        /// Only the steps of lab/system whose names begin with one of these, to develop them
        #[arg(long, value_delimiter = ',')]
        steps: Vec<String>,
        /// Write docs/system.md from it
        #[arg(long, conflicts_with = "steps")]
        write: bool,
    },
    /// Regenerate the fixtures in virtual machines (all of them, or those named)
    Fixtures {
        /// Cases under lab/
        names: Vec<String>,
    },
    /// Run the lab's cases in virtual machines (all of them, or those named)
    Lab {
        /// Cases under lab/, or single variants of them
        names: Vec<String>,
        /// On every packaged kernel
        #[arg(long)]
        all_kernels: bool,
        /// Run the recorder in the guest instead, where a case has [watch]
        #[arg(long)]
        watch: bool,
        /// Runs of each case
        #[arg(long, default_value_t = 1)]
        rounds: u16,
        /// Guests at once
        #[arg(long, default_value_t = 1)]
        jobs: u16,
        /// Write the results to eval/results/lab.md and eval/results/lab/, or to eval/results/rounds.md with --rounds
        #[arg(long, conflicts_with = "watch")]
        write: bool,
        /// Run nothing; write eval/results/lab.md from eval/results/lab/results.json
        #[arg(long, conflicts_with_all = ["watch", "rounds", "write"])]
        redraw: bool,
    },
    /// Draw eval/results/lab/ from the logs of `memwright lab --keep-logs`
    LabPlots {
        /// The directory
        logs: PathBuf,
    },
    /// Measure the options of the lab's evaluations against each other, and write docs/evaluations
    Evaluate {
        /// Evaluations under lab/ (all of them, or those named)
        names: Vec<String>,
        /// Number of measurements of each option
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Number of options that are measured at once
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Measure nothing; regenerate the pages from the committed results
        #[arg(long, conflicts_with = "rounds")]
        redraw: bool,
    },
    /// Run `check` in containers, under masked files, in cgroups and on other kernels, and check each
    /// first line and exit code (all environments, or those whose names begin with NAMES)
    Environments {
        /// The beginnings of names
        names: Vec<String>,
        /// The `memwright` to run [default: built here, optimised]
        #[arg(long)]
        program: Option<PathBuf>,
    },
    /// Give logs to OOMAnalyser and to `explain --log`, and compare the answers
    #[command(name = "oomanalyser")]
    OomAnalyser {
        /// OOMAnalyser.py of its repository
        #[arg(long, value_name = "FILE")]
        source: PathBuf,
        /// The `memwright` to run [default: built here, optimised]
        #[arg(long)]
        program: Option<PathBuf>,
        /// Write eval/results/oomanalyser.md from it
        #[arg(long)]
        write: bool,
    },
    /// Measure how others get, touch and lock large memory, beside memwright (needs root; at most 10 minutes)
    Peers {
        /// Number of measurements of each
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Memory of each, in MiB
        #[arg(long, default_value_t = 1024)]
        size: u64,
        /// Write eval/results/peers.md from it
        #[arg(long)]
        write: bool,
    },
    /// Measure creation beside the zeroing bandwidth, attaching by size, and a latency-critical neighbour beside each
    /// operation (needs root; at most 8 minutes)
    Ceilings {
        /// Write eval/results/ceilings.md from it
        #[arg(long)]
        write: bool,
    },
    /// Repeat an operation on large memory, for `ceilings`
    #[command(hide = true)]
    Operate {
        operation: ceilings::Operation,
        #[arg(long)]
        seconds: u64,
    },
    /// Measure the cost of the recorder beside atop, sar, pcp and pt-stalk, all at once
    Recorders {
        /// Duration; the size of a recording needs at least 360
        #[arg(long, default_value_t = 360)]
        seconds: u64,
        /// Write the table into eval/results/benchmarks.md
        #[arg(long)]
        write: bool,
    },
    /// A step of `cargo xtask ci`
    #[command(hide = true)]
    Step { step: step::Step },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().task {
        Task::Suites { names, options, ltp, write } => {
            suites::run(&suites::Choice { names, options, ltp, write })
        }
        Task::Fleet { nodes, program, write } => fleet::run(&nodes, program, write),
        Task::Cluster { action: cluster::Action::Stop, program, .. } => cluster::run(program),
        Task::Cluster { action: cluster::Action::Starve, program, minutes, left, again, write } => {
            cluster::starve::run(&cluster::starve::Choice { minutes, left, program, again, write })
        }
        Task::Cluster { action: cluster::Action::Fence, program, left, again, write, .. } => {
            cluster::fence::run(&cluster::fence::Choice { program, left, again, write })
        }
        Task::Cluster {
            action: cluster::Action::StarveSoftware, program, again, write, ..
        } => cluster::software::run(program, again, write),
        Task::Kubernetes { program } => kubernetes::run(program),
        Task::System { kernel, package, previous, steps, write } => {
            system::run(&system::Choice { kernels: kernel, package, previous, steps, write })
        }
        Task::Fixtures { names } => fixtures::run(&names),
        Task::Lab { redraw: true, .. } => lab::redraw(),
        Task::Lab { names, all_kernels, watch, rounds, jobs, write, redraw: false } => {
            let selection = lab::Selection { names, all_kernels, rounds, jobs };
            if watch { lab::watch(&selection) } else { lab::run(&selection, write) }
        }
        Task::LabPlots { logs } => plots::run(&logs).map(drop),
        Task::Evaluate { names, rounds, jobs, redraw } => {
            evaluate::run(&names, rounds, jobs, redraw)
        }
        Task::Environments { names, program } => environments::run(&names, program),
        Task::Ceilings { write } => ceilings::run(write),
        Task::Operate { operation, seconds } => ceilings::operate(operation, seconds),
        Task::OomAnalyser { source, program, write } => oomanalyser::run(&source, program, write),
        Task::Peers { rounds, size, write } => peers::run(rounds, size, write),
        Task::Recorders { seconds, write } => recorders::run(seconds, write),
        Task::Step { step } => step::run(step),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn xtask_names_every_campaign() {
        let command = Args::command();
        let shown = command.get_subcommands().filter(|task| !task.is_hide_set());
        let mut names: Vec<&str> = shown.map(clap::Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(names, xtask::CAMPAIGNS);
    }
}
