//! The initial file system of a guest: busybox, `memwright`, the case, the tools of `lab/guest`, and the
//! programs that the case names.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::case::Variant;
use crate::case::catalogue::guest_file;
use crate::command::{bytes_of, missing, output_of};
use crate::error::LabError;
use crate::vm::initramfs::Initramfs;
use crate::vm::kernel::GuestKernel;
use crate::workdir;

const BUSYBOX: &str = "/bin/busybox";
/// The search path for the programs that cases name.
const PROGRAM_DIRS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Task of a guest once it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestRole {
    /// Create the condition and capture it: `lab/guest/capture.sh`.
    Capture,
    /// Go through all phases, with `check`, `fix` and `undo`: `lab/guest/check.sh`.
    Check,
    /// Run the recorder while the condition is created: `lab/guest/watch.sh`.
    Watch,
    /// Let `make.sh` do everything: `lab/guest/play.sh`.
    Play,
}

/// The preload library; `memwright run` looks for it in ../lib/memwright.
const LIBRARY: &str = "libmemwright_preload.so";

/// Files that all guests share, built once.
#[derive(Debug)]
pub struct GuestBase {
    image: Initramfs,
    /// The guest's `memwright`.
    binary: PathBuf,
}

impl GuestBase {
    /// `binary` is the guest's `memwright`.
    pub fn new(binary: &Path) -> Result<GuestBase, LabError> {
        let mut image = Initramfs::new();
        if !Path::new(BUSYBOX).exists() {
            return Err(missing("busybox", "busybox-static"));
        }
        image.add_program("busybox", Path::new(BUSYBOX))?;
        image.add("init", 0o755, guest_file("init"));
        for role in [
            "lab/guest/capture.sh",
            "lab/guest/check.sh",
            "lab/guest/watch.sh",
            "lab/guest/play.sh",
        ] {
            image.add(role, 0o644, guest_file(role.trim_start_matches("lab/guest/")));
        }
        for tool in ["hold", "took"] {
            let source = guest_file(&format!("{tool}.c"));
            image.add(&format!("bin/{tool}"), 0o755, compile(source, true)?);
        }
        let memwright = stripped(binary)?;
        image.add_program("memwright", &memwright.path().join("stripped"))?;
        Ok(GuestBase { image, binary: binary.to_path_buf() })
    }
}

/// The initial file system for a run of a variant.
pub fn image(
    base: &GuestBase,
    variant: &Variant,
    kernel: &GuestKernel,
    role: GuestRole,
) -> Result<Vec<u8>, LabError> {
    let mut image = base.image.clone();
    for name in &variant.programs {
        image.add_program(name, &find_program(name)?)?;
    }
    let modules = add_modules(&mut image, kernel, variant)?;
    add_case_files(&mut image, &variant.dir, variant.preload)?;
    if variant.preload {
        add_library(&mut image, &base.binary)?;
    }
    image.add("lab/env", 0o644, environment(variant, &modules, role));
    image.to_bytes()
}

/// A guest that does nothing but report that it is up.
pub fn trial_image(base: &GuestBase) -> Result<Vec<u8>, LabError> {
    let mut image = base.image.clone();
    image.add(
        "init",
        0o755,
        *b"#!/bin/busybox sh
/bin/busybox mkdir -p /dev
/bin/busybox mount -t devtmpfs devtmpfs /dev
echo '@@memwright done' >/dev/ttyS1
/bin/busybox sleep 60
",
    );
    image.to_bytes()
}

/// The variables of the guest's scripts. Values from a case are validated when it is read: none can end
/// the quotes.
fn environment(variant: &Variant, modules: &[String], role: GuestRole) -> String {
    let expect = &variant.expect;
    let role = match role {
        GuestRole::Capture => "capture",
        GuestRole::Check => "check",
        GuestRole::Watch => "watch",
        GuestRole::Play => "play",
    };
    let watched = variant.watched.as_ref();
    let lines = [
        ("export CASE", variant.case.clone()),
        ("export VARIANT", variant.name.clone()),
        ("export CGROUP", variant.cgroup.name().to_owned()),
        ("export DISKS", variant.machine.disks.len().to_string()),
        ("SWAPS", variant.machine.swap_disks().join(" ")),
        ("MODULES", modules.join(" ")),
        ("ROLE", role.to_owned()),
        ("FIND", expect.found.join(" ")),
        ("FIX", expect.fix.join(" ")),
        ("STAYS", if expect.stays { "1" } else { "" }.to_owned()),
        ("LOOKS", expect.looks.to_string()),
        ("PROBES", watched.map(|watched| watched.probes.join("\n")).unwrap_or_default()),
        ("LIMIT", watched.map(|watched| watched.limit.clone()).unwrap_or_default()),
        ("SILENT", if watched.is_some_and(|watched| watched.silent) { "1" } else { "" }.to_owned()),
        ("MEASURED_ONLY", if expect.measured_only { "1" } else { "" }.to_owned()),
    ];
    lines.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect()
}

