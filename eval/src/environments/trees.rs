//! Environments of other kernels than Linux, and of Linux under Windows, as trees that are made up
//! after what those kernels have: `check --root`.

use super::answer::{Answer, Expected, Printed, Row};
use anyhow::Context;
use mw_collect::text_archive::TextArchive;
use std::fs;
use std::path::Path;
use std::process::Command;

/// gVisor's /proc as its source has it (pkg/sentry/fsimpl/proc): it says how much memory there is,
/// and counts nothing.
const GVISOR: &[(&str, &str)] = &[
    ("proc/version", "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"),
    ("proc/sys/kernel/osrelease", "4.4.0\n"),
    ("proc/uptime", "31.45 0.00\n"),
    ("proc/cmdline", "BOOT_IMAGE=/vmlinuz-4.4.0-gvisor quiet\n"),
    ("proc/mounts", "none / 9p rw 0 0\nnone /dev tmpfs rw 0 0\nnone /proc proc rw 0 0\n"),
    ("proc/self/mounts", "none / 9p rw 0 0\nnone /dev tmpfs rw 0 0\nnone /proc proc rw 0 0\n"),
    ("proc/self/cgroup", "3:memory:/\n2:cpu:/\n1:cpuacct:/\n"),
    (
        "proc/self/status",
        "Name:\tmemwright\nPid:\t7\nVmSize:\t    5000 kB\nCapEff:\t00000000a80425fb\n",
    ),
    ("proc/sys/kernel/shmall", "18446744073692774399\n"),
    ("proc/sys/kernel/shmmax", "18446744073692774399\n"),
    ("proc/sys/kernel/shmmni", "4096\n"),
    ("proc/sys/vm/max_map_count", "2147483647\n"),
    ("proc/sys/vm/overcommit_memory", "0\n"),
    ("proc/sysvipc/shm", SHM),
    (
        "proc/meminfo",
        "MemTotal:        2097152 kB\nMemFree:         2028548 kB\nMemAvailable:    2028548 kB\n\
         Buffers:               0 kB\nCached:            43452 kB\nSwapCached:            0 kB\n\
         Active:            24584 kB\nInactive:          22828 kB\nActive(anon):       3960 kB\n\
         Inactive(anon):        0 kB\nActive(file):      20624 kB\nInactive(file):    22828 kB\n\
         Unevictable:           0 kB\nMlocked:               0 kB\nSwapTotal:             0 kB\n\
         SwapFree:              0 kB\nDirty:                 0 kB\nWriteback:             0 kB\n\
         AnonPages:          3960 kB\nMapped:            22828 kB\nShmem:                 0 kB\n",
    ),
    ("sys/devices/system/cpu/online", "0-1\n"),
];

const SHM: &str = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  \
                   cuid  cgid      atime      dtime      ctime                   rss                  swap\n";

/// The first subsystem for Linux is no Linux: Windows answers the calls.
const WSL_1: &[(&str, &str)] = &[
    (
        "proc/version",
        "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0 (GCC) ) \
         #1237-Microsoft Sat Sep 11 14:32:00 PST 2021\n",
    ),
    ("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n"),
    ("proc/uptime", "8542.33 61234.10\n"),
    ("proc/cmdline", "BOOT_IMAGE=/kernel init=/init\n"),
    (
        "proc/mounts",
        "rootfs / lxfs rw,noatime 0 0\nnone /dev tmpfs rw 0 0\nproc /proc proc rw 0 0\n",
    ),
    (
        "proc/self/mounts",
        "rootfs / lxfs rw,noatime 0 0\nnone /dev tmpfs rw 0 0\nproc /proc proc rw 0 0\n",
    ),
    ("proc/sys/kernel/shmmax", "18446744073692774399\n"),
    (
        "proc/meminfo",
        "MemTotal:       16658132 kB\nMemFree:         8115832 kB\nHighTotal:             0 kB\n\
         HighFree:              0 kB\nLowTotal:       16658132 kB\nLowFree:         8115832 kB\n\
         SwapTotal:      23068672 kB\nSwapFree:       22906484 kB\n",
    ),
    ("sys/devices/system/cpu/online", "0-7\n"),
];

/// Difference of the second subsystem's kernel from the fixture that its tree is made from.
const WSL_2: &[(&str, &str)] = &[
    (
        "proc/version",
        "Linux version 6.6.87.2-microsoft-standard-WSL2 (root@439a258ad544) (gcc (GCC) 11.2.0) #1 SMP \
         PREEMPT_DYNAMIC\n",
    ),
    ("proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2\n"),
];

const WSL_2_BASE: &str = "healthy/debian-6.12";

pub(super) fn rows(binary: &Path, is_wanted: &dyn Fn(&str) -> bool) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, made, files) in [
        ("gVisor", "a tree made up after its source", GVISOR),
        ("WSL 1", "a tree made up after what it shows", WSL_1),
    ] {
        if is_wanted(name) {
            let dir = tempfile::tempdir()?;
            put(dir.path(), files)?;
            // No rule's answer is worth anything without it, and every Linux has it.
            let expected = Expected::NotChecked("/proc/vmstat");
            rows.push(row(binary, name, made, expected, dir.path())?);
        }
    }
    if is_wanted("WSL 2") {
        let dir = tempfile::tempdir()?;
        let base = TextArchive::load(&mw_test::fixture(WSL_2_BASE))?;
        for (path, contents) in base.tree.files() {
            put(dir.path(), &[(path, std::str::from_utf8(contents)?)])?;
        }
        put(dir.path(), WSL_2)?;
        let expected = Expected::checked(memory(dir.path())?);
        let made = format!("fixtures/{WSL_2_BASE}, with its kernel's name");
        rows.push(row(binary, "WSL 2", &made, expected, dir.path())?);
    }
    Ok(rows)
}

fn row(
    binary: &Path,
    name: &str,
    made: &str,
    expected: Expected,
    tree: &Path,
) -> anyhow::Result<Row> {
    let answer = Answer::ask(|format| {
        let mut check = Command::new(binary);
        let output = check
            .args(["check", "--format", format, "--root"])
            .arg(tree)
            .output()
            .context("check")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Printed { text, code: output.status.code().unwrap_or(-1) })
    });
    Ok(Row::new(name, made, expected, answer))
}

fn put(dir: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    for (path, text) in files {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// `MemTotal` of a tree, as `check` writes it.
fn memory(tree: &Path) -> anyhow::Result<String> {
    super::host::memory_of(&tree.join("proc/meminfo"))
}
