//! A file system in user space (FUSE) with one file. It never answers the flush of one process, and never
//! answers a release.
//!
//! The daemon is a process of its own in a mount namespace of its own. It holds no file of the file
//! system, so that killing it aborts the connection and ends every wait for it.

use super::eventually;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const DIR: &str = "MW_POOL_FUSE";
const NAME: &str = "file";
/// Holds the number of the process whose flush is not answered.
const VICTIM: &str = "victim";
/// Is made when that process waits.
const HUNG: &str = "hung";

/// The daemon, which is killed when this is dropped.
pub(crate) struct Fuse {
    daemon: Child,
    dir: tempfile::TempDir,
}

impl Fuse {
    /// Mounts it. The test program must have a test `fuse_process` that calls [`serve`].
    pub(crate) fn mount() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("at")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", "fuse_process", "--ignored", "--nocapture"]);
        let daemon = command.env(DIR, dir.path()).stdout(Stdio::null()).spawn().unwrap();
        let fuse = Self { daemon, dir };
        eventually("it is mounted", || fuse.path().exists());
        fuse
    }

    /// The file, for root of any mount namespace.
    fn path(&self) -> PathBuf {
        let at = self.dir.path().join("at").join(NAME);
        PathBuf::from(format!("/proc/{}/root{}", self.daemon.id(), at.display()))
    }

    pub(crate) fn open(&self) -> OwnedFd {
        open(self.path(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    /// Has the daemon leave this process's flushes unanswered.
    pub(crate) fn starve(&self, process: u32) {
        fs::write(self.dir.path().join(VICTIM), process.to_string()).unwrap();
    }

    /// True if that process has waited.
    pub(crate) fn is_hung(&self) -> bool {
        self.dir.path().join(HUNG).exists()
    }
}

impl Fuse {
    /// Ends the daemon, and with it every wait for it.
    pub(crate) fn abort(&self) {
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::KILL);
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.abort();
        let _ = self.daemon.wait();
    }
}

/// The daemon's process.
pub(crate) fn serve() {
    let dir = PathBuf::from(std::env::var_os(DIR).unwrap());
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let fd = device.as_fd().as_raw_fd();
    let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other");
    let options = std::ffi::CString::new(options).unwrap();
    let at = dir.join("at");
    mount("memwright-test", &at, "fuse", MountFlags::NODEV, options.as_c_str()).unwrap();
    let mut request = vec![0; 1 << 20];
    while let Ok(bytes) = rustix::io::read(&device, &mut request) {
        if let Some(answer) = answer(&request[..bytes], &dir) {
            let _ = rustix::io::write(&device, &answer);
        }
    }
}

fn number(request: &[u8], at: usize) -> u32 {
    request[at..at + 4].try_into().map(u32::from_le_bytes).unwrap()
}

/// linux/fuse.h: `fuse_in_header` is 40 bytes, `fuse_out_header` 16.
fn answer(request: &[u8], dir: &Path) -> Option<Vec<u8>> {
    let node = number(request, 16);
    let body = match number(request, 4) {
        // LOOKUP
        1 if request[40..].starts_with(NAME.as_bytes()) => Ok(entry()),
        1 => Err(-2),
        // GETATTR: valid for no time, then the attributes.
        3 => Ok([vec![0; 16], attributes(node)].concat()),
        // OPEN, OPENDIR: a handle of nothing.
        14 | 27 => Ok(vec![0; 16]),
        // FLUSH
        25 if is_victim(number(request, 32), dir) => {
            fs::write(dir.join(HUNG), "").unwrap();
            return None;
        }
        25 | 29 | 34 => Ok(Vec::new()),
        // INIT: version 7.31, no flags.
        26 => Ok([7_u32, 31, 0, 0, 0, 4096]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .chain([0; 40])
            .collect()),
        // FORGET, INTERRUPT and BATCH_FORGET have no answer; RELEASE gets none.
        2 | 18 | 36 | 42 => return None,
        _ => Err(-38),
    };
    let (error, body) = match body {
        Ok(body) => (0_i32, body),
        Err(error) => (error, Vec::new()),
    };
    let bytes = u32::try_from(16 + body.len()).unwrap();
    Some([&bytes.to_le_bytes()[..], &error.to_le_bytes(), &request[8..16], &body].concat())
}

fn entry() -> Vec<u8> {
    let mut entry = vec![0; 40];
    entry[0] = 2;
    [entry, attributes(2)].concat()
}

/// The root directory is node 1, the file node 2.
fn attributes(node: u32) -> Vec<u8> {
    let mut of = vec![0; 88];
    let mode: u32 = if node == 1 { 0o40_755 } else { 0o100_666 };
    of[0] = node.to_le_bytes()[0];
    of[60..64].copy_from_slice(&mode.to_le_bytes());
    of[64] = 1;
    of
}

fn is_victim(task: u32, dir: &Path) -> bool {
    let Ok(victim) = fs::read_to_string(dir.join(VICTIM)) else { return false };
    let status = fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Tgid:").is_some_and(|id| id.trim() == victim))
}
