//! Runs a command on many nodes, some at a time. A node that does not answer takes one place until its time is over.

use crate::node_set;
use mw_model::bounded_json::{self, JsonError};
use mw_model::format_bytes;
use mw_sys::{ProgramLimits, run_command};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A report has some 30 KiB, a thousand incidents 400 KiB.
const MAX_BYTES: usize = 4 << 20;

/// Memory limit of a reply. A thousand incidents take 2 MiB.
const MAX_MEMORY_BYTES: usize = 64 << 20;

/// Memory limit of the replies of all nodes together.
const MAX_MEMORY_BYTES_OF_ALL: usize = 1 << 30;

/// Length limit of a line that another machine has written.
const MAX_LINE_CHARS: usize = 300;

/// A node that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SilentNode {
    /// The node.
    pub node: String,
    /// The reason, in one line.
    pub why: String,
}

/// Access to the nodes.
#[derive(Debug, Clone, Copy)]
pub struct NodeAccess<'a> {
    /// Command that runs another one on a node, which it takes as its last arguments.
    pub via: &'a str,
    /// Number of nodes that are queried at once.
    pub jobs: usize,
    /// Time limit of each node.
    pub timeout: Duration,
}

impl NodeAccess<'_> {
    /// The nodes of a set; `@GROUP` is ClusterShell's to resolve.
    ///
    /// # Errors
    /// What is wrong with the set, in words.
    pub fn nodes(&self, set: &str) -> Result<Vec<String>, String> {
        if !set.starts_with('@') {
            return node_set::expand(set);
        }
        let mut command = Command::new("nodeset");
        command.args(["--fold", "--", set]);
        let folded = run_command(command, self.limits())
            .map_err(|why| format!("{why}; @GROUP needs clustershell"))?;
        if !folded.status.success() {
            return Err(format!("nodeset: {}", folded.last_line()));
        }
        node_set::expand(&String::from_utf8_lossy(&folded.output))
    }

    fn limits(&self) -> ProgramLimits<'static> {
        ProgramLimits { input: &[], time: self.timeout, bytes: MAX_BYTES }
    }
}

/// Answers by node, and the nodes without one.
pub(crate) type Answers<T> = (Vec<(String, T)>, Vec<SilentNode>);

/// Runs `words` on each node and reads what each has printed: the answers by node, in the order in which they came, and
/// the nodes without one. A command that fails and prints something has answered.
pub(crate) fn ask_all<T: Send>(
    access: NodeAccess<'_>,
    nodes: &[String],
    words: &[&str],
    read: impl Fn(&[u8]) -> Result<T, String> + Sync,
) -> Answers<T> {
    let left = AtomicUsize::new(MAX_MEMORY_BYTES_OF_ALL);
    let one = |node: &str| read(&taken(output(access, node, words)?, &left)?);
    let next = AtomicUsize::new(0);
    let (sender, received) = channel();
    let (mut answers, mut failed) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..access.jobs.min(nodes.len()) {
            let (sender, next, one) = (sender.clone(), &next, &one);
            scope.spawn(move || {
                while let Some(node) = nodes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if mw_sys::is_termination_requested() || sender.send((node, one(node))).is_err()
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
                Err(why) => failed.push(SilentNode { node: node.clone(), why: line(&why) }),
            }
        }
    });
    failed.sort_by(|a, b| a.node.cmp(&b.node));
    (answers, failed)
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
pub(crate) fn json<T: DeserializeOwned>(output: &[u8], none: &str) -> Result<T, String> {
    bounded_json::from_slice(output, MAX_MEMORY_BYTES).map_err(|error| not_read(&error, none))
}

/// The reason that a reply was not read; `none` is the error for anything else than JSON of this kind.
pub(crate) fn not_read(error: &JsonError, none: &str) -> String {
    match error {
        JsonError::TooLarge { .. } => format!("not read: {error}"),
        JsonError::Malformed(_) => none.to_owned(),
    }
}

/// Standard output of a node. A name that could be an option or a command of a shell is not passed on.
fn output(access: NodeAccess<'_>, node: &str, words: &[&str]) -> Result<Vec<u8>, String> {
    let mut via = access.via.split_whitespace();
    let program = via.next().ok_or("no command")?;
    if !node_set::is_name(node) {
        return Err("not queried: invalid host name".to_owned());
    }
    let mut command = Command::new(program);
    command.args(via).arg(node).args(words);
    let ended = run_command(command, access.limits())?;
    if ended.output.is_empty() {
        return Err(format!("{program}: {}", ended.last_line()));
    }
    if ended.is_cut {
        return Err(format!("its answer exceeds {}", format_bytes(MAX_BYTES as u64)));
    }
    Ok(ended.output)
}

/// Makes one line of a text, fit for a terminal.
pub(crate) fn line(text: &str) -> String {
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

    /// Promise (Fixing): Whatever nodes answer to `fleet`, memory is bounded, lines stay lines, and incidents with
    /// impossible times are left out and counted.
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
