//! `memwright pool`: pools of memory that a server keeps ready.

mod failure;
mod report;
mod serve;
mod spec;

use crate::args::{
    PoolArgs, PoolCommand, PoolCreateArgs, PoolFormat, PoolNameArgs, PoolSizeArgs, PoolStatsArgs,
};
use crate::config::Config;
use crate::progress::Spinner;
use crate::{Exit, Failure, terminal};
pub(super) use failure::failure;
use mw_model::{PoolRoom, format_bytes};
use mw_pool::protocol::PoolStatus;
use mw_pool::{Client, PoolName};
use mw_render::text;
use spec::spec;
use std::time::{Duration, Instant};

/// Interval at which the state of a pool is read while it is populated.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &PoolArgs, config: &Config) -> Result<Exit, Failure> {
    let socket = args.socket.clone().unwrap_or_else(|| config.pool().socket());
    let client = Client::new(&socket);
    match &args.command {
        PoolCommand::Serve(args) => serve::run(args, socket, config),
        PoolCommand::Create(args) => create(&client, args),
        PoolCommand::List(args) => {
            let report = report::fetch(&client, args.name.as_ref())?;
            if args.format.is_json() {
                return super::print_json(&report).map(|()| Exit::Fine);
            }
            terminal::print(&text::pools(&report));
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

/// Memory that a pool has for a request.
pub(super) fn room(name: &PoolName, config: &Config) -> Result<PoolRoom, Failure> {
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
    let report = report::fetch(client, args.name.as_ref())?;
    match args.format.chosen() {
        PoolFormat::Text => terminal::print(&text::pool_statistics(&report)),
        PoolFormat::Json => super::print_json(&report)?,
        PoolFormat::Metrics => terminal::print(&mw_metrics::pool_server(&report)),
    }
    Ok(Exit::Fine)
}

fn create(client: &Client, args: &PoolCreateArgs) -> Result<Exit, Failure> {
    let spec = spec(args).map_err(|why| Failure::new(Exit::Usage, why))?;
    client.create(&spec).map_err(failure)?;
    let requested = format_bytes(spec.bytes);
    if args.no_wait {
        terminal::print(&format!("pool {} of {requested} is being populated\n", spec.name));
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
            let line = format!("pool {} of {requested} not created: {why}", spec.name);
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
fn populated(client: &Client, name: &PoolName) -> Result<Result<PoolStatus, String>, Failure> {
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
        spinner.update(&how_far(first - missing.min(first), missing, start.elapsed()));
        std::thread::sleep(POLL_INTERVAL);
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

fn size(client: &Client, name: &PoolName) -> Result<u64, Failure> {
    client.pool(name).map(|pool| pool.spec.bytes).map_err(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_has_a_rate_and_the_time_left() {
        let line = how_far(1 << 30, 3 << 30, Duration::from_secs(2));
        assert_eq!(line, "populating: 1 GiB of 4 GiB at 512 MiB/s, 6.0 s left");
        assert_eq!(how_far(0, 1 << 30, Duration::ZERO), "populating: 0 B of 1 GiB");
    }
}
