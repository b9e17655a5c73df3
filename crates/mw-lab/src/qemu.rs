//! One run of a machine: from the start of QEMU to its end, which always comes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::accel::Accel;
use crate::error::LabError;
use crate::guest::output_of;
use crate::host;
use crate::interrupt::is_interrupted;
use crate::klog::{self, Trouble};
use crate::machine::{Disk, DiskFormat, Files, Machine};
use crate::port::{Port, Step};
use crate::serial::{self, Frames};
use crate::workdir;

const QEMU: &str = "qemu-system-x86_64";
const POLL: Duration = Duration::from_millis(50);

/// The most that a guest may say on either of its serial ports.
const MAX_SAID_BYTES: u64 = 64 << 20;

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The guest said that it was done.
    Done,
    /// The time limit was reached.
    TimedOut,
    /// The machine stopped by itself: a panic, or QEMU could not run it.
    Stopped,
    /// The guest said more than anybody wants to read.
    TooMuchSaid,
    /// The guest's disks have nearly filled the host's.
    DiskFull,
    /// Whoever watched has had enough.
    Interrupted,
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
    /// What the guest did, in order.
    pub steps: Vec<Step>,
    /// From the start of QEMU to the guest's first word; `None`: it never spoke.
    pub boot: Option<Duration>,
    /// From the start of QEMU to the end.
    pub wall: Duration,
}

/// Is told every moment which step the guest is at (`None`: it boots), and says whether to go on.
pub type Watch<'a> = dyn FnMut(Option<&Step>) -> bool + 'a;

/// A running machine; dropping it kills it.
struct Guest {
    qemu: Child,
    started: Instant,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Boots `machine` with `kernel` and the archive `initramfs`, and waits for its end.
pub fn run(
    machine: &Machine,
    accel: Accel,
    kernel: &Path,
    initramfs: &[u8],
    watch: &mut Watch<'_>,
) -> Result<Run, LabError> {
    let dir = workdir::new()?;
    let image = dir.path().join("initramfs");
    std::fs::write(&image, initramfs).map_err(LabError::io(&image))?;
    let disks = make_disks(&machine.disks, dir.path())?;
    let (console, frames) = (dir.path().join("console"), dir.path().join("frames"));
    let files =
        Files { kernel, initramfs: &image, disks: &disks, console: &console, frames: &frames };

    let mut guest = start(machine.qemu_arguments(accel, &files), &dir.path().join("qemu"))?;
    let mut port = Port::new(&frames);
    let ended = wait(&mut guest, &mut port, &files, machine.time_limit, watch)?;
    let wall = guest.started.elapsed();
    drop(guest);

    let mut text = read(&console)?;
    text.push_str(&read(&dir.path().join("qemu"))?);
    let frames = match serial::parse(&read(&frames)?) {
        Err(_) if ended != Ended::Done => Frames::default(),
        frames => frames?,
    };
    Ok(Run {
        ended,
        frames,
        troubles: klog::scan(&text),
        console: text,
        steps: port.steps,
        boot: port.boot,
        wall,
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
    let qemu = child.map_err(|_| LabError::ProgramMissing {
        program: "setpriv".to_owned(),
        package: "util-linux".to_owned(),
    })?;
    Ok(Guest { qemu, started: Instant::now() })
}

fn wait(
    guest: &mut Guest,
    port: &mut Port,
    files: &Files<'_>,
    limit: Duration,
    watch: &mut Watch<'_>,
) -> Result<Ended, LabError> {
    let is_flood = |path| size(path) > MAX_SAID_BYTES;
    loop {
        let stopped = guest.qemu.try_wait().map_err(LabError::io(Path::new(QEMU)))?.is_some();
        if is_flood(files.frames) || is_flood(files.console) {
            return Ok(Ended::TooMuchSaid);
        }
        let now = guest.started.elapsed();
        port.follow(now)?;
        let goes_on = watch(port.steps.last()) && !is_interrupted();
        match () {
            () if port.is_done => return Ok(Ended::Done),
            () if !goes_on => return Ok(Ended::Interrupted),
            () if stopped => return Ok(Ended::Stopped),
            () if now > limit => return Ok(Ended::TimedOut),
            () if host::is_nearly_full(files.console) => return Ok(Ended::DiskFull),
            () => std::thread::sleep(POLL),
        }
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// No more than a guest may say; a file that is not there is empty.
fn read(path: &Path) -> Result<String, LabError> {
    let file = match std::fs::File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file.map_err(LabError::io(path))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_SAID_BYTES).read_to_end(&mut bytes).map_err(LabError::io(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
