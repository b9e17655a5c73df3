//! Text that somebody pasted: quoted by a mail, indented, with the lines of a terminal around it.

use super::transcript;
use crate::memory_tree::MemoryTree;

/// Files that a text tells, and what it was.
#[derive(Debug)]
pub(super) struct Paste {
    pub(super) tree: MemoryTree,
    /// As in `/proc/meminfo and the output of 'free' in MiB`.
    pub(super) input: String,
}

/// The files in a text; none where nothing of it is known.
pub(super) fn read(text: &str) -> Option<Paste> {
    let mut tree = MemoryTree::default();
    let lines: Vec<&str> = text.lines().map(unquoted).collect();
    let parts = transcript::read_into(&lines.join("\n"), &mut tree);
    let input = match parts.as_slice() {
        [] => return None,
        [first] => first.clone(),
        [first, .., last] if parts.len() > 4 => format!("{first} … {last}, {} parts", parts.len()),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    };
    Some(Paste { tree, input })
}

/// A line without the `> ` of a mail.
fn unquoted(line: &str) -> &str {
    let mut line = line;
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}
