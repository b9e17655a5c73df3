//! `memwright notify`: who is notified of incidents, and whether messages arrive.

use crate::args::NotifyArgs;
use crate::config::Config;
use crate::{Exit, Failure, terminal};
use mw_model::{format_count, format_duration_ms};
use mw_notify::{Notice, ReceiverConfig, deliver};
use std::time::Instant;

pub(crate) fn run(args: &NotifyArgs, config: &Config) -> Result<Exit, Failure> {
    let mut tables = config.notify()?;
    if tables.is_empty() {
        let line = "no receivers configured: add [[notify]] (man memwright.toml)";
        if args.test || !args.names.is_empty() {
            return Err(Failure::new(Exit::Usage, line));
        }
        terminal::print(&format!("{line}\n"));
        return Ok(Exit::Fine);
    }
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    if let Some(unknown) = args.names.iter().find(|name| !names.contains(&name.as_str())) {
        let line = format!("no [[notify]] is named '{unknown}' (there are: {})", names.join(", "));
        return Err(Failure::new(Exit::Usage, line));
    }
    if !args.names.is_empty() {
        tables.retain(|table| args.names.contains(&table.name));
    }
    if args.test { Ok(test(&tables)) } else { Ok(list(&tables)) }
}

fn list(tables: &[ReceiverConfig]) -> Exit {
    let count = tables.len();
    let mut page = format!("{}; try them with: memwright notify --test\n", receivers(count));
    for table in tables {
        page += &format!("  {}: {}\n", table.name, table.target);
    }
    terminal::print(&page);
    Exit::Fine
}

/// Sends a message through all of them at once: one that hangs holds up no other.
fn test(tables: &[ReceiverConfig]) -> Exit {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let notice = Notice::test(&host, mw_sys::unix_ms());
    let results: Vec<Result<String, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = tables
            .iter()
            .map(|table| {
                let notice = &notice;
                scope.spawn(move || {
                    let start = Instant::now();
                    let took = || format_duration_ms(start.elapsed().as_secs_f64() * 1000.0);
                    match deliver(table, notice) {
                        Ok(()) => Ok(format!("delivered in {}", took())),
                        Err(failed) => Err(format!("not delivered: {failed}")),
                    }
                })
            })
            .collect();
        let died = |_| Err("not delivered: the thread ended".to_owned());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    });
    let delivered = results.iter().filter(|result| result.is_ok()).count();
    let mut page = match delivered {
        all if all == tables.len() => {
            format!("the test message was delivered to {}\n", receivers(all))
        }
        some => {
            format!("the test message was delivered to {some} of {}\n", receivers(tables.len()))
        }
    };
    for (table, result) in tables.iter().zip(&results) {
        let (Ok(said) | Err(said)) = result;
        page += &format!("  {}: {}: {said}\n", table.name, table.target);
    }
    terminal::print(&page);
    if delivered == tables.len() { Exit::Fine } else { Exit::Findings }
}

fn receivers(count: usize) -> String {
    format_count(count, "receiver")
}
