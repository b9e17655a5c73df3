//! Where the kernel's files are read from: the running machine, or a tree: captured from another machine, or with the
//! proc file system of a running one mounted in it, as the pods of Kubernetes mount that of their node.
//!
//! A tree is not trusted: a link in it must not lead out of it (to this machine's own /proc), a
//! fifo must not hang the reader, and a file of a gigabyte must not be loaded. So every open of a
//! tree is confined by `openat2(RESOLVE_IN_ROOT)`, must be of a regular file, and every read is
//! bounded.

use crate::hints;
use crate::memory_tree::MemoryTree;
use mw_model::{Missing, OriginKind, Reading};
use mw_proc::error::ParseError;
use rustix::buffer::spare_capacity;
use rustix::fs::{Dir, DirEntry, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The largest file that is read: the largest real one, zoneinfo of a 1,024-CPU machine with eight
/// nodes, is below 1 MiB.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// The most entries of one directory that are looked at.
pub const MAX_DIR_ENTRIES: usize = 65_536;

const FIRST_READ_BYTES: usize = 16 << 10;

/// A root directory with `proc`, `sys` and the like below it.
#[derive(Debug)]
pub struct Source {
    kind: OriginKind,
    root: PathBuf,
    files: SourceFiles,
    running: bool,
    patience: u32,
    input: Option<String>,
}

/// Root of the files.
#[derive(Debug)]
enum SourceFiles {
    Below(OwnedFd),
    InMemory(Arc<MemoryTree>),
}

/// A root that cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The directory cannot be opened.
    #[error("{path}: {source}")]
    Open { path: PathBuf, source: Errno },
    /// The directory holds neither proc nor sys.
    #[error("{path}: neither proc/ nor sys/ in it; give the directory that has them")]
    NoTree { path: PathBuf },
    /// The archive holds neither proc nor sys.
    #[error("{path}: not a capture: neither proc/ nor sys/ in it")]
    NotACapture { path: PathBuf },
}

