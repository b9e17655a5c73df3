//! The `memwright` program: arguments, configuration, exit codes. Everything else is in the crates
//! that it puts together.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
// terminal.rs prints: the macros panic where nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advice;
pub mod args;
mod command;
mod config;
mod exit;
mod journal_log;
mod live;
mod output;
mod progress;
mod schemas;
mod secret_files;
mod terminal;

pub use exit::{Exit, Failure};
pub use schemas::schemas;

use args::{Args, Command};
use config::Config;

/// Reads the command line, runs the command, and says in a line on standard error what went wrong.
#[must_use]
pub fn main() -> Exit {
    output::report_file_size_limit();
    let line: Vec<_> = std::env::args_os().collect();
    // Slurm drains the node of a prolog that fails, and holds the job: for whatever reason, a typing error too.
    let never_fails = args::is_prolog(&line);
    let ended = match args::parse(line.into_iter()) {
        Ok(args) => run(args),
        Err(said) => {
            terminal::print_usage(&said);
            Ok(if said.use_stderr() { Exit::Usage } else { Exit::Fine })
        }
    };
    let exit = match ended.and_then(|exit| terminal::written().map(|()| exit)) {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.is_silent() {
                terminal::tell(format_args!("memwright: {failure}"));
            }
            failure.exit
        }
    };
    if never_fails { Exit::Fine } else { exit }
}

fn run(args: Args) -> Result<Exit, Failure> {
    let config = match &args.command {
        // It reports what is wrong with the file.
        Command::Doctor(_) => Config::default(),
        _ => Config::load(args.config.as_deref())?,
    };
    match args.command {
        Command::Check(args) => command::check::run(&args, &config),
        Command::Doctor(doctor) => command::doctor::run(&doctor, args.config.as_deref()),
        Command::Capture(args) => command::capture::run(&args),
        Command::Explain(args) => command::explain::run(&args),
        Command::Fix(args) => command::fix::run(&args, &config),
        Command::Undo(args) => command::undo::run(&args, &config),
        Command::Changes(args) => command::changes::run(&args, &config),
        Command::MakeRoom(args) => command::make_room::run(&args, &config),
        Command::Slurm(args) => command::slurm::run(&args, &config),
        Command::Fleet(args) => command::fleet::run(&args, &config),
        Command::K8s(args) => command::k8s::run(&args),
        Command::Bench(args) => command::bench::run(&args, &config),
        Command::Run(args) => command::run::run(&args, &config),
        Command::Iotune(args) => command::iotune::run(&args),
        Command::Pool(args) => command::pool::run(&args, &config),
        Command::Watch(watch) => command::watch::run(&watch, &config, args.config.as_deref()),
        Command::Incidents(args) => command::incidents::run(&args, &config),
        Command::Report(args) => command::report::run(&args, &config),
        Command::Blame(args) => command::blame::run(&args, &config),
        Command::Killed(args) => command::killed::run(&args, &config),
        Command::Heartbeats(args) => command::heartbeats::run(&args, &config),
        Command::Ship(args) => command::ship::run(&args, &config),
        Command::Trends(args) => command::trends::run(&args, &config),
        Command::Notify(args) => command::notify::run(&args, &config),
        Command::Top(args) => command::top::run(&args),
        Command::Export(args) => command::export::run(&args, &config),
        Command::Why(args) => command::why::run(&args),
        Command::Lab(args) => command::lab::run(&args),
    }
}
