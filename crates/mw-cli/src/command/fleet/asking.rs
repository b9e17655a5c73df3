//! Runs a command on many nodes, some at a time. A node that does not answer takes one place until its time is over.

use super::node_set;
use crate::args::WayArgs;
use crate::output::without_interruption;
use crate::{Exit, Failure};
use mw_model::bounded_json::{self, JsonError};
use mw_model::format_bytes;
use mw_sys::{ProgramLimits, run_command};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// A report has some 30 KiB, a thousand incidents 400 KiB.
const MAX_BYTES: usize = 4 << 20;

/// Memory limit of a reply. A thousand incidents take 2 MiB.
const MAX_MEMORY_BYTES: usize = 64 << 20;

/// Memory limit of the replies of all nodes together.
const MAX_MEMORY_BYTES_OF_ALL: usize = 1 << 30;

/// Length limit of a line that another machine has written.
const MAX_LINE_CHARS: usize = 300;

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Silent {
    /// The node.
    pub(super) node: String,
    /// The reason, in one line.
    pub(super) why: String,
}

/// The nodes of a set; `@GROUP` is ClusterShell's to resolve.
pub(super) fn nodes(set: &str, way: &WayArgs) -> Result<Vec<String>, Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, format!("--nodes {set}: {why}"));
    if !set.starts_with('@') {
        return node_set::expand(set).map_err(usage);
    }
    let mut command = Command::new("nodeset");
    command.args(["--fold", "--", set]);
    let limits = ProgramLimits { input: &[], time: way.timeout, bytes: MAX_BYTES };
    let folded = without_interruption(|| {
        run_command(command, limits)
            .map_err(|why| usage(format!("{why}; @GROUP needs clustershell")))
    })?;
    if !folded.status.success() {
        return Err(usage(format!("nodeset: {}", folded.last_line())));
    }
    node_set::expand(&String::from_utf8_lossy(&folded.output)).map_err(usage)
}

/// Answers by node, and the nodes without one.
pub(super) type Answers<T> = (Vec<(String, T)>, Vec<Silent>);

/// Runs `words` on each node and reads what each has printed: the answers by node, in the order in which they came, and
/// the nodes without one. A command that fails and prints something has answered.
pub(super) fn ask_all<T: Send>(
    way: &WayArgs,
    nodes: &[String],
    words: &[&str],
    read: impl Fn(&[u8]) -> Result<T, String> + Sync,
) -> Result<Answers<T>, Failure> {
    let via: Vec<&str> = way.via.split_whitespace().collect();
    let left = AtomicUsize::new(MAX_MEMORY_BYTES_OF_ALL);
    let one = |node: &str| read(&taken(output(&via, node, words, way)?, &left)?);
    let next = AtomicUsize::new(0);
    let (sender, received) = channel();
    let (mut answers, mut failed) = (Vec::new(), Vec::new());
    without_interruption(|| {
        std::thread::scope(|scope| {
            for _ in 0..(way.jobs as usize).min(nodes.len()) {
                let (sender, next, one) = (sender.clone(), &next, &one);
                scope.spawn(move || {
                    while let Some(node) = nodes.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if mw_sys::is_termination_requested()
                            || sender.send((node, one(node))).is_err()
                        {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for (node, answer) in received {
                match answer {
                    Ok(answer) => answers.push((node.clone(), answer)),
                    Err(why) => failed.push(Silent { node: node.clone(), why: line(&why) }),
                }
            }
        });
        Ok(())
    })?;
    failed.sort_by(|a, b| a.node.cmp(&b.node));
    Ok((answers, failed))
}

/// An answer for which there is room among those of all nodes.
fn taken(answer: Vec<u8>, left: &AtomicUsize) -> Result<Vec<u8>, String> {
    let bytes = bounded_json::estimated_bytes(&answer);
    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)) {
        Ok(_) => Ok(answer),
        Err(_) => {
            let limit = format_bytes(MAX_MEMORY_BYTES_OF_ALL as u64);
            Err(format!(
                "not read: the answers of all nodes take more than {limit} of memory; ask fewer nodes"
            ))
        }
    }
}

/// JSON that a node has printed; `none` is the error for anything else.
pub(super) fn json<T: DeserializeOwned>(output: &[u8], none: &str) -> Result<T, String> {
    bounded_json::from_slice(output, MAX_MEMORY_BYTES).map_err(|error| not_read(&error, none))
}

/// The reason that a reply was not read; `none` is the error for anything else than JSON of this kind.
pub(super) fn not_read(error: &JsonError, none: &str) -> String {
    match error {
        JsonError::TooLarge { .. } => format!("not read: {error}"),
        JsonError::Malformed(_) => none.to_owned(),
    }
}

/// Standard output of a node. A name that could be an option or a command of a shell is not passed on.
fn output(via: &[&str], node: &str, words: &[&str], way: &WayArgs) -> Result<Vec<u8>, String> {
    let (program, first) = via.split_first().ok_or("no command")?;
    if !node_set::is_name(node) {
        return Err("not queried: invalid host name".to_owned());
    }
    let mut command = Command::new(program);
    command.args(first).arg(node).args(words);
    let limits = ProgramLimits { input: &[], time: way.timeout, bytes: MAX_BYTES };
    let ended = run_command(command, limits)?;
    if ended.output.is_empty() {
        return Err(format!("{program}: {}", ended.last_line()));
    }
    if ended.is_cut {
        return Err(format!("its answer exceeds {}", format_bytes(MAX_BYTES as u64)));
    }
    Ok(ended.output)
}

/// One line, fit for a terminal.
pub(super) fn line(text: &str) -> String {
    let cut: String = text.trim().chars().take(MAX_LINE_CHARS).collect();
    mw_model::visible::line(&cut).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_another_machine_is_short_and_harmless() {
        let line = line(&format!("\x1b[2J{}\nsecond", "x".repeat(9000)));
        assert!(line.len() < 1000 && !line.contains(['\x1b', '\n']), "{line}");
    }

    #[test]
    fn the_answers_of_all_nodes_have_a_limit() {
        let left = AtomicUsize::new(10);
        assert!(taken(vec![0; 8], &left).is_ok());
        assert!(taken(vec![0; 8], &left).is_err_and(|why| why.contains("ask fewer nodes")));
        // Three bytes that become a structure.
        assert!(taken(b"{}".to_vec(), &left).is_err());
        assert!(taken(vec![0; 2], &left).is_ok());
    }

    #[test]
    fn an_answer_of_many_structures_is_not_read() {
        let answer = format!("[{}{{}}]", "{},".repeat(MAX_BYTES / 3 - 1));
        let read = json::<Vec<std::collections::BTreeMap<String, String>>>(answer.as_bytes(), "no");
        assert!(read.unwrap_err().contains("of memory"));
        assert_eq!(json::<Vec<u8>>(b"x", "no list").unwrap_err(), "no list");
    }
}