impl Source {
    /// The running machine.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn live() -> Result<Self, SourceError> {
        Self::open_root(Path::new("/"), OriginKind::Live)
    }

    /// A captured tree: written by `memwright capture`, copied by hand, or laid out by sosreport.
    ///
    /// # Errors
    /// The directory cannot be opened, or holds neither proc nor sys.
    pub fn tree(root: &Path) -> Result<Self, SourceError> {
        Self::open_root(root, OriginKind::Tree)?.checked()
    }

    /// A tree in memory; `name` is the file that it comes from.
    ///
    /// # Errors
    /// It holds neither proc nor sys.
    pub fn in_memory(tree: MemoryTree, name: &Path) -> Result<Self, SourceError> {
        let files = SourceFiles::InMemory(Arc::new(tree));
        let (kind, root) = (OriginKind::Tree, name.to_owned());
        Self { kind, root, files, running: false, patience: 1, input: None }.checked()
    }

    fn checked(self) -> Result<Self, SourceError> {
        let has = |name: &str| self.list(name).is_ok();
        if has("/proc") || has("/sys") {
            return Ok(self);
        }
        Err(match self.files {
            SourceFiles::InMemory(_) => SourceError::NotACapture { path: self.root },
            SourceFiles::Below(_) => SourceError::NoTree { path: self.root },
        })
    }

    fn open_root(root: &Path, kind: OriginKind) -> Result<Self, SourceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|source| SourceError::Open { path: root.to_owned(), source })?;
        let files = SourceFiles::Below(dir);
        let root = root.to_owned();
        let mut source = Self { kind, root, files, running: true, patience: 1, input: None };
        source.running = kind == OriginKind::Live || source.has_proc_mounted();
        Ok(source)
    }

    /// True if the kernel provides `proc` of the tree.
    fn has_proc_mounted(&self) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = self.open_at("/proc", flags);
        proc.and_then(rustix::fs::fstatfs).is_ok_and(|fs| fs.f_type == PROC_SUPER_MAGIC)
    }

    /// The same root, for another thread.
    pub(crate) fn again(&self) -> std::io::Result<Self> {
        let files = match &self.files {
            SourceFiles::Below(dir) => SourceFiles::Below(dir.try_clone()?),
            SourceFiles::InMemory(tree) => SourceFiles::InMemory(Arc::clone(tree)),
        };
        Ok(Self { root: self.root.clone(), input: self.input.clone(), files, ..*self })
    }

    /// True if its counters go on counting: this machine's, or those of a proc file system that is mounted in a tree.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Live machine or tree.
    pub fn kind(&self) -> OriginKind {
        self.kind
    }

    /// Multiplies the time limits for reading many processes and groups: for threads that nobody
    /// waits for.
    #[must_use]
    pub fn patient(self, times: u32) -> Self {
        Self { patience: times, ..self }
    }

    /// True if a link of a running machine leads nowhere, as /proc/PID/exe of the kernel's own
    /// threads does. Asking costs a quarter of what reading their status does.
    pub(crate) fn leads_nowhere(&self, path: &str) -> bool {
        self.live_link(path) == Some(Err(Errno::NOENT))
    }

    /// A link of a running machine.
    fn live_link(&self, path: &str) -> Option<Result<CString, Errno>> {
        match (self.kind, &self.files) {
            (OriginKind::Live, SourceFiles::Below(dir)) => {
                Some(rustix::fs::readlinkat(dir, path.trim_start_matches('/'), Vec::new()))
            }
            _ => None,
        }
    }

    /// True if this process is in the cgroup namespace that the machine started with, so that `/` is
    /// the root of every hierarchy (the link's number is `PROC_CGROUP_INIT_INO` of the kernel).
    pub(crate) fn in_first_cgroup_namespace(&self) -> bool {
        match self.live_link("/proc/self/ns/cgroup") {
            Some(Ok(link)) => link.as_bytes() == b"cgroup:[4026531835]",
            // Before 4.6 there is but one.
            Some(Err(errno)) => errno == Errno::NOENT,
            None => false,
        }
    }

    /// Time limit of a read that may take `live` on a running machine: nobody waits for the
    /// files of a captured tree.
    pub(crate) fn budget(&self, live: Duration) -> Duration {
        live * if self.running { self.patience } else { 1000 }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The same, with what another tool wrote it as: "the output of 'free' in MiB".
    pub(crate) fn with_input(self, input: String) -> Self {
        Self { input: Some(input), ..self }
    }

    /// What it was made from, where that is no capture and no directory.
    pub fn input(&self) -> Option<&str> {
        self.input.as_deref()
    }

    /// Opens a regular file of the kernel by its absolute path.
    ///
    /// # Errors
    /// Why it cannot be seen.
    pub fn open(&self, path: &str) -> Result<OwnedFd, Missing> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_at(path, flags).map_err(|e| hints::missing(path, e, self.kind))?;
        let stat = rustix::fs::fstat(&file).map_err(|e| hints::missing(path, e, self.kind))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(file),
            _ => Err(self.not_there(Missing::failed(path, "not a regular file"))),
        }
    }

    /// A file that was found but is not the kernel's: another mount may hide that.
    pub(crate) fn not_there(&self, missing: Missing) -> Missing {
        hints::not_there(missing, self.kind)
    }

    fn open_at(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let dir = match &self.files {
            SourceFiles::Below(dir) => dir,
            SourceFiles::InMemory(tree) => return tree.open(path),
        };
        let relative = path.trim_start_matches('/');
        let relative = if relative.is_empty() { "." } else { relative };
        match self.kind {
            OriginKind::Live => rustix::fs::openat(dir, relative, flags, Mode::empty()),
            OriginKind::Tree => rustix::fs::openat2(
                dir,
                relative,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            ),
        }
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// Why it cannot be seen: absent, not permitted, larger than [`MAX_FILE_BYTES`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Missing> {
        if let SourceFiles::InMemory(tree) = &self.files {
            let contents = tree.file(path);
            return contents.map(<[u8]>::to_vec).map_err(|e| hints::missing(path, e, self.kind));
        }
        let file = self.open(path)?;
        let mut buffer = Vec::new();
        read_all(&file, &mut buffer).map_err(|e| e.at(path, self.kind))?;
        Ok(buffer)
    }

    /// Reads a whole file and understands it.
    ///
    /// # Errors
    /// Why it cannot be seen or understood; names the line.
    pub fn parse<T>(
        &self,
        path: &str,
        parser: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Missing> {
        let bytes = self.read(path)?;
        parser(&bytes).map_err(|error| malformed(path, &error, self.kind))
    }

    /// [`Source::parse`] as a [`Reading`].
    pub fn reading<T>(
        &self,
        path: &str,
        parser: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Reading<T> {
        self.parse(path, parser).into()
    }

    /// Reads a file of one number.
    ///
    /// # Errors
    /// Why it cannot be seen or understood.
    pub fn number(&self, path: &str) -> Result<u64, Missing> {
        self.parse(path, mw_proc::number::parse_u64)
    }

    /// The size of a directory, in which some file systems of the kernel have the number of entries.
    pub(crate) fn directory_size(&self, path: &str) -> Option<u64> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stat = rustix::fs::fstat(self.open_at(path, flags).ok()?).ok()?;
        u64::try_from(stat.st_size).ok()
    }

    /// The number of entries of a directory, counted up to more than `most`.
    pub(crate) fn count_entries(&self, path: &str, most: usize) -> Option<usize> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = Dir::read_from(self.open_at(path, flags).ok()?).ok()?;
        let is_counted = |entry: &DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
        Some(entries.flatten().filter(is_counted).take(most.saturating_add(1)).count())
    }

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// Why it cannot be seen; more than [`MAX_DIR_ENTRIES`] names.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Missing> {
        let entries = self.entries(path)?;
        Ok(entries.into_iter().map(|(name, _)| name).collect())
    }

    /// The names of the directories in a directory, sorted; links to directories are none.
    ///
    /// # Errors
    /// As of [`Source::list`].
    pub(crate) fn directories(&self, path: &str) -> Result<Vec<String>, Missing> {
        let is_directory = |(name, kind): &(String, FileType)| match kind {
            FileType::Directory => true,
            // Some file systems do not tell.
            FileType::Unknown => self.list(&format!("{path}/{name}")).is_ok(),
            _ => false,
        };
        let entries = self.entries(path)?;
        Ok(entries.into_iter().filter(is_directory).map(|(name, _)| name).collect())
    }

    /// The names in a directory and what they are, sorted by name.
    fn entries(&self, path: &str) -> Result<Vec<(String, FileType)>, Missing> {
        let missing = |errno| hints::missing(path, errno, self.kind);
        let too_many = || Missing::failed(path, format!("over {MAX_DIR_ENTRIES} entries"));
        if let SourceFiles::InMemory(tree) = &self.files {
            let mut names = tree.entries(path, MAX_DIR_ENTRIES).map_err(missing)?;
            names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            return if names.len() > MAX_DIR_ENTRIES { Err(too_many()) } else { Ok(names) };
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = self.open_at(path, flags).map_err(missing)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir).map_err(missing)? {
            let entry = entry.map_err(missing)?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push((name.into_owned(), entry.file_type()));
            }
            if names.len() > MAX_DIR_ENTRIES {
                return Err(too_many());
            }
        }
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(names)
    }
}

