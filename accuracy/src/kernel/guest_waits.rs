//! The program that makes processes wait (lab/waits), and what it needs in a guest: modules, and a file system.

use super::package::UnpackedKernel;
use super::symbols::{find_modules, unpack_module};
use anyhow::Context;
use std::path::Path;
use std::process::Command;
use xtask::workspace::{root, run};

const SOURCES: &str = "lab/waits";

/// Modules of a file system, a device that can be suspended, and FUSE, with what they need, where they are modules.
const MODULES: &[&str] = &[
    "crc16",
    "crc32c_generic",
    "crc32c-cryptoapi",
    "dax",
    "dm-mod",
    "ext4",
    "fuse",
    "jbd2",
    "libcrc32c",
    "loop",
    "mbcache",
];

/// The smallest size in which ext4 has room for a journal and the files.
const DISK_BYTES: u64 = 24 << 20;

/// Adds all of it to a guest of this machine's architecture.
pub(crate) fn add(architecture: &str, kernel: &UnpackedKernel, guest: &Path) -> anyhow::Result<()> {
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    if architecture != own {
        return Ok(());
    }
    compile(&guest.join("bin/waits"))?;
    make_disk(&guest.join("disk"))?;
    let modules = guest.join("modules");
    std::fs::create_dir_all(&modules)?;
    let mut files = Vec::new();
    find_modules(&kernel.modules, MODULES, &mut files)?;
    for (name, file) in files {
        unpack_module(&file, &modules.join(format!("{name}.ko")))?;
    }
    Ok(())
}

fn compile(program: &Path) -> anyhow::Result<()> {
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-pthread", "-static", "-o"]).arg(program);
    for entry in root().join(SOURCES).read_dir().context(SOURCES)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "c") {
            gcc.arg(file);
        }
    }
    run(&mut gcc)
}

/// Makes a file system with the features that the oldest kernel has.
fn make_disk(file: &Path) -> anyhow::Result<()> {
    std::fs::File::create(file)?.set_len(DISK_BYTES)?;
    let options = ["-q", "-t", "ext4", "-b", "4096", "-J", "size=4"];
    let features = ["-O", "^orphan_file,^metadata_csum", "-E", "lazy_itable_init=0"];
    run(Command::new("/usr/sbin/mke2fs").args(options).args(features).arg(file))
        .context("mke2fs (apt install e2fsprogs)")
}
