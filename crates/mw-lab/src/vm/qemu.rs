//! One run of a machine, from the start of QEMU to its end.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::case::machine::{DiskFormat, GuestDisk, GuestMachine};
use crate::command::output_of;
use crate::error::LabError;
use crate::interrupt::is_interrupted;
use crate::vm::accel::Accel;
use crate::vm::arguments::{MachineFiles, qemu_arguments};
use crate::vm::frames::{self, GuestFrames};
use crate::vm::host;
use crate::vm::kernel_log::{self, Trouble};
use crate::vm::port::{GuestStep, Port};
use crate::workdir;

const QEMU: &str = "qemu-system-x86_64";
const POLL: Duration = Duration::from_millis(50);

/// The limit of each serial port.
const MAX_PORT_BYTES: u64 = 64 << 20;

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The guest reported that it was done.
    Done,
    /// The time limit was reached.
    TimedOut,
    /// The machine stopped by itself: a kernel panic, or QEMU failed.
    Stopped,
    /// The guest wrote more than [`MAX_PORT_BYTES`].
    OutputLimit,
    /// The guest's disks nearly filled the host's.
    DiskFull,
    /// The caller ended it.
    Interrupted,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct GuestRun {
    pub ended: RunEnd,
    pub frames: GuestFrames,
    /// The kernel's log and the output of the case.
    pub console: String,
    pub troubles: Vec<Trouble>,
    pub steps: Vec<GuestStep>,
    /// From power-on to the guest's first byte; `None`: there was none.
    pub boot: Option<Duration>,
    /// From power-on to the end.
    pub wall: Duration,
}

/// Called often with the guest's current step (`None`: it boots); returns whether to continue.
pub type ProgressFn<'a> = dyn FnMut(Option<&GuestStep>) -> bool + 'a;

/// Killed when dropped.
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
    machine: &GuestMachine,
    accel: Accel,
    kernel: &Path,
    initramfs: &[u8],
    progress: &mut ProgressFn<'_>,
) -> Result<GuestRun, LabError> {
    let dir = workdir::new()?;
    let image = dir.path().join("initramfs");
    std::fs::write(&image, initramfs).map_err(LabError::io(&image))?;
    let disks = make_disks(&machine.disks, dir.path())?;
    let (console, frames) = (dir.path().join("console"), dir.path().join("frames"));
    let files = MachineFiles {
        kernel,
        initramfs: &image,
        disks: &disks,
        console: &console,
        frames: &frames,
    };

    let commands = dir.path().join("commands");
    std::fs::write(&commands, machine.monitor_commands()).map_err(LabError::io(&commands))?;
    let arguments = qemu_arguments(machine, accel, &files);
    let mut guest = start(arguments, &commands, &dir.path().join("qemu"))?;
    let mut port = Port::new(&frames);
    let ended = wait(&mut guest, &mut port, &files, machine.time_limit, progress)?;
    let wall = guest.started.elapsed();
    drop(guest);

    let mut text = read(&console)?;
    text.push_str(&read(&dir.path().join("qemu"))?);
    let frames = match frames::parse(&read(&frames)?) {
        Err(_) if ended != RunEnd::Done => GuestFrames::default(),
        frames => frames?,
    };
    Ok(GuestRun {
        ended,
        frames,
        troubles: kernel_log::scan(&text),
        console: text,
        steps: port.steps,
        boot: port.boot,
        wall,
    })
}

/// `setpriv` has the kernel kill QEMU if the lab is killed; then it becomes QEMU. Its standard input is for its
/// monitor, if it has one.
fn start(arguments: Vec<String>, commands: &Path, said: &Path) -> Result<Guest, LabError> {
    output_of(Command::new(QEMU).arg("--version"), "qemu-system-x86")?;
    let said = std::fs::File::create(said).map_err(LabError::io(said))?;
    let commands = std::fs::File::open(commands).map_err(LabError::io(commands))?;
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", QEMU])
        .args(arguments)
        .stdin(commands)
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
    files: &MachineFiles<'_>,
    limit: Duration,
    progress: &mut ProgressFn<'_>,
) -> Result<RunEnd, LabError> {
    let is_flooded = |path| size(path) > MAX_PORT_BYTES;
    loop {
        let stopped = guest.qemu.try_wait().map_err(LabError::io(Path::new(QEMU)))?.is_some();
        if is_flooded(files.frames) || is_flooded(files.console) {
            return Ok(RunEnd::OutputLimit);
        }
        let now = guest.started.elapsed();
        port.follow(now)?;
        let goes_on = progress(port.steps.last()) && !is_interrupted();
        if port.is_done {
            return Ok(RunEnd::Done);
        } else if !goes_on {
            return Ok(RunEnd::Interrupted);
        } else if stopped {
            return Ok(RunEnd::Stopped);
        } else if now > limit {
            return Ok(RunEnd::TimedOut);
        } else if host::is_nearly_full(files.console) {
            return Ok(RunEnd::DiskFull);
        }
        std::thread::sleep(POLL);
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// At most [`MAX_PORT_BYTES`]; a missing file is empty.
fn read(path: &Path) -> Result<String, LabError> {
    let file = match std::fs::File::open(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file.map_err(LabError::io(path))?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_PORT_BYTES).read_to_end(&mut bytes).map_err(LabError::io(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Sparse images: they take as much room as the guest writes.
fn make_disks(disks: &[GuestDisk], dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut images = Vec::new();
    for (number, disk) in disks.iter().enumerate() {
        if let Some(image) = &disk.image {
            images.push(image.clone());
            continue;
        }
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
