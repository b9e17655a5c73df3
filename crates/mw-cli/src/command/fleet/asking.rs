//! Runs a command on many nodes, some at a time. A node that does not answer takes one place until its time is over.

use crate::command::bounded::{self, Limits};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A report has some 30 KiB.
const MAX_BYTES: usize = 4 << 20;

/// How to reach nodes.
pub(super) struct Way<'a> {
    /// The program that runs a command on a node, and its first arguments; the node and the command follow.
    pub(super) via: &'a [String],
    pub(super) jobs: usize,
    pub(super) timeout: Duration,
}

/// What a node has printed on standard output, or why nothing.
pub(super) type Output = Result<Vec<u8>, String>;

/// Runs `words` on each node and passes on what comes back, in the order in which it comes. A command that fails and
/// prints something has answered.
pub(super) fn ask(
    way: &Way<'_>,
    nodes: &[String],
    words: &[&str],
    mut each: impl FnMut(&str, Output),
) {
    let next = AtomicUsize::new(0);
    let (sender, answers) = channel();
    std::thread::scope(|scope| {
        for _ in 0..way.jobs.min(nodes.len()) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(node) = nodes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if mw_sys::is_termination_requested()
                        || sender.send((node, one(way, node, words))).is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (node, output) in answers {
            each(node, output);
        }
    });
}

fn one(way: &Way<'_>, node: &str, words: &[&str]) -> Output {
    let (program, first) = way.via.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(first).arg(node).args(words);
    let limits = Limits { time: way.timeout, bytes: MAX_BYTES };
    let ended = bounded::run(command, limits)?;
    if ended.output.is_empty() {
        return Err(format!("{program}: {}", ended.last_line()));
    }
    Ok(ended.output)
}