/// A file that was read but not understood.
pub(crate) fn malformed(path: &str, error: &ParseError, kind: OriginKind) -> Missing {
    hints::not_there(Missing::failed(path, error.to_string()), kind)
}

/// A read that did not work out.
#[derive(Debug)]
pub(crate) enum ReadError {
    Kernel(Errno),
    TooLarge,
}

impl ReadError {
    pub(crate) fn at(self, path: &str, kind: OriginKind) -> Missing {
        match self {
            Self::Kernel(errno) => hints::missing(path, errno, kind),
            Self::TooLarge => Missing::failed(
                path,
                format!("larger than {}", mw_model::format_bytes(MAX_FILE_BYTES as u64)),
            ),
        }
    }
}

/// Reads a descriptor from its start into `buffer`, whose length becomes the file's. Allocates
/// only while the buffer is smaller than the file was at any reading.
pub(crate) fn read_all(file: &OwnedFd, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
    buffer.clear();
    buffer.reserve(FIRST_READ_BYTES);
    while buffer.len() <= MAX_FILE_BYTES {
        // Without effect while there is room; else for as much again.
        buffer.reserve(1);
        let at = buffer.len() as u64;
        match rustix::io::pread(file, spare_capacity(buffer), at) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(ReadError::Kernel(errno)),
        }
    }
    Err(ReadError::TooLarge)
}
