//! One run of a machine: from the start of QEMU to its end, which always comes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::guest::output_of;
use crate::klog::{self, Trouble};
use crate::machine::{Disk, DiskFormat, Files, Machine};
use crate::serial::{self, Frames};
use crate::workdir;

const QEMU: &str = "qemu-system-x86_64";
const POLL: Duration = Duration::from_millis(50);

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The guest said that it was done.
    Done,
    /// The time limit was reached.
    TimedOut,
    /// The machine stopped by itself: a panic, or QEMU could not run it.
    Stopped,
}

/// What a run brought back.
#[derive(Debug, Clone)]
pub struct Run {
    /// How it ended.
    pub ended: Ended,
    /// What the guest sent.
    pub frames: Frames,
    /// The kernel's log and what the case printed.
    pub console: String,
    /// What the kernel's log says about the kernel's health.
    pub troubles: Vec<Trouble>,
    /// From the start of QEMU to the guest's first word; `None`: it never spoke.
    pub boot: Option<Duration>,
    /// From the start of QEMU to the end.
    pub wall: Duration,
}

/// A running machine; dropping it kills it.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots `machine` with `kernel` and the archive `initramfs`, and waits for its end.
pub fn run(machine: &Machine, kernel: &Path, initramfs: &[u8]) -> Result<Run, LabError> {
    let dir = workdir::new()?;
    let image = dir.path().join("initramfs");
    std::fs::write(&image, initramfs).map_err(LabError::io(&image))?;
    let disks = make_disks(&machine.disks, dir.path())?;
    let (console, frames) = (dir.path().join("console"), dir.path().join("frames"));
    let files =
        Files { kernel, initramfs: &image, disks: &disks, console: &console, frames: &frames };

    let started = Instant::now();
    let mut guest = start(machine.qemu_arguments(&files), &dir.path().join("qemu"))?;
    let (ended, boot) = wait(&mut guest, &frames, started, machine.time_limit)?;
    drop(guest);

    let mut text = read(&console)?;
    text.push_str(&read(&dir.path().join("qemu"))?);
    Ok(Run {
        ended,
        frames: serial::parse(&read(&frames)?)?,
        troubles: klog::scan(&text),
        console: text,
        boot,
        wall: started.elapsed(),
    })
}

/// `setpriv` asks the kernel to kill QEMU should the lab itself be killed; then it becomes QEMU.
fn start(arguments: Vec<String>, said: &Path) -> Result<Guest, LabError> {
    output_of(Command::new(QEMU).arg("--version"), "qemu-system-x86")?;
    let said = std::fs::File::create(said).map_err(LabError::io(said))?;
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", QEMU])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said)
        .spawn();
    child.map(Guest).map_err(|_| LabError::ProgramMissing {
        program: "setpriv".to_owned(),
        package: "util-linux".to_owned(),
    })
}

fn wait(
    guest: &mut Guest,
    frames: &Path,
    started: Instant,
    limit: Duration,
) -> Result<(Ended, Option<Duration>), LabError> {
    let mut boot = None;
    loop {
        let stopped = guest.0.try_wait().map_err(LabError::io(Path::new(QEMU)))?.is_some();
        let port = std::fs::read(frames).unwrap_or_default();
        if boot.is_none() && !port.is_empty() {
            boot = Some(started.elapsed());
        }
        if serial::is_done(&port) {
            return Ok((Ended::Done, boot));
        }
        if stopped {
            return Ok((Ended::Stopped, boot));
        }
        if started.elapsed() > limit {
            return Ok((Ended::TimedOut, boot));
        }
        std::thread::sleep(POLL);
    }
}

fn read(path: &Path) -> Result<String, LabError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(LabError::io(path)(e)),
    }
}

/// Sparse images: they take no more room than what the guest writes.
fn make_disks(disks: &[Disk], dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut images = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        let image = dir.join(format!("disk{number}"));
        let file = std::fs::File::create(&image).map_err(LabError::io(&image))?;
        file.set_len(disk.size_bytes).map_err(LabError::io(&image))?;
        match disk.format {
            DiskFormat::Raw => {}
            DiskFormat::Ext4 => {
                let options = ["-q", "-t", "ext4", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
                output_of(Command::new("/sbin/mke2fs").args(options).arg(&image), "e2fsprogs")?;
            }
            DiskFormat::Swap => {
                output_of(Command::new("/sbin/mkswap").arg(&image), "util-linux")?;
            }
        }
        images.push(image);
    }
    Ok(images)
}
