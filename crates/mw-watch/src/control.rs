//! The control socket beside the recording: `memwright watch --now` asks the recorder for evidence through it.
//!
//! ```text
//! client:    now
//! recorder:  incident ID          evidence is taken
//! recorder:  kept ID VERDICT      or: failed WHY
//! ```
//!
//! Only root and the recorder's own user are served, one client after the other.

use crate::context::AFTER;
use crate::detector::{QUIET_MS, REQUESTED_MS};
use crate::progress::Beat;
use crate::requests::{EvidenceRequests, RequestProgress};
use crate::wakeup::WakeupFd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const NOW: &str = "now\n";

/// The longest line of either side.
const MAX_LINE_BYTES: u64 = 4096;

/// Time limit of a client's request, and of its reading the reply.
const CLIENT_LIMIT: Duration = Duration::from_secs(1);

/// Time limit of the explanation of an incident on a busy machine.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(30);

/// Time limit of a request.
fn request_limit() -> Duration {
    Duration::from_secs_f64((REQUESTED_MS + QUIET_MS) / 1000.0) + AFTER + EXPLAIN_LIMIT
}

/// The socket of a recorder, which removes it when it ends.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    place: SocketPlace,
    stop: WakeupFd,
}

impl ControlSocket {
    /// Call it while this process has the right to write the recording: a socket that is there was left by another.
    pub(crate) fn open(recording: &Path) -> io::Result<Self> {
        let place = SocketPlace::open(recording)?;
        match statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Socket => {
                unlinkat(&place.dir, &place.name, AtFlags::empty())?;
            }
            Ok(_) => return Err(io::Error::other("it is not a socket; remove it")),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let listener = UnixListener::bind(place.path())?;
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, place, stop: WakeupFd::new()? })
    }

    /// Serves until the recorder stops.
    pub(crate) fn run(&self, requests: &EvidenceRequests, trigger: &WakeupFd, beat: &Beat) {
        loop {
            let mut fds = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            beat.rest();
            let _ = poll(&mut fds, None);
            beat.step();
            if fds.last().is_some_and(|stop| !stop.revents().is_empty()) {
                return;
            }
            if let Ok((client, _)) = self.listener.accept() {
                // Errors of a client do not affect the recorder.
                let _ = serve(client, requests, trigger);
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.wake();
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = unlinkat(&self.place.dir, &self.place.name, AtFlags::empty());
    }
}

fn serve(client: UnixStream, requests: &EvidenceRequests, trigger: &WakeupFd) -> io::Result<()> {
    let peer = mw_sys::peer_credentials(client.as_fd())?.user;
    if peer != 0 && peer != rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(CLIENT_LIMIT))?;
    client.set_write_timeout(Some(CLIENT_LIMIT))?;
    let mut said = [0; NOW.len()];
    (&client).read_exact(&mut said)?;
    if said != NOW.as_bytes() {
        return Ok(());
    }
    requests.ask(trigger);
    let mut known = RequestProgress::Asked;
    while let Some(progress) = requests.next(&known, request_limit()) {
        writeln!(&client, "{}", line(&progress))?;
        if !matches!(progress, RequestProgress::Begun(_)) {
            break;
        }
        known = progress;
    }
    Ok(())
}

fn line(progress: &RequestProgress) -> String {
    let line = match progress {
        RequestProgress::Asked => String::new(),
        RequestProgress::Begun(id) => format!("incident {id}"),
        RequestProgress::Kept(id, verdict) => format!("kept {id} {verdict}"),
        RequestProgress::NotKept(why) => format!("failed {why}"),
    };
    line.replace('\n', " ").chars().take(MAX_LINE_BYTES as usize / 4 - 1).collect()
}

/// The socket by its directory: the path of a socket may have 107 bytes, that of a recording more.
#[derive(Debug)]
struct SocketPlace {
    dir: OwnedFd,
    name: OsString,
}

impl SocketPlace {
    fn open(recording: &Path) -> io::Result<Self> {
        let dir = recording.parent().filter(|dir| !dir.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, dir.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        let mut name = recording.file_name().unwrap_or(OsStr::new("recording.db")).to_owned();
        name.push("-control");
        Ok(Self { dir, name })
    }

    fn path(&self) -> PathBuf {
        Path::new("/proc/self/fd").join(self.dir.as_raw_fd().to_string()).join(&self.name)
    }
}

/// The reason why a recorder took no evidence.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceRequestError {
    #[error(
        "no recorder is recording to {0}; start one with 'systemctl start memwright' or 'memwright \
         watch', or name its file with --recording"
    )]
    NoRecorder(PathBuf),
    #[error("{0}: permission denied")]
    Denied(PathBuf),
    #[error("the recorder stopped meanwhile; 'memwright incidents' lists what it kept")]
    Stopped,
    #[error("the recorder does not respond; its log says why (journalctl -u memwright)")]
    Silent,
    #[error("the recorder could not keep the incident: {0}")]
    NotKept(String),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// An incident that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedIncident {
    pub id: u64,
    pub verdict: String,
}

/// Asks the recorder that writes a recording for evidence, and waits until its incident is kept. `begun` is told the
/// number of the incident as soon as evidence is taken.
///
/// # Errors
/// [`EvidenceRequestError`].
pub fn request_evidence(
    recording: &Path,
    begun: impl FnOnce(u64),
) -> Result<RequestedIncident, EvidenceRequestError> {
    let failed = |source: io::Error| match source.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            EvidenceRequestError::NoRecorder(recording.to_owned())
        }
        ErrorKind::PermissionDenied => EvidenceRequestError::Denied(recording.to_owned()),
        _ => EvidenceRequestError::Io { path: recording.to_owned(), source },
    };
    let place = SocketPlace::open(recording).map_err(failed)?;
    let server = UnixStream::connect(place.path()).map_err(failed)?;
    // Another request may be under way, and shares nothing with this one but the socket.
    server.set_read_timeout(Some(request_limit() * 2)).map_err(failed)?;
    (&server).write_all(NOW.as_bytes()).map_err(|error| lost(&error, failed))?;
    let mut lines = BufReader::new(server.take(2 * MAX_LINE_BYTES)).lines();
    let mut next = || -> Result<String, EvidenceRequestError> {
        lines.next().ok_or(EvidenceRequestError::Stopped)?.map_err(|error| lost(&error, failed))
    };
    let mut line = next()?;
    if let Some(id) = line.strip_prefix("incident ").and_then(|id| id.parse().ok()) {
        begun(id);
        line = next()?;
    }
    let kept = line.strip_prefix("kept ").and_then(|rest| rest.split_once(' '));
    match (kept, line.strip_prefix("failed ")) {
        (Some((id, verdict)), _) => {
            let id = id.parse().map_err(|_| EvidenceRequestError::Stopped)?;
            Ok(RequestedIncident { id, verdict: verdict.to_owned() })
        }
        (None, Some(why)) => Err(EvidenceRequestError::NotKept(why.to_owned())),
        (None, None) => Err(EvidenceRequestError::Stopped),
    }
}

fn lost(
    error: &io::Error,
    failed: impl Fn(io::Error) -> EvidenceRequestError,
) -> EvidenceRequestError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => EvidenceRequestError::Silent,
        // The recorder closes the connection of a user that it does not serve, and when it stops.
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => EvidenceRequestError::Stopped,
        kind => failed(kind.into()),
    }
}
