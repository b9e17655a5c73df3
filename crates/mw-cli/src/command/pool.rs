//! `memwright pool`: pools of memory that a server keeps ready.

mod report;
mod serve;

use crate::args::{
    PoolArgs, PoolCommand, PoolCreateArgs, PoolFormat, PoolNameArgs, PoolSizeArgs, PoolStatsArgs,
};
use crate::config::Config;
use crate::progress::Spinner;
use crate::{Exit, Failure, terminal};
use mw_model::{PoolRoom, format_bytes};
use mw_pool::protocol::{PoolStatus, Refusal};
use mw_pool::spec::MAX_OWNERS;
use mw_pool::{Client, Error, Name, Owners, PageSize, Spec};
use report::Report;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks at a pool that is being populated.
const TURN: Duration = Duration::from_millis(100);

/// What `--json` prints: its version and its JSON schema.
#[cfg(feature = "schema")]
pub(crate) fn schema() -> (u32, schemars::Schema) {
    (report::SCHEMA, schemars::schema_for!(Report))
}

pub(crate) fn run(args: &PoolArgs, config: &Config) -> Result<Exit, Failure> {
    let socket = args.socket.clone().unwrap_or_else(|| config.pool().socket());
    let client = Client::new(&socket);
    match &args.command {
        PoolCommand::Serve(args) => serve::run(args, socket, config),
        PoolCommand::Create(args) => create(&client, args),
        PoolCommand::List(args) => {
            let report = Report::fetch(&client, args.name.as_ref())?;
            if args.format.is_json() {
                return super::print_json(&report).map(|()| Exit::Fine);
            }
            terminal::print(&report.list());
            Ok(Exit::Fine)
        }
        PoolCommand::Stats(args) => stats(&client, args),
        PoolCommand::Grow(args) => grow(&client, args),
        PoolCommand::Shrink(args) => {
            client.shrink(&args.name, args.size).map_err(failure)?;
            let size = size(&client, &args.name)?;
            terminal::print(&format!("pool {} now has {}\n", args.name, format_bytes(size)));
            Ok(Exit::Fine)
        }
        PoolCommand::Release(PoolNameArgs { name }) => {
            client.release(name).map_err(failure)?;
            terminal::print(&format!("pool {name}: contents released\n"));
            Ok(Exit::Fine)
        }
        PoolCommand::Remove(PoolNameArgs { name }) => {
            client.remove(name).map_err(failure)?;
            terminal::print(&format!("removed pool {name}\n"));
            Ok(Exit::Fine)
        }
    }
}

/// What a pool has, for a request.
pub(super) fn room(name: &Name, config: &Config) -> Result<PoolRoom, Failure> {
    let pool = Client::new(config.pool().socket()).pool(name).map_err(failure)?;
    let bytes = pool.bytes;
    Ok(PoolRoom {
        name: name.to_string(),
        page: pool.spec.pages,
        size_bytes: pool.spec.bytes,
        ready_bytes: bytes.ready,
        coming_bytes: bytes.draining + bytes.zeroing + bytes.missing,
    })
}

fn stats(client: &Client, args: &PoolStatsArgs) -> Result<Exit, Failure> {
    let report = Report::fetch(client, args.name.as_ref())?;
    match args.format.chosen() {
        PoolFormat::Text => terminal::print(&report.stats()),
        PoolFormat::Json => super::print_json(&report)?,
        PoolFormat::Metrics => terminal::print(&report.metrics()),
    }
    Ok(Exit::Fine)
}

fn create(client: &Client, args: &PoolCreateArgs) -> Result<Exit, Failure> {
    let spec = spec(args).map_err(|why| Failure::new(Exit::Usage, why))?;
    client.create(&spec).map_err(failure)?;
    let asked = format_bytes(spec.bytes);
    if args.no_wait {
        terminal::print(&format!("pool {} of {asked} is being populated\n", spec.name));
        return Ok(Exit::Fine);
    }
    match populated(client, &spec.name)? {
        Ok(pool) => {
            let size = format_bytes(pool.spec.bytes);
            let notice = match pool.locked {
                true => "",
                false => "; not locked in memory, see memwright pool stats",
            };
            terminal::print(&format!("pool {} of {size} is ready{notice}\n", spec.name));
            Ok(Exit::Fine)
        }
        Err(why) => {
            client.remove(&spec.name).map_err(failure)?;
            let line = format!("pool {} of {asked} not created: {why}", spec.name);
            Err(Failure::new(Exit::RolledBack, line))
        }
    }
}

