//! `memwright doctor`: reads the installation, has the machine judged, prints the report.

use crate::args::DoctorArgs;
use crate::config::{Config, DEFAULT_FILE};
use crate::{Exit, Failure, live, terminal};
use mw_doctor::{
    Configuration, HostFacts, Installation, RecordingFile, RequirementState, UnitState,
};
use mw_pool::Client;
use mw_record::Retention;
use rustix::fs::{Access, access, statvfs};
use std::path::Path;

pub(crate) fn run(args: &DoctorArgs, file: Option<&Path>) -> Result<Exit, Failure> {
    // Fails where a FUSE file system answers for the kernel and does not respond.
    live::source()?;
    let report = mw_doctor::judge(&HostFacts::read(installation(file)));
    if args.format.is_json() {
        super::print_json(&report)?;
    } else {
        terminal::print(&report.text(args.verbose));
    }
    Ok(match report.worst() {
        RequirementState::Missing => Exit::Findings,
        RequirementState::Unknown => Exit::CouldNotCheck,
        RequirementState::Off | RequirementState::Works => Exit::Fine,
    })
}

/// State of memwright's own parts.
fn installation(config_file: Option<&Path>) -> Installation {
    let loaded = Config::load(config_file);
    let configuration = match &loaded {
        Ok(config) => configuration(config, config_file),
        Err(failure) => Err(failure.to_string()),
    };
    let config = loaded.unwrap_or_default();
    let library = super::run::library_path(&config);
    let pools = Client::new(config.pool().socket()).pools();
    Installation {
        configuration,
        preload_library: library.map(|path| path.display().to_string()),
        recorder: UnitState::read("memwright.service"),
        pool_server: UnitState::read("memwright-pool.service"),
        pools: pools.map(|pools| pools.len()).map_err(|error| error.to_string()),
        recording: recording(&config),
    }
}

/// State of the configuration, whose probes and pools can be read too.
fn configuration(config: &Config, file: Option<&Path>) -> Result<Configuration, String> {
    config.watch().probes().map_err(|failure| failure.to_string())?;
    config.notify().map_err(|failure| failure.to_string())?;
    let pools = config.pool().create()?;
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    Ok(Configuration {
        path: path.exists().then(|| path.display().to_string()),
        wants_pools: !pools.is_empty(),
    })
}

fn recording(config: &Config) -> RecordingFile {
    let path = config.recording(None);
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let free = statvfs(there).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    RecordingFile {
        writable: access(there, Access::WRITE_OK),
        free_bytes: free.ok(),
        size_bytes: path.metadata().map_or(0, |metadata| metadata.len()),
        max_bytes: config.watch().max_size.unwrap_or(Retention::default().max_bytes),
        path: path.display().to_string(),
    }
}
