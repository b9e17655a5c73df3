//! Judges what belongs to memwright itself; pure.

use crate::host::{HostFacts, Installation, RecordingFile, UnitFailure, UnitState};
use crate::report::Requirement;
use mw_model::{format_bytes, format_count};
use rustix::io::Errno;

const INSTALL: &str = "make && sudo make install    # in memwright's source";

pub(crate) fn checks(machine: &HostFacts) -> Vec<Requirement> {
    let service = &machine.installation;
    vec![
        configuration(service),
        preload_library(service),
        recorder(service).for_user(machine.is_root),
        recording(&service.recording, machine.is_root),
        pool_server(service).for_user(machine.is_root),
    ]
}

fn configuration(service: &Installation) -> Requirement {
    let check = |detail: String| Requirement::works("configuration", "every command", detail);
    match &service.configuration {
        Ok(configuration) => match &configuration.path {
            Some(path) => check(format!("{path} is valid")),
            None => check("there is no file, and the defaults apply".to_owned()),
        },
        Err(why) => {
            let remedy = "man memwright.toml    # has every entry; correct this one";
            check(String::new()).missing(why.clone(), remedy)
        }
    }
}

fn preload_library(service: &Installation) -> Requirement {
    let check = |detail: &str| Requirement::works("preload-library", "run", detail);
    match &service.preload_library {
        Ok(path) => check(path),
        Err(why) => check("").missing(why.clone(), INSTALL),
    }
}

fn recorder(service: &Installation) -> Requirement {
    let check = |detail: &str| Requirement::works("recorder", "watch, incidents, trends", detail);
    match &service.recorder {
        UnitState::Installed { failure: Some(failure), .. } => {
            failed(check(""), "memwright", failure)
        }
        UnitState::Installed { enabled, active, .. } if active == "active" => {
            match enabled.as_str() {
                "enabled" => check("memwright.service runs"),
                _ => check("").missing(
                    "memwright.service runs, but not after a reboot",
                    "systemctl enable memwright",
                ),
            }
        }
        UnitState::Installed { .. } => check("").missing(
            "memwright.service is installed and does not run: stalls are not recorded",
            "systemctl enable --now memwright",
        ),
        UnitState::NotInstalled => check("")
            .missing("memwright.service is not installed: stalls are not recorded", INSTALL),
        UnitState::NoSystemd => {
            check("").off("no systemd: start the recorder yourself", "memwright watch")
        }
        UnitState::Unknown(why) => {
            check("").unknown(why.clone(), "systemctl status memwright memwright-pool")
        }
    }
}

/// A unit that fails whenever it is started: to start it again is no remedy.
fn failed(check: Requirement, unit: &str, failure: &UnitFailure) -> Requirement {
    let UnitFailure { result, log } = failure;
    let how = if result.is_empty() { String::new() } else { format!(": {result}") };
    let remedy = format!(
        "journalctl -u {unit} -n 50    # says why; correct that, then: systemctl restart {unit}"
    );
    check.missing(format!("{unit}.service fails{how}"), remedy).with_log(log)
}

/// Pools are optional: the server is missing where the configuration has pools, or systemd is to start it.
fn pool_server(service: &Installation) -> Requirement {
    let check = |detail: &str| Requirement::works("pool-server", "pool, run --pool", detail);
    let why = match &service.pools {
        Ok(count) => {
            let pools = format_count(*count, "pool");
            return check(&format!("answers, with {pools} that this user may use"));
        }
        Err(why) => why,
    };
    let start = "systemd-sysusers && systemctl enable --now memwright-pool";
    let remedy = match &service.pool_server {
        UnitState::Installed { failure: Some(failure), .. } => {
            return failed(check(""), "memwright-pool", failure);
        }
        UnitState::Installed { .. } => start,
        UnitState::NoSystemd => "memwright pool serve",
        UnitState::NotInstalled | UnitState::Unknown(_) => INSTALL,
    };
    let is_started = match &service.pool_server {
        UnitState::Installed { enabled, .. } => enabled == "enabled",
        _ => false,
    };
    let is_wanted = service.configuration.as_ref().is_ok_and(|known| known.wants_pools);
    if is_started || is_wanted {
        check("").missing(why.clone(), remedy)
    } else {
        check("").off("no pool is configured, and no server runs", remedy)
    }
}

fn recording(recording: &RecordingFile, is_root: bool) -> Requirement {
    let RecordingFile { path, writable, free_bytes, size_bytes, max_bytes } = recording;
    let check = |detail: String| Requirement::works("recording", "watch", detail);
    let elsewhere = "name another file as recording in [watch] of /etc/memwright/memwright.toml";
    match writable {
        Ok(()) => {}
        Err(Errno::ACCESS | Errno::PERM) if !is_root => {
            let detail = format!("{path}: only root may write it");
            return check(String::new()).off(detail, "sudo memwright doctor");
        }
        Err(errno) => return check(String::new()).missing(format!("{path}: {errno}"), elsewhere),
    }
    let Some(free) = free_bytes else {
        let detail = format!("{path}: the free space of its disk is not known");
        return check(String::new()).unknown(detail, elsewhere);
    };
    let needed = max_bytes.saturating_sub(*size_bytes);
    let (has, grows) = (format_bytes(*free), format_bytes(needed));
    if *free < needed {
        let detail = format!("{path} may grow by {grows}, and its disk has {has} free");
        let remedy = "lower max-size in [watch] of /etc/memwright/memwright.toml, or free space";
        return check(String::new()).missing(detail, remedy);
    }
    check(format!("{path} can be written, and its disk has {has} free"))
}