fn grow(client: &Client, args: &PoolSizeArgs) -> Result<Exit, Failure> {
    let PoolSizeArgs { name, size } = args;
    let before = self::size(client, name)?;
    client.grow(name, *size).map_err(failure)?;
    match populated(client, name)? {
        Ok(pool) => {
            terminal::print(&format!("pool {name} now has {}\n", format_bytes(pool.spec.bytes)));
            Ok(Exit::Fine)
        }
        Err(why) => {
            let more = self::size(client, name)?.saturating_sub(before);
            client.shrink(name, more).map_err(failure)?;
            let line = format!("pool {name} not resized: {why}");
            Err(Failure::new(Exit::RolledBack, line))
        }
    }
}

/// Waits until all of a pool is there, or why it is not.
fn populated(client: &Client, name: &Name) -> Result<Result<PoolStatus, String>, Failure> {
    let start = Instant::now();
    let spinner = Spinner::start("populating");
    let mut first = None;
    loop {
        let pool = client.pool(name).map_err(failure)?;
        let missing = pool.bytes.missing;
        if missing == 0 {
            return Ok(Ok(pool));
        }
        if !pool.trouble.is_empty() {
            return Ok(Err(pool.trouble));
        }
        let first = *first.get_or_insert(missing);
        spinner.say(&how_far(first - missing.min(first), missing, start.elapsed()));
        std::thread::sleep(TURN);
    }
}

fn how_far(done: u64, missing: u64, elapsed: Duration) -> String {
    let what = format!("populating: {} of {}", format_bytes(done), format_bytes(done + missing));
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    if done == 0 {
        return what;
    }
    let left = missing as f64 / rate * 1000.0;
    let rate = format_bytes(rate as u64);
    format!("{what} at {rate}/s, {} left", mw_model::format_duration_ms(left))
}

fn size(client: &Client, name: &Name) -> Result<u64, Failure> {
    client.pool(name).map(|pool| pool.spec.bytes).map_err(failure)
}

/// What is asked for, with names of users and groups as numbers.
fn spec(args: &PoolCreateArgs) -> Result<Spec, String> {
    let numbers = |names: &[String], file: &str| -> Result<Vec<u32>, String> {
        if names.len() > MAX_OWNERS {
            return Err(format!("too many names: {} (at most {MAX_OWNERS})", names.len()));
        }
        names.iter().map(|name| number(name, Path::new(file))).collect()
    };
    let groups = numbers(&args.group, "/etc/group")?;
    let users = match args.owner.is_empty() && groups.is_empty() {
        true => vec![rustix::process::geteuid().as_raw()],
        false => numbers(&args.owner, "/etc/passwd")?,
    };
    Ok(Spec {
        name: args.name.clone(),
        bytes: args.size,
        pages: args.huge.unwrap_or(PageSize::Base),
        nodes: args.node.clone().unwrap_or_default(),
        owners: Owners { users, groups },
        trusting: args.trusting,
    })
}

/// A user's or group's number, if need be from a file of lines `name:password:number:…`.
fn number(name: &str, file: &Path) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{}: {error}; use the numeric id of '{name}'", file.display()))?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let found = text.lines().find_map(of_line);
    found.ok_or_else(|| format!("{} has no '{name}'; use the numeric id", file.display()))
}

/// One line for people, and the exit code.
pub(super) fn failure(error: Error) -> Failure {
    let exit = match &error {
        Error::Refused(Refusal::Denied, _) => Exit::PermissionDenied,
        Error::Refused(Refusal::TooLarge | Refusal::Full | Refusal::Limit, _) => Exit::Findings,
        Error::Refused(Refusal::NoSuchPool | Refusal::Exists | Refusal::Invalid, _) => Exit::Usage,
        _ => Exit::CouldNotCheck,
    };
    Failure::new(exit, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_are_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passwd");
        let text = "root:x:0:0:root:/root:/bin/sh\npostgres:x:105:113::/:/bin/sh\nbad\n";
        std::fs::write(&file, text).unwrap();
        assert_eq!(number("postgres", &file), Ok(105));
        assert_eq!(number("7", Path::new("/nowhere")), Ok(7));
        for bad in ["nobody", "bad"] {
            let error = number(bad, &file).unwrap_err();
            assert!(error.ends_with(&format!("has no '{bad}'; use the numeric id")), "{error}");
        }
        assert!(number("nobody", Path::new("/nowhere")).is_err());
    }

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let line = how_far(1 << 30, 3 << 30, Duration::from_secs(2));
        assert_eq!(line, "populating: 1 GiB of 4 GiB at 512 MiB/s, 6.0 s left");
        assert_eq!(how_far(0, 1 << 30, Duration::ZERO), "populating: 0 B of 1 GiB");
    }
}