/// Adds the modules that the guest loads before the case begins; returns their file names.
fn add_modules(
    image: &mut Initramfs,
    kernel: &GuestKernel,
    variant: &Variant,
) -> Result<Vec<String>, LabError> {
    let mut names = variant.modules.clone();
    let needed = variant.machine.drivers().into_iter().filter(|name| kernel.has_module(name));
    names.extend(needed.map(str::to_owned));
    let mut files = Vec::new();
    for path in kernel.modules(&names)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        image.add(&format!("lab/modules/{file}"), 0o644, unpacked(&path)?);
        files.push(file);
    }
    Ok(files)
}

/// A module's contents, uncompressed: the guest's tools do not support every compression.
fn unpacked(path: &Path) -> Result<Vec<u8>, LabError> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => ("xz", "xz-utils"),
        Some("zst") => ("zstd", "zstd"),
        Some("gz") => ("gzip", "gzip"),
        _ => return std::fs::read(path).map_err(LabError::io(path)),
    };
    bytes_of(Command::new(program.0).arg("-dc").arg(path), program.1)
}

/// Everything in the case's directory but `case.toml`. A program in C is compiled to `/bin`, linked
/// dynamically where the preload library is to be loaded.
fn add_case_files(image: &mut Initramfs, dir: &Path, dynamic: bool) -> Result<(), LabError> {
    for entry in dir.read_dir().map_err(LabError::io(dir))? {
        let path = entry.map_err(LabError::io(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.strip_suffix(".c") {
            Some(program) => {
                let source = std::fs::read(&path).map_err(LabError::io(&path))?;
                image.add(&format!("bin/{program}"), 0o755, compile(&source, !dynamic)?);
            }
            None if name != "case.toml" && path.is_file() => {
                image.add_file(&format!("lab/{name}"), 0o755, &path)?;
            }
            None => {}
        }
    }
    Ok(())
}

/// The preload library, from beside the program or from where packages install it. Its own libraries are
/// those of the guest's `memwright`.
fn add_library(image: &mut Initramfs, binary: &Path) -> Result<(), LabError> {
    let dir = binary.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(LIBRARY), dir.join("../lib/memwright").join(LIBRARY)];
    let library = places.iter().find(|place| place.is_file());
    let library = library.ok_or_else(|| missing(LIBRARY, "memwright, whole"))?;
    let stripped = stripped(library)?;
    image.add_file(&format!("lib/memwright/{LIBRARY}"), 0o755, &stripped.path().join("stripped"))
}

/// A directory with the file `stripped`: debugging information would fill much of a small guest's memory.
fn stripped(file: &Path) -> Result<TempDir, LabError> {
    let dir = workdir::new()?;
    let stripped = dir.path().join("stripped");
    output_of(Command::new("strip").arg("-o").arg(&stripped).arg(file), "binutils")?;
    Ok(dir)
}

fn compile(source: &[u8], is_static: bool) -> Result<Vec<u8>, LabError> {
    let dir = workdir::new()?;
    let (text, program) = (dir.path().join("program.c"), dir.path().join("program"));
    std::fs::write(&text, source).map_err(LabError::io(&text))?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-Wall", "-Wextra", "-pthread", "-o"]).arg(&program).arg(&text);
    gcc.args(is_static.then_some("-static"));
    // A compiler that is killed leaves files.
    gcc.env("TMPDIR", dir.path());
    output_of(&mut gcc, "gcc libc6-dev")?;
    std::fs::read(&program).map_err(LabError::io(&program))
}

fn find_program(name: &str) -> Result<PathBuf, LabError> {
    let mut paths = PROGRAM_DIRS.iter().map(|dir| Path::new(dir).join(name));
    paths.find(|path| path.is_file()).ok_or_else(|| missing(name, "the package that has it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_scripts_see_what_the_case_says() {
        let text = "description = 'd'\n[machine]\nkernel = '6.1'\nmemory = '1G'\n\
                    disks = [{ size = '1G', format = 'swap' }]\n[variant.firing]\nhow = 'h'\n\
                    expect = { found = ['a', 'b'], fix = ['a'], stays = true, looks = 3 }";
        let case = crate::Case::parse(Path::new("/lab/some"), text).unwrap();
        let got = environment(&case.variants[0], &["nvme.ko".to_owned()], GuestRole::Check);
        let want = "export CASE='some'\nexport VARIANT='firing'\nexport CGROUP='v2'\n\
                    export DISKS='1'\nSWAPS='disk0'\nMODULES='nvme.ko'\nROLE='check'\n\
                    FIND='a b'\nFIX='a'\nSTAYS='1'\nLOOKS='3'\nPROBES=''\nLIMIT=''\nSILENT=''\nMEASURED_ONLY=''\n";
        assert_eq!(got, want);
    }
}
