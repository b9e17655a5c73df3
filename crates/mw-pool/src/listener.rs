//! The socket that clients connect to, and its name in the file system, which the server owns as long
//! as it lives.

use crate::config::{StartError, system};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, chmod, fstat, open, statat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket that every user may connect to: the kernel reports the user of each peer. Its name is removed
/// when this is dropped, if it is still this socket's.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// The file that bind(2) made, by a descriptor that keeps its inode number from being reused.
    file: OwnedFd,
    refuses_descriptors: bool,
}

impl Listener {
    /// Binds and listens. A socket left by a server that has ended is replaced; that of a server that
    /// answers, or is too busy to, is not.
    pub(crate) fn bind(path: &Path) -> Result<Self, StartError> {
        let bound = || -> io::Result<Option<Self>> {
            let address = SocketAddrUnix::new(path)?;
            match connect(&new_socket()?, &address) {
                Err(Errno::NOENT) => {}
                // No process listens there, or it is not a socket.
                Err(Errno::CONNREFUSED) => remove_socket(path)?,
                // Its queue is full.
                Ok(()) | Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            Self::bind_unused(path, &address).map(Some)
        };
        let bound = bound().map_err(system(path.display()))?;
        bound.ok_or_else(|| StartError::Running(path.to_owned()))
    }

    fn bind_unused(path: &Path, address: &SocketAddrUnix) -> io::Result<Self> {
        let socket = new_socket()?;
        let refuses_descriptors = mw_sys::refuse_descriptors(socket.as_fd()).is_ok();
        bind(&socket, address)?;
        let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let listener = Self { socket, path: path.to_owned(), file, refuses_descriptors };
        let about = fstat(&listener.file)?;
        // A user who may write to the directory may have replaced it in the meantime.
        if !is_socket(&about) || about.st_uid != geteuid().as_raw() {
            return Err(io::Error::other("the socket was replaced while it was created"));
        }
        // By the descriptor, since chmod(2) of the path would follow a link.
        chmod(format!("/proc/self/fd/{}", listener.file.as_raw_fd()), Mode::from_raw_mode(0o666))?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// True if the kernel refuses clients' descriptors (Linux 6.16), so that none is ever dropped here.
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
            // If it cannot be removed, the next server replaces it.
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

/// Removes the socket of a server that has ended. connect(2) fails in the same way for any other file.
fn remove_socket(path: &Path) -> io::Result<()> {
    if !is_socket(&statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?) {
        return Err(io::Error::other("the file exists and is not a socket"));
    }
    std::fs::remove_file(path)
}
