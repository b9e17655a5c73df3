//! Reads a file within limits.

use crate::helper_thread::HelperThread;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time that a file system may take for one call.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most calls that wait for file systems at a time; beyond that no file is read this way.
const MAX_BLOCKED: usize = 16;

/// Bytes to read in one call.
const PIECE_BYTES: usize = 256 << 10;

/// Limit of the bytes read of a file, and of the time. It may take longer by one call, two seconds.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    pub bytes: u64,
    pub time: Duration,
}

/// A regular file, which is opened and read on a thread that is abandoned where the file system does not respond.
#[derive(Debug)]
pub struct FileReader {
    helper: HelperThread<ReadRequest, io::Result<ReadReply>>,
    path: PathBuf,
    file: Arc<File>,
    file_bytes: u64,
    position: u64,
    left_bytes: u64,
    deadline: Instant,
    /// Bytes that were read and not yet fetched.
    piece: Vec<u8>,
    fetched: usize,
}

#[derive(Debug, Clone)]
enum ReadRequest {
    Open(PathBuf),
    Read { file: Arc<File>, at: u64, bytes: usize },
}

#[derive(Debug)]
enum ReadReply {
    Opened { file: Arc<File>, bytes: u64 },
    Piece(Vec<u8>),
}

fn answer(request: &ReadRequest) -> io::Result<ReadReply> {
    match request {
        ReadRequest::Open(path) => {
            let file = super::open(path)?;
            let bytes = file.metadata()?.len();
            Ok(ReadReply::Opened { file: Arc::new(file), bytes })
        }
        ReadRequest::Read { file, at, bytes } => {
            let mut piece = vec![0; *bytes];
            let read = file.read_at(&mut piece, *at)?;
            piece.truncate(read);
            Ok(ReadReply::Piece(piece))
        }
    }
}

impl FileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// As [`super::open`]; `TimedOut` where its file system does not respond, or has not responded to an earlier
    /// call for the same path that still waits.
    pub fn open(path: &Path, limits: ReadLimits) -> io::Result<Self> {
        let deadline = Instant::now() + limits.time;
        check_blocked(path)?;
        let own = path.to_owned();
        let mut helper = HelperThread::new(PATIENCE.min(limits.time), move |_, request| {
            let _call = PendingCall::begin(&own);
            answer(request)
        })?;
        let ReadReply::Opened { file, bytes: file_bytes } =
            call(&mut helper, ReadRequest::Open(path.to_owned()))?
        else {
            return Err(io::ErrorKind::Other.into());
        };
        let (path, left_bytes) = (path.to_owned(), limits.bytes);
        let (position, piece, fetched) = (0, Vec::new(), 0);
        Ok(Self { helper, path, file, file_bytes, position, left_bytes, deadline, piece, fetched })
    }

    /// Goes to where the last `limits.bytes` of the file begin; the number of bytes before them.
    pub fn skip_to_last(&mut self) -> u64 {
        self.position = self.file_bytes.saturating_sub(self.left_bytes);
        self.position
    }

    fn fill(&mut self) -> io::Result<()> {
        if Instant::now() >= self.deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "reading it took too long"));
        }
        let bytes = usize::try_from(self.left_bytes).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let request = ReadRequest::Read { file: Arc::clone(&self.file), at: self.position, bytes };
        let ReadReply::Piece(piece) = call(&mut self.helper, request)? else {
            return Err(io::ErrorKind::Other.into());
        };
        self.position += piece.len() as u64;
        self.left_bytes -= piece.len() as u64;
        (self.piece, self.fetched) = (piece, 0);
        Ok(())
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Read for FileReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.fetched == self.piece.len() && self.left_bytes > 0 {
            self.fill()?;
        }
        let mut rest = self.piece.get(self.fetched..).unwrap_or_default();
        let read = rest.read(bytes)?;
        self.fetched += read;
        Ok(read)
    }
}

/// Reads the last `limits.bytes` of a regular file.
///
/// # Errors
/// As [`FileReader::open`], and those of read(2).
pub fn read_tail(path: &Path, limits: ReadLimits) -> io::Result<Vec<u8>> {
    let mut reader = FileReader::open(path, limits)?;
    reader.skip_to_last();
    let mut tail = Vec::new();
    reader.read_to_end(&mut tail)?;
    Ok(tail)
}

fn call(
    helper: &mut HelperThread<ReadRequest, io::Result<ReadReply>>,
    request: ReadRequest,
) -> io::Result<ReadReply> {
    let answer = helper.run(&[(0, request)]).pop().flatten();
    answer.unwrap_or_else(|| Err(no_response()))
}

fn no_response() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "its file system does not respond")
}

/// The calls under way, each with the path and when it began.
static CALLS: Mutex<Vec<(PathBuf, Instant)>> = Mutex::new(Vec::new());

fn calls() -> MutexGuard<'static, Vec<(PathBuf, Instant)>> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each path has at most one thread that waits for ever, and all together [`MAX_BLOCKED`].
fn check_blocked(path: &Path) -> io::Result<()> {
    let calls = calls();
    let mut blocked = calls.iter().filter(|(_, begun)| begun.elapsed() > PATIENCE);
    let count = blocked.clone().count();
    if blocked.any(|(other, _)| other == path) {
        return Err(no_response());
    }
    if count >= MAX_BLOCKED {
        let line = format!("{count} calls wait for file systems that do not respond");
        return Err(io::Error::new(io::ErrorKind::TimedOut, line));
    }
    Ok(())
}

/// A call under way.
struct PendingCall(Instant);

impl PendingCall {
    fn begin(path: &Path) -> Self {
        let begun = Instant::now();
        calls().push((path.to_owned(), begun));
        Self(begun)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        let mut calls = calls();
        if let Some(at) = calls.iter().position(|(_, begun)| *begun == self.0) {
            calls.swap_remove(at);
        }
    }
}
