//! A tree as a text that can be read, compared and reviewed: the files of fixtures/.
//!
//! # Format
//! ```text
//! memwright text archive 1
//! base quiet.txt
//! absent proc/165/status
//! -- origin.txt --
//! Linux 6.12.43; QEMU, 1024 MiB of memory
//! -- proc/cmdline --
//! psi=1
//! \ No newline at end of file
//! ```
//! Each file is its path between dashes, followed by its lines; a line that begins with `-- ` or `\` has a `\` before it.
//! `base` names an archive in the same directory: all its files belong to the tree but those that are `absent` or follow
//! here. The base has no base itself. Files directly in the root, which people write and look for, come first and are
//! never left out.

use crate::capture::{CaptureError, MAX_CAPTURE_FILES, MAX_TREE_BYTES};
use crate::memory_tree::MemoryTree;
use crate::source::MAX_FILE_BYTES;
use mw_sys::guarded;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

const FIRST_LINE: &str = "memwright text archive 1\n";

/// The largest archive that is read, and the largest base. Those of fixtures/ have at most 0.2 MiB.
pub(crate) const MAX_TEXT_BYTES: u64 = 16 << 20;

/// As in the output of diff(1).
const NO_NEWLINE: &str = "\\ No newline at end of file";

/// True for the beginning of a text archive.
pub(crate) fn is_one(head: &[u8]) -> bool {
    head.starts_with(FIRST_LINE.as_bytes())
}

/// A tree, and what it has in common with another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextArchive {
    pub tree: MemoryTree,
    /// The file name of the base and its tree.
    pub base: Option<(String, MemoryTree)>,
}

impl TextArchive {
    /// Reads an archive and its base.
    ///
    /// # Errors
    /// It is no text archive, or it has paths that lead out of the tree.
    pub fn load(file: &Path) -> Result<Self, CaptureError> {
        let text = guarded::read(file, MAX_TEXT_BYTES);
        Self::parse(&text.map_err(|error| invalid(file, error.to_string()))?, file)
    }

    pub(crate) fn parse(text: &[u8], file: &Path) -> Result<Self, CaptureError> {
        let parts = Parts::parse(text).map_err(|problem| invalid(file, problem))?;
        let Some(name) = parts.base.clone() else {
            let tree =
                parts.over(MemoryTree::default()).map_err(|problem| invalid(file, problem))?;
            return Ok(Self { tree, base: None });
        };
        let base = base(&file.with_file_name(&name), file)?;
        let tree = parts.over(base.clone()).map_err(|problem| invalid(file, problem))?;
        Ok(Self { tree, base: Some((name, base)) })
    }

    /// The archive as a text, which is the same for the same trees.
    ///
    /// # Errors
    /// The path of a file, or the file, is no text: it has control characters or is not UTF-8.
    pub fn to_text(&self) -> Result<String, String> {
        let mut text = FIRST_LINE.as_bytes().to_vec();
        let base = self.base.as_ref().map(|(name, base)| (name.as_str(), base));
        if let Some((name, base)) = base {
            text.extend(format!("base {name}\n").bytes());
            for (path, _) in base.files().filter(|(path, _)| self.tree.file(path).is_err()) {
                text.extend(format!("absent {path}\n").bytes());
            }
        }
        let mut files: Vec<_> = self.tree.files().collect();
        files.sort_by_key(|(path, _)| path.contains('/'));
        let is_left_out = |path: &str, contents| {
            path.contains('/') && base.is_some_and(|(_, base)| base.file(path) == Ok(contents))
        };
        for (path, contents) in files {
            if !is_left_out(path, contents) {
                write_file(&mut text, path, contents);
            }
        }
        let text = String::from_utf8(text).map_err(|error| error.to_string())?;
        let is_control = |c: char| c.is_control() && c != '\t';
        match text.split('\n').find(|line| line.contains(is_control)) {
            Some(line) => Err(format!("control characters in {line:?}")),
            None => Ok(text),
        }
    }
}

fn write_file(text: &mut Vec<u8>, path: &str, contents: &[u8]) {
    // Writing to memory does not fail.
    let _ = writeln!(text, "-- {path} --");
    for line in contents.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"-- ") || line.starts_with(b"\\") {
            text.push(b'\\');
        }
        text.extend(line);
    }
    if !contents.is_empty() && !contents.ends_with(b"\n") {
        let _ = write!(text, "\n{NO_NEWLINE}\n");
    }
}

