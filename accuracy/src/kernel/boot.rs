//! A short boot of a kernel in an emulated machine, which prints what tells kernels apart.

use super::package::{KernelName, UnpackedKernel};
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::workspace::{output, run};

/// Emulation takes half a minute to boot a large kernel on a busy machine, and the waits take minutes.
const LIMIT: Duration = Duration::from_secs(480);
/// An emulated CPU may execute an instruction that the kernel is just replacing, which breaks it at boot.
const TRIES: usize = 4;
const POLL: Duration = Duration::from_millis(200);

const INIT: &str = include_str!("init.sh");

/// Tracepoints that the program uses. A test of mw-profile compares.
const TRACEPOINTS: &[&str] = &[
    "compaction/mm_compaction_begin",
    "compaction/mm_compaction_end",
    "compaction/mm_compaction_try_to_compact_pages",
    "filemap/mm_filemap_add_to_page_cache",
    "oom/mark_victim",
    "sched/sched_switch",
    "sched/sched_wakeup_new",
    "sched/sched_waking",
    "vmscan/mm_vmscan_direct_reclaim_begin",
    "vmscan/mm_vmscan_direct_reclaim_end",
    "vmscan/mm_vmscan_memcg_reclaim_begin",
    "vmscan/mm_vmscan_memcg_reclaim_end",
    "vmscan/mm_vmscan_node_reclaim_begin",
    "vmscan/mm_vmscan_node_reclaim_end",
    "vmscan/mm_vmscan_throttled",
    "writeback/balance_dirty_pages",
];

/// The emulated machine of an architecture.
struct Emulator {
    program: &'static str,
    package: &'static str,
    arguments: &'static [&'static str],
    /// Of the kernel's messages.
    console: &'static str,
    /// Of the frames.
    port: &'static str,
}

fn emulator(name: &KernelName) -> Emulator {
    match name.architecture() {
        "arm64" => Emulator {
            program: "qemu-system-aarch64",
            package: "qemu-system-arm",
            arguments: &["-M", "virt", "-cpu", "cortex-a72"],
            console: "ttyAMA0",
            port: "ttyAMA0",
        },
        // Features that slow emulation down are off.
        _ => Emulator {
            program: "qemu-system-x86_64",
            package: "qemu-system-x86",
            arguments: &["-cpu", "max,la57=off,erms=off,fsrm=off"],
            console: "ttyS0",
            port: "ttyS1",
        },
    }
}

/// Ended when dropped.
struct EmulatorProcess(Child);

impl Drop for EmulatorProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Texts that the guest printed, by name: its files, and the names of the kernel's functions.
pub(crate) fn texts(
    name: &KernelName,
    kernel: &UnpackedKernel,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut result = boot(name, kernel);
    for _ in 1..TRIES {
        if result.is_ok() {
            break;
        }
        result = boot(name, kernel);
    }
    result
}

fn boot(name: &KernelName, kernel: &UnpackedKernel) -> anyhow::Result<BTreeMap<String, String>> {
    let dir = tempfile::tempdir()?;
    let initramfs = pack(dir.path(), name.architecture(), kernel)?;
    let machine = emulator(name);
    let files = ["console", "frames"].map(|file| dir.path().join(file));
    let ports = if machine.console == machine.port { &files[1..] } else { &files[..] };
    let parameters = format!(
        "console={} port={} rdinit=/init panic=-1 quiet loglevel=1 nosoftlockup noirqdebug psi=1",
        machine.console, machine.port
    );
    let child = Command::new(machine.program)
        .args(machine.arguments)
        .args(["-accel", "tcg", "-m", "768M", "-smp", "2", "-nodefaults", "-no-reboot"])
        .args(["-display", "none", "-append", &parameters])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(initramfs)
        .args(
            ports
                .iter()
                .flat_map(|file| ["-serial".to_owned(), format!("file:{}", file.display())]),
        )
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("{} (apt install {})", machine.program, machine.package))?;
    let mut guest = EmulatorProcess(child);
    let started = Instant::now();
    while guest.0.try_wait()?.is_none() && started.elapsed() < LIMIT {
        std::thread::sleep(POLL);
    }
    drop(guest);
    let text = |file: &Path| {
        String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
    };
    let texts = unpack(&text(&files[1]), dir.path())?;
    let console = text(&files[0]);
    let lines: Vec<&str> = console.lines().collect();
    let tail = lines[lines.len().saturating_sub(15)..].join("\n");
    anyhow::ensure!(texts.contains_key("end"), "the guest did not finish:\n{tail}");
    Ok(texts)
}

/// The guest's file system: busybox, a script, and the program that waits with what it needs.
fn pack(dir: &Path, architecture: &str, kernel: &UnpackedKernel) -> anyhow::Result<PathBuf> {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("bin"))?;
    std::fs::copy(&kernel.busybox, root.join("bin/busybox"))?;
    super::guest_waits::add(architecture, kernel, &root)?;
    let init = INIT.replace("@TRACEPOINTS@", &TRACEPOINTS.join(" "));
    std::fs::write(root.join("init"), init)?;
    run(Command::new("chmod").args(["755", "init"]).current_dir(&root))?;
    let archive = dir.join("initramfs");
    let pack = "find . | cpio --quiet -o -H newc >\"$1\"";
    run(Command::new("sh").args(["-c", pack, "sh"]).arg(&archive).current_dir(&root))?;
    Ok(archive)
}

/// The frames `@@begin NAME`, lines in base64, `@@end`.
fn unpack(printed: &str, dir: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    let mut rest = printed;
    while let Some((_, after)) = rest.split_once("@@begin ") {
        let Some((frame, after)) = after.split_once("@@end") else { break };
        rest = after;
        let (name, lines) = frame.split_once('\n').context("a frame without a name")?;
        let file = dir.join("frame");
        std::fs::write(&file, lines.replace('\r', ""))?;
        let text =
            output(Command::new("sh").args(["-c", "base64 -di \"$1\" | gzip -dc", "sh"]).arg(file))
                .with_context(|| format!("frame {name}"))?;
        texts.insert(name.trim().to_owned(), text);
    }
    Ok(texts)
}
