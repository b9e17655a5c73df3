//! A text with the output of commands and the contents of files, each below a title: a terminal session, the output of
//! head(1) and tail(1), a file of supportconfig.

use super::table;
use crate::memory_tree::MemoryTree;
use crate::source::MAX_FILE_BYTES;
use std::fmt::Write;

/// What stands below a title, or below none.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SectionContent {
    /// A file of the kernel by its path.
    File(String),
    /// The output of free(1), with its arguments.
    Free(String),
    /// The output of `sysctl -a`.
    Sysctl,
    /// The output of uname(1).
    Uname,
    /// The output of another command, or a paste without a title.
    Unknown,
    /// A file that is not the kernel's.
    Other,
}

/// Puts into `tree` what the text has; returns a name for each part that was understood.
pub(super) fn read_into(text: &str, tree: &mut MemoryTree) -> Vec<String> {
    let mut parts = Vec::new();
    let mut section = (SectionContent::Unknown, String::new());
    let mut title_follows = false;
    for line in text.lines() {
        let line = line.trim_end();
        let found = match title_follows {
            true => line.strip_prefix("# ").map(title),
            false => titled(line),
        };
        title_follows = line.starts_with("#==[");
        match found {
            Some(content) => {
                let ended = std::mem::replace(&mut section, (content, String::new()));
                parts.extend(add(ended, tree));
            }
            None if title_follows => {
                let ended = std::mem::replace(&mut section, (SectionContent::Other, String::new()));
                parts.extend(add(ended, tree));
            }
            // A fence of Markdown.
            None if line.trim_start().starts_with("```") => {}
            None if section.1.len() + line.len() < MAX_FILE_BYTES => {
                let _ = writeln!(section.1, "{line}");
            }
            None => {}
        }
    }
    parts.extend(add(section, tree));
    parts
}

/// The content below a line that is a title: `==> FILE <==`, or a prompt with a command.
fn titled(line: &str) -> Option<SectionContent> {
    if let Some(path) = line.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <==")) {
        return Some(title(path));
    }
    let command = match line.rfind(['$', '#', '%']) {
        // The whole prompt, without what may be a value.
        Some(at) if !line.contains(": ") || line.starts_with(['[', '$', '#']) => {
            line.get(at + 1..)?.trim()
        }
        _ => line.trim(),
    };
    let (program, _) = command.split_once(' ').unwrap_or((command, ""));
    let is_command =
        matches!(program, "cat" | "free" | "sysctl" | "vmstat" | "uname" | "top" | "ps");
    is_command.then(|| title(command))
}

/// The content that a command prints, or that a file has.
fn title(command: &str) -> SectionContent {
    let mut words = command.split_whitespace();
    let Some(program) = words.next() else { return SectionContent::Other };
    let arguments: Vec<&str> = words.collect();
    if arguments.is_empty() && (program.starts_with("/proc/") || program.starts_with("/sys/")) {
        return SectionContent::File(program.to_owned());
    }
    match program.rsplit('/').next() {
        Some("cat") => match arguments.as_slice() {
            [path] => title(path),
            _ => SectionContent::Unknown,
        },
        Some("free") => SectionContent::Free(arguments.join(" ")),
        Some("sysctl") => SectionContent::Sysctl,
        Some("uname") => SectionContent::Uname,
        Some("vmstat") => SectionContent::Unknown,
        _ => SectionContent::Other,
    }
}

fn add((content, text): (SectionContent, String), tree: &mut MemoryTree) -> Option<String> {
    if text.trim().is_empty() {
        return None;
    }
    match content {
        SectionContent::File(path) => {
            tree.insert(&path, text.into_bytes()).ok()?;
            Some(path)
        }
        SectionContent::Free(arguments) => {
            table::free(&text, Some(&arguments)).and_then(|m| m.add(tree))
        }
        SectionContent::Sysctl => settings(&text, tree),
        SectionContent::Uname => release(&text, tree),
        SectionContent::Unknown => bare(&text, tree),
        SectionContent::Other => None,
    }
}

/// Lines `vm.swappiness = 60` as files.
fn settings(text: &str, tree: &mut MemoryTree) -> Option<String> {
    let mut count = 0_u32;
    for (name, value) in text.lines().filter_map(|line| line.split_once(" = ")) {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if name.chars().all(is_name) && !name.contains("..") {
            let path = format!("proc/sys/{}", name.replace('.', "/"));
            count += u32::from(tree.insert(&path, format!("{value}\n").into_bytes()).is_ok());
        }
    }
    (count > 0).then(|| format!("{count} settings of 'sysctl -a'"))
}

/// `Linux HOST RELEASE VERSION …`, as `uname -a` prints it.
fn release(text: &str, tree: &mut MemoryTree) -> Option<String> {
    let release = text.split_whitespace().skip_while(|word| *word != "Linux").nth(2)?;
    tree.insert("proc/sys/kernel/osrelease", format!("{release}\n").into_bytes()).ok()?;
    Some("'uname -a'".to_owned())
}

/// Files of the kernel and tables that are recognised by their lines.
fn bare(text: &str, tree: &mut MemoryTree) -> Option<String> {
    let mut parts = Vec::new();
    for (path, is_line) in SHAPES {
        let lines: Vec<&str> =
            text.lines().map(str::trim_start).filter(|line| is_line(line)).collect();
        if lines.len() >= MIN_LINES && tree.file(path).is_err() {
            let contents = lines.join("\n") + "\n";
            if tree.insert(path, contents.into_bytes()).is_ok() {
                parts.push((*path).to_owned());
            }
        }
    }
    parts.extend(table::free(text, None).and_then(|memory| memory.add(tree)));
    parts.extend(table::vmstat(text).and_then(|memory| memory.add(tree)));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Fewer lines may be something else.
const MIN_LINES: usize = 3;

/// A test whether a line is one of a file.
type LineTest = fn(&str) -> bool;

/// Files whose lines tell them.
const SHAPES: &[(&str, LineTest)] = &[
    ("/proc/meminfo", is_meminfo),
    ("/proc/vmstat", is_vmstat),
    ("/proc/buddyinfo", is_buddyinfo),
];

fn is_meminfo(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else { return false };
    let value = value.trim();
    let number = value.strip_suffix(" kB").unwrap_or(value);
    mw_proc::meminfo::Meminfo::NAMES.contains(&name) && number.parse::<u64>().is_ok()
}

fn is_vmstat(line: &str) -> bool {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    line.split_once(' ').is_some_and(|(name, value)| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(is_name)
            && value.parse::<u64>().is_ok()
    })
}

fn is_buddyinfo(line: &str) -> bool {
    let Some((node, rest)) = line.split_once(", zone") else { return false };
    node.starts_with("Node ") && rest.split_whitespace().skip(1).all(|n| n.parse::<u64>().is_ok())
}
