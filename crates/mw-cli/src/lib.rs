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
mod input;
#[cfg(any(feature = "pool", feature = "watch"))]
mod journal_log;
mod live;
mod output;
mod progress;
#[cfg(any(feature = "fleet", feature = "watch"))]
mod secret_files;
mod terminal;

pub use exit::{Exit, Failure};

use args::{Args, Command};
use config::Config;

/// Output of `bench --json`: the version of the format, and its JSON schema.
#[cfg(feature = "schema")]
#[must_use]
pub fn bench_schema() -> (u32, schemars::Schema) {
    command::bench::schema()
}

/// Output of `doctor --json`: the version of the format, and its JSON schema.
#[cfg(all(feature = "doctor", feature = "schema"))]
#[must_use]
pub fn doctor_schema() -> (u32, schemars::Schema) {
    command::doctor::schema()
}

/// Output of `heartbeats --json`: the version of the format, and its JSON schema.
#[cfg(all(feature = "watch", feature = "schema"))]
#[must_use]
pub fn heartbeats_schema() -> (u32, schemars::Schema) {
    command::heartbeats::schema()
}

/// JSON output of the commands of `fleet`: a name, the version of the format, and its JSON schema.
#[cfg(all(feature = "fleet", feature = "schema"))]
#[must_use]
pub fn fleet_schemas() -> [(&'static str, (u32, schemars::Schema)); 4] {
    command::fleet::schemas()
}

/// Output of `iotune show --json`: the version of the format, and its JSON schema.
#[cfg(all(feature = "run", feature = "schema"))]
#[must_use]
pub fn iotune_schema() -> (u32, schemars::Schema) {
    command::iotune::schema()
}

/// Output of `make-room --json`: the version of the format, and its JSON schema.
#[cfg(feature = "schema")]
#[must_use]
pub fn room_schema() -> (u32, schemars::Schema) {
    (mw_model::ROOM_SCHEMA, schemars::schema_for!(mw_model::RoomReport))
}

/// Output of `pool list --json` and `pool stats --json`: the version of the format, and its JSON
/// schema.
#[cfg(all(feature = "pool", feature = "schema"))]
#[must_use]
pub fn pool_schema() -> (u32, schemars::Schema) {
    command::pool::schema()
}

/// Reads the command line, runs the command, and says in a line on standard error what went wrong.
#[must_use]
pub fn main() -> Exit {
    output::report_file_size_limit();
    let line: Vec<_> = std::env::args_os().collect();
    // Slurm drains the node of a prolog that fails, and holds the job: for whatever reason, a typing error too.
    let never_fails = args::is_prolog(&line);
    let ended = match args::parse(line.into_iter()) {
        Ok(args) => run(args),
        Err(said) => match args::missing::explain(&said) {
            Some(line) => Err(Failure::new(Exit::Usage, line)),
            None => {
                terminal::print_usage(&said);
                Ok(if said.use_stderr() { Exit::Usage } else { Exit::Fine })
            }
        },
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
        #[cfg(feature = "doctor")]
        Command::Doctor(_) => Config::default(),
        _ => Config::load(args.config.as_deref())?,
    };
    match args.command {
        Command::Check(args) => command::check::run(&args, &config),
        #[cfg(feature = "doctor")]
        Command::Doctor(doctor) => command::doctor::run(&doctor, args.config.as_deref()),
        Command::Capture(args) => command::capture::run(&args),
        Command::Explain(args) => command::explain::run(&args),
        Command::Fix(args) => command::fix::run(&args, &config),
        Command::Undo(args) => command::undo::run(&args, &config),
        Command::Changes(args) => command::changes::run(&args, &config),
        Command::MakeRoom(args) => command::make_room::run(&args, &config),
        Command::Slurm(args) => command::slurm::run(&args, &config),
        #[cfg(feature = "fleet")]
        Command::Fleet(args) => command::fleet::run(&args, &config),
        #[cfg(feature = "fleet")]
        Command::K8s(args) => command::k8s::run(&args),
        Command::Bench(args) => command::bench::run(&args, &config),
        #[cfg(feature = "run")]
        Command::Run(args) => command::run::run(&args, &config),
        #[cfg(feature = "run")]
        Command::Iotune(args) => command::iotune::run(&args),
        #[cfg(feature = "pool")]
        Command::Pool(args) => command::pool::run(&args, &config),
        #[cfg(feature = "watch")]
        Command::Watch(watch) => command::watch::run(&watch, &config, args.config.as_deref()),
        #[cfg(feature = "watch")]
        Command::Incidents(args) => command::incidents::run(&args, &config),
        #[cfg(feature = "watch")]
        Command::Report(args) => command::report::run(&args, &config),
        #[cfg(feature = "watch")]
        Command::Heartbeats(args) => command::heartbeats::run(&args, &config),
        #[cfg(feature = "ship")]
        Command::Ship(args) => command::ship::run(&args, &config),
        #[cfg(feature = "watch")]
        Command::Trends(args) => command::trends::run(&args, &config),
        #[cfg(feature = "watch")]
        Command::Notify(args) => command::notify::run(&args, &config),
        #[cfg(feature = "top")]
        Command::Top(args) => command::top::run(&args),
        #[cfg(feature = "watch")]
        Command::Export(args) => command::export::run(&args, &config),
        #[cfg(feature = "why")]
        Command::Why(args) => command::why::run(&args),
        #[cfg(feature = "lab")]
        Command::Lab(args) => command::lab::run(&args),
    }
}
