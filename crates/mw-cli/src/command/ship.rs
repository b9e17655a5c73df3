//! `memwright ship`: a recording to the data set of a fleet.

use crate::args::ship::ShipArgs;
use crate::config::Config;
use crate::output::without_interruption;
use crate::{Exit, Failure, terminal};
use mw_model::{format_bytes, format_count};
use mw_ship::{S3Options, ShipError, ShipSummary, ShipTarget, ShipTargetError, Shipper};
use std::collections::BTreeMap;

/// The longest name of a file.
const MAX_NAME_BYTES: usize = 255;

pub(crate) fn run(args: &ShipArgs, config: &Config) -> Result<Exit, Failure> {
    let configured = config.ship();
    let to = args.to.as_ref().or(configured.to.as_ref()).ok_or_else(|| {
        let line = "no data set: use --to DIR|URL, or set `to` in [ship] of the configuration";
        Failure::new(Exit::Usage, line)
    })?;
    let from_environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = args.endpoint.as_ref().or(configured.endpoint.as_ref());
    let region = args.region.as_ref().or(configured.region.as_ref());
    let options = S3Options {
        endpoint: endpoint.cloned().or_else(|| from_environment("AWS_ENDPOINT_URL")),
        region: region.cloned().or_else(|| from_environment("AWS_REGION")),
        ca_file: args.ca_file.clone().or_else(|| configured.ca_file.clone()),
    };
    let target = ShipTarget::open(to, &options).map_err(|error| failure(&error.into()))?;
    let recording = super::recording(args.recording.as_deref(), config)?;
    let named = args.host.as_ref().or(configured.host.as_ref()).unwrap_or(&recording.host().name);
    let host = host(named)?;
    let now = mw_sys::unix_ms();
    let facts = own_facts(&recording.host().name, config)?;
    let shipper = Shipper {
        recording: &recording,
        host: &host,
        facts: facts.as_ref(),
        target: &target,
        target_name: to,
        state_dir: &config.state_dir(args.state_dir.as_deref()),
        since_unix_ms: args.since.map_or(0, |since| since.unix_ms(now)),
        now_unix_ms: now,
    };
    let shipped = without_interruption(|| shipper.ship().map_err(|error| failure(&error)))?;
    terminal::print(&text(&shipped, &host, to));
    Ok(Exit::Fine)
}

fn failure(error: &ShipError) -> Failure {
    match error {
        ShipError::Target(ShipTargetError::Usage(_)) => Failure::new(Exit::Usage, error),
        _ => Failure::from_error(error),
    }
}

/// A name that can be a directory and a part of a URL.
fn host(name: &str) -> Result<String, Failure> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_file = !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.starts_with('.');
    if is_file && name.chars().all(is_valid) {
        return Ok(name.to_owned());
    }
    let line = format!("invalid name of a machine '{name}'; choose another one with --host NAME");
    Err(Failure::new(Exit::Usage, mw_model::visible::line(&line)))
}

/// Settings of this machine, where the recording is of it.
fn own_facts(recorded: &str, config: &Config) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let is_own = rustix::system::uname().nodename().to_string_lossy() == recorded;
    if is_own { super::fleet::own_facts(config).map(|own| Some(own.facts)) } else { Ok(None) }
}

fn text(shipped: &ShipSummary, host: &str, target: &str) -> String {
    let ShipSummary { days, objects, bytes, complete } = shipped;
    let what = match *days {
        0 => format!("nothing new of {host} for {target}"),
        days => format!("shipped {} of {host} to {target}", format_count(days, "day")),
    };
    let size = match *objects {
        0 => String::new(),
        objects => format!(": {}, {}", format_count(objects, "object"), format_bytes(*bytes)),
    };
    let complete = match complete {
        Some(date) => format!("; complete until {date}"),
        None => "; no day is complete yet".to_owned(),
    };
    format!("{what}{size}{complete}\n")
}
