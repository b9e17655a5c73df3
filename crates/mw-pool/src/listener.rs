//! The socket at which clients ask: a name in the file system that is this server's as long as it
//! lives.

use crate::server::{StartError, system};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmod, fstat, open, statat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket that everybody may connect to: who may do what is asked of the kernel at each. Its name
/// is removed when this is dropped, if it is still this socket's.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// The file that bind(2) made, by a descriptor that keeps its inode number from being reused.
    file: OwnedFd,
    refuses_descriptors: bool,
}

impl Listener {
    /// Binds and listens. A socket that an ended server left there is replaced; a server that
    /// answers, or is too busy to, is not.
    pub(crate) fn bind(path: &Path) -> Result<Self, StartError> {
        let bound = || -> io::Result<Option<Self>> {
            let address = SocketAddrUnix::new(path)?;
            match connect(&new_socket()?, &address) {
                Err(Errno::NOENT) => {}
                // Nobody listens there, or it is no socket at all.
                Err(Errno::CONNREFUSED) => remove_socket(path)?,
                // Its queue is full.
                Ok(()) | Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            Self::at(path, &address).map(Some)
        };
        let bound = bound().map_err(system(path.display()))?;
        bound.ok_or_else(|| StartError::Running(path.to_owned()))
    }

    fn at(path: &Path, address: &SocketAddrUnix) -> io::Result<Self> {
        let socket = new_socket()?;
        let refuses_descriptors = mw_sys::refuse_descriptors(socket.as_fd()).is_ok();
        bind(&socket, address)?;
        let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let listener = Self { socket, path: path.to_owned(), file, refuses_descriptors };
        let about = fstat(&listener.file)?;
        // Who may write to the folder may have put something else there meanwhile.
        if !is_socket(&about) || about.st_uid != geteuid().as_raw() {
            return Err(io::Error::other("it was replaced as it was made"));
        }
        // By the descriptor, since chmod(2) of the path would follow a link.
        chmod(format!("/proc/self/fd/{}", listener.file.as_raw_fd()), Mode::from_raw_mode(0o666))?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Whether the kernel refuses clients' descriptors (Linux 6.16), so that none are ever dropped
    /// here.
    pub(crate) fn refuses_descriptors(&self) -> bool {
        self.refuses_descriptors
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let there = statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        let same = |there: Stat| {
            fstat(&self.file)
                .is_ok_and(|own| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino))
        };
        if there.is_ok_and(same) {
            // Where it cannot be removed, the next server takes its place.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn is_socket(about: &Stat) -> bool {
    FileType::from_raw_mode(about.st_mode) == FileType::Socket
}

/// Removes what an ended server left. connect(2) says of any other file too that nobody listens.
fn remove_socket(path: &Path) -> io::Result<()> {
    if !is_socket(&statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?) {
        return Err(io::Error::other("there is a file that is no socket"));
    }
    std::fs::remove_file(path)
}