fn invalid(file: &Path, problem: impl Into<String>) -> CaptureError {
    CaptureError::Text { path: file.to_owned(), problem: problem.into() }
}

/// The base of an archive: beside its name, and of the same owner, who chose the name. Otherwise an archive would have
/// another user's file read, or another user would supply the base.
fn base(file: &Path, of: &Path) -> Result<MemoryTree, CaptureError> {
    let text = read_of_owner(file, of)
        .map_err(|error| invalid(file, format!("{error}; {} is based on it", of.display())))?;
    let parts = Parts::parse(&text).map_err(|problem| invalid(file, problem))?;
    if parts.base.is_some() {
        return Err(invalid(file, "a base with a base"));
    }
    parts.over(MemoryTree::default()).map_err(|problem| invalid(file, problem))
}

fn read_of_owner(file: &Path, of: &Path) -> io::Result<Vec<u8>> {
    let owner = guarded::open(of)?.metadata()?.uid();
    let opened = guarded::open(file)?;
    if opened.metadata()?.uid() != owner {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it has another owner"));
    }
    let mut text = Vec::new();
    opened.take(MAX_TEXT_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    Ok(text)
}

/// What one archive has.
#[derive(Debug, Default)]
struct Parts {
    base: Option<String>,
    absent: Vec<String>,
    files: Vec<(String, String)>,
}

impl Parts {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
        let lines = text.strip_prefix(FIRST_LINE).ok_or("no text archive of memwright")?;
        let mut parts = Self::default();
        for (number, line) in (2..).zip(lines.split_inclusive('\n')) {
            parts.line(line).map_err(|problem| format!("line {number}: {problem}"))?;
        }
        Ok(parts)
    }

    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let text = line.strip_suffix('\n').ok_or("an incomplete line")?;
        if let Some(path) = text.strip_prefix("-- ") {
            return self.begin(path.strip_suffix(" --").ok_or("no ' --' at the end")?);
        }
        let Some((_, contents)) = self.files.last_mut() else { return self.head(text) };
        if text == NO_NEWLINE {
            return match contents.ends_with('\n') {
                true => contents.pop().map(drop).ok_or("a file without a line"),
                false => Err("a file without a line"),
            };
        }
        if !contents.is_empty() && !contents.ends_with('\n') {
            return Err("a line after the end of a file");
        }
        contents.push_str(line.strip_prefix('\\').unwrap_or(line));
        if contents.len() > MAX_FILE_BYTES { Err("a file that is too large") } else { Ok(()) }
    }

    fn head(&mut self, line: &str) -> Result<(), &'static str> {
        match line.split_once(' ') {
            Some(("base", name)) if self.base.is_none() => {
                if Path::new(name).file_name() != Some(name.as_ref()) {
                    return Err("a base that is no name of a file");
                }
                self.base = Some(name.to_owned());
            }
            Some(("absent", path)) => self.absent.push(path.to_owned()),
            _ => return Err("unknown (use 'base NAME', 'absent PATH' or '-- PATH --')"),
        }
        Ok(())
    }

    fn begin(&mut self, path: &str) -> Result<(), &'static str> {
        if self.files.len() == MAX_CAPTURE_FILES {
            return Err("too many files");
        }
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !Path::new(path).components().all(is_inside) {
            return Err("a path that leads out of the tree");
        }
        self.files.push((path.to_owned(), String::new()));
        Ok(())
    }

    /// The tree of these parts and a base.
    fn over(self, mut tree: MemoryTree) -> Result<MemoryTree, String> {
        for path in self.absent {
            if !tree.remove(&path) {
                return Err(format!("{path}: absent from the base as well"));
            }
        }
        for (path, contents) in self.files {
            tree.insert(&path, contents.into_bytes())
                .map_err(|problem| format!("{path}: {problem}"))?;
            if tree.bytes() > MAX_TREE_BYTES {
                return Err("too large with its base".to_owned());
            }
        }
        match tree.contradiction() {
            Some(path) => Err(format!("{path}: a file and a directory")),
            None => Ok(tree),
        }
    }
}
