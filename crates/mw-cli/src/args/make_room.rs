//! Arguments of `make-room`.

use super::{FormatArgs, TextOrJson, duration};
use crate::{Exit, Failure};
use clap::Args as ClapArgs;
use mw_model::{Request, RequestError, parse_size};
use mw_room::CostLimits;
use mw_rules::room::RoomConsent;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A request that `make-room` can serve: for folios it is enough to make room for huge pages.
pub(crate) fn room_request(text: &str) -> Result<Request, String> {
    let request: Request = text.parse().map_err(|error: RequestError| error.to_string())?;
    if request.page.is_folio() {
        return Err(format!(
            "no room is made for page={}: use huge=thp, whose blocks serve folios as well",
            request.page
        ));
    }
    Ok(request)
}

#[derive(Debug, Clone, ClapArgs)]
pub struct MakeRoomArgs {
    /// Size and kind of the memory: SIZE[,lock][,huge=2M|1G|thp][,node=N]
    #[arg(value_name = "REQUEST", value_parser = room_request)]
    pub request: Request,
    /// Hold the memory this long, then release it; Ctrl-C releases it at once
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "command")]
    pub hold: Option<Duration>,
    /// Show the steps that would be taken, without taking any
    #[arg(long, conflicts_with_all = ["hold", "command"])]
    pub dry_run: bool,
    /// Stop and release everything before exceeding stall=TIME that others stall for memory, drop=SIZE of page cache, or
    /// time=TIME in all [default: stall=1s,time=60s]
    #[arg(long, value_name = "LIMITS", default_value = "", hide_default_value = true, value_parser = cost_limits)]
    pub max_cost: CostLimits,
    /// Also swap out memory of other programs
    #[arg(long)]
    pub allow_swap: bool,
    /// Also move memory of other programs to other NUMA nodes; the request has a node=N
    #[arg(long)]
    pub allow_migrate: bool,
    #[command(flatten)]
    pub format: FormatArgs<TextOrJson>,
    /// Directory of the journal [default: /var/lib/memwright]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// A command to start once the memory is there, and its arguments; huge pages of a pool stay reserved until
    /// it ends, other memory is held until it starts
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<OsString>,
}

impl MakeRoomArgs {
    /// Permitted changes to memory of other programs.
    ///
    /// # Errors
    /// Memory can only be moved away from a node that was requested.
    pub(crate) fn consent(&self) -> Result<RoomConsent, Failure> {
        if self.allow_migrate && self.request.node.is_none() {
            let why = "--allow-migrate needs a node from which memory is moved: SIZE,node=N";
            return Err(Failure::new(Exit::Usage, why));
        }
        Ok(RoomConsent { swap: self.allow_swap, migrate: self.allow_migrate })
    }
}

/// The limits of `--max-cost`.
pub(crate) fn cost_limits(text: &str) -> Result<CostLimits, String> {
    let mut limits = CostLimits::default();
    let mut named = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let unknown = || format!("unknown limit '{word}' (use stall=TIME, drop=SIZE or time=TIME)");
        let (name, value) = word.split_once('=').ok_or_else(unknown)?;
        if named.contains(&name) {
            return Err(format!("duplicate limit '{name}'"));
        }
        named.push(name);
        match name {
            "stall" => limits.stall = duration(value)?,
            "drop" => limits.drop_bytes = parse_size(value).map_err(|error| error.to_string())?,
            "time" => limits.time = duration(value)?,
            _ => return Err(unknown()),
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!(cost_limits(""), Ok(CostLimits::default()));
        let limits = CostLimits {
            drop_bytes: 8 << 30,
            stall: Duration::from_millis(100),
            ..CostLimits::default()
        };
        assert_eq!(cost_limits("stall=100ms,drop=8G"), Ok(limits));
        assert_eq!(cost_limits("time=5s").map(|limits| limits.time), Ok(Duration::from_secs(5)));
        for (text, error) in [
            ("stall", "unknown limit 'stall' (use stall=TIME, drop=SIZE or time=TIME)"),
            ("cpu=1", "unknown limit 'cpu=1' (use stall=TIME, drop=SIZE or time=TIME)"),
            ("time=1s,time=2s", "duplicate limit 'time'"),
            ("drop=x", "invalid size 'x'"),
        ] {
            let got = cost_limits(text).unwrap_err();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }
}
