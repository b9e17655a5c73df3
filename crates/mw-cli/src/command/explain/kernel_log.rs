//! `memwright explain --log`: a kernel log of this machine, of a tree, of a file or of standard input.

use crate::args::ExplainArgs;
use crate::command::{confined, print_json, tree};
use crate::{Exit, Failure, terminal};
use mw_collect::{KernelLog, Source};
use mw_kernel_log::{KernelLogAnswer, MAX_LOG_BYTES};
use mw_model::{Missing, format_bytes};
use mw_render::text;
use mw_sys::InputFile;
use std::io::Read;
use std::path::Path;

/// Logs of a sosreport and of a copied root, the most complete first.
const TREE_LOGS: [&str; 8] = [
    "/sos_commands/kernel/dmesg_-T",
    "/sos_commands/kernel/dmesg",
    "/dmesg",
    "/sos_commands/logs/journalctl_--no-pager_--boot",
    "/sos_commands/logs/journalctl_--no-pager_--catalog_--boot",
    "/var/log/kern.log",
    "/var/log/messages",
    "/var/log/syslog",
];

pub(super) fn run(args: &ExplainArgs, file: Option<&Path>) -> Result<Exit, Failure> {
    let answer = match (file, &args.root) {
        (Some(_), Some(_)) => {
            return Err(Failure::new(
                Exit::Usage,
                "--root reads the tree's own log: --log takes no FILE with it",
            ));
        }
        (Some(file), None) => of_file(file)?,
        (None, Some(root)) => {
            let log = tree::read(root, of_tree)?;
            let log = log.map_err(|missing| Failure::new(Exit::CouldNotCheck, missing))?;
            mw_kernel_log::explain(&log)
        }
        (None, None) => {
            let log = KernelLog::text();
            let log = log.map_err(|missing| Failure::new(Exit::CouldNotCheck, missing))?;
            mw_kernel_log::explain(&log)
        }
    };
    if args.format.is_json() {
        print_json(&answer)?;
    } else {
        terminal::print_page(&text::kernel_log(&answer, terminal::layout(false)));
    }
    Ok(Exit::Fine)
}

/// The end of a file, or the beginning of what a pipe has.
fn of_file(path: &Path) -> Result<KernelLogAnswer, Failure> {
    confined::confine(path);
    let failure = |error| Failure::of_file(path, &error);
    let mut input = InputFile::open(path).map_err(failure)?;
    let skipped = input.skip_to_last(MAX_LOG_BYTES as u64).map_err(failure)?;
    let mut log = Vec::new();
    input.by_ref().take(MAX_LOG_BYTES as u64).read_to_end(&mut log).map_err(failure)?;
    let is_cut = log.len() == MAX_LOG_BYTES && input.has_more().map_err(failure)?;
    let mut answer = mw_kernel_log::explain(&log);
    if skipped > 0 {
        answer.notes.push(format!("the first {} of the file were not read", format_bytes(skipped)));
    }
    if is_cut {
        let limit = format_bytes(MAX_LOG_BYTES as u64);
        answer.notes.push(format!("the input is longer than {limit}: the rest was not read"));
    }
    Ok(answer)
}

fn of_tree(source: &Source) -> Result<Vec<u8>, Missing> {
    let found = TREE_LOGS.iter().find_map(|path| source.read(path).ok());
    found.ok_or_else(|| Missing::absent(TREE_LOGS[1], "no kernel log in this tree"))
}
