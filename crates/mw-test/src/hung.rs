//! A file system whose server stops answering, as a dead NFS server or a stopped FUSE daemon does.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Whatever hangs on it is let go after this, so that a test that fails does not hang.
const RELEASE_S: i64 = 60;

const REQUEST_BYTES: usize = 256 << 10;

/// The file in the file system's root.
pub const FILE: &str = "file";

/// A FUSE file system with one file, mounted where [`own_mounts`] was called before. Dropping it aborts the connection: what hangs gets an error.
#[derive(Debug)]
pub struct HungMount {
    dir: PathBuf,
    hung: Arc<AtomicBool>,
    stop: Arc<OwnedFd>,
    server: Option<JoinHandle<()>>,
}

impl HungMount {
    /// Mounts it over `dir`; it answers until [`Self::hang`].
    ///
    /// # Panics
    /// Without root or /dev/fuse.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = open("/dev/fuse", flags, Mode::empty()).expect("root and /dev/fuse");
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let options = CString::new(options).unwrap();
        mount("hung", dir, "fuse.hung", MountFlags::empty(), options.as_c_str()).unwrap();
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let hung = Arc::new(AtomicBool::new(false));
        let (stopped, is_hung) = (Arc::clone(&stop), Arc::clone(&hung));
        let server = std::thread::spawn(move || serve(device, &stopped, &is_hung));
        Self { dir: dir.to_owned(), hung, stop, server: Some(server) }
    }

    /// From now on nothing is answered.
    pub fn hang(&self) {
        self.hung.store(true, Ordering::SeqCst);
    }
}

impl Drop for HungMount {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
        // It fails in another thread, whose namespace has no such mount.
        let _ = unmount(&self.dir, UnmountFlags::DETACH);
    }
}

/// Gives this thread, and the children that it starts, mounts of their own, which go with them.
///
/// # Panics
/// Without root.
#[allow(deprecated, reason = "no descriptors are unshared, which is what is unsafe")]
pub fn own_mounts() {
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
}

/// Reads requests, so that they count as taken and cannot be withdrawn, and answers while it may.
fn serve(device: OwnedFd, stop: &OwnedFd, hung: &AtomicBool) {
    let timeout = Timespec { tv_sec: RELEASE_S, tv_nsec: 0 };
    let mut bytes = vec![0; REQUEST_BYTES];
    loop {
        let mut fds =
            [device.as_fd(), stop.as_fd()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        if poll(&mut fds, Some(&timeout)) == Ok(0) || !fds[1].revents().is_empty() {
            return;
        }
        let length = match rustix::io::read(&device, &mut bytes) {
            Ok(length) => length,
            // The requester has gone meanwhile.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => continue,
            Err(_) => return,
        };
        if !hung.load(Ordering::SeqCst)
            && let Some(answer) = answer(&bytes[..length])
        {
            let _ = rustix::io::write(&device, &answer);
        }
    }
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const ENOENT: i32 = 2;
const ENOSYS: i32 = 38;

/// An answer (linux/fuse.h): a header and the data.
fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
    let (opcode, unique) = (word(4), &request[8..16]);
    let is_root = word(16) == 1;
    let payload = match opcode {
        FORGET | BATCH_FORGET | INTERRUPT => return None,
        INIT => Ok(init()),
        LOOKUP if request[40..].strip_suffix(&[0]) == Some(FILE.as_bytes()) => Ok(entry()),
        LOOKUP => Err(ENOENT),
        GETATTR => Ok([vec![0; 16], attributes(is_root)].concat()),
        OPEN | OPENDIR => Ok(vec![0; 16]),
        FLUSH | RELEASE | RELEASEDIR => Ok(Vec::new()),
        _ => Err(ENOSYS),
    };
    let error = payload.as_ref().err().map_or(0, |error| -error);
    let payload = payload.unwrap_or_default();
    let length = u32::try_from(16 + payload.len()).unwrap();
    Some([&length.to_ne_bytes()[..], &error.to_ne_bytes(), unique, &payload].concat())
}

/// Version 7.31, writes of 4 KiB.
fn init() -> Vec<u8> {
    let mut out = vec![0; 64];
    out[..4].copy_from_slice(&7_u32.to_ne_bytes());
    out[4..8].copy_from_slice(&31_u32.to_ne_bytes());
    out[20..24].copy_from_slice(&4096_u32.to_ne_bytes());
    out
}

/// Node 2, with a validity of zero, so that every lookup is a request.
fn entry() -> Vec<u8> {
    [2_u64.to_ne_bytes().to_vec(), vec![0; 32], attributes(false)].concat()
}

fn attributes(root: bool) -> Vec<u8> {
    let mut out = vec![0; 88];
    let (inode, mode): (u64, u32) = if root { (1, 0o040_755) } else { (2, 0o100_644) };
    out[..8].copy_from_slice(&inode.to_ne_bytes());
    out[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
    out[60..64].copy_from_slice(&mode.to_ne_bytes());
    out[64..68].copy_from_slice(&1_u32.to_ne_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_hangs_and_lets_go() {
        if !crate::is_root() {
            return;
        }
        let dir = std::env::temp_dir().join(format!("mw-hung-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        own_mounts();
        let mount = HungMount::at(&dir);
        let file = std::fs::File::open(dir.join(FILE)).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4096);
        mount.hang();
        let asked = Instant::now();
        let asker = std::thread::spawn(move || file.metadata().map(|metadata| metadata.len()));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!asker.is_finished());
        drop(mount);
        assert!(asker.join().unwrap().is_err());
        assert!(asked.elapsed() < Duration::from_secs(20));
        std::fs::remove_dir(dir).unwrap();
    }
}
