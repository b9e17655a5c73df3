//! The kernels that guests run: taken from the distribution's packages, unpacked into a cache, never
//! installed.
//!
//! The cache is `$MEMWRIGHT_KERNELS`, or `$XDG_CACHE_HOME/memwright/kernels`, or
//! `~/.cache/memwright/kernels`; in it each package has a folder of its own. A kernel that is in the
//! cache is used without asking the network.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LabError;
use crate::guest::output_of;
use crate::workdir;

/// The series that cases may name, and the package that depends on the newest kernel of each.
const SERIES: &[(&str, &str)] =
    &[("6.1", "linux-image-cloud-amd64"), ("6.12", "linux-image-6.12-cloud-amd64")];

/// A kernel that can be booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The kernel's image.
    pub image: PathBuf,
    /// What `uname -r` says under it.
    pub release: String,
    /// `lib/modules/RELEASE` of its package.
    pub modules: PathBuf,
}

impl Kernel {
    /// The newest kernel of `series` (such as `6.12`) in the cache; it is downloaded when there is
    /// none.
    pub fn get(series: &str) -> Result<Kernel, LabError> {
        let cache = cache_dir();
        match Kernel::cached(&cache, series)? {
            Some(kernel) => Ok(kernel),
            None => download(&cache, series),
        }
    }

    /// The newest kernel of `series` that is in `cache`.
    pub fn cached(cache: &Path, series: &str) -> Result<Option<Kernel>, LabError> {
        if !cache.is_dir() {
            return Ok(None);
        }
        let mut names = Vec::new();
        for entry in cache.read_dir().map_err(LabError::io(cache))? {
            let name = entry.map_err(LabError::io(cache))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if is_of(&name, series) {
                names.push(name);
            }
        }
        names.sort_by_key(|name| numbers(name));
        names.last().map(|name| Kernel::unpacked(&cache.join(name))).transpose()
    }

    /// The kernel in the unpacked package `dir`.
    pub fn unpacked(dir: &Path) -> Result<Kernel, LabError> {
        let boot = dir.join("boot");
        let broken = || LabError::KernelBroken { path: dir.to_path_buf() };
        for entry in boot.read_dir().map_err(|_| broken())? {
            let entry = entry.map_err(LabError::io(&boot))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(release) = name.strip_prefix("vmlinuz-") {
                return Ok(Kernel {
                    image: entry.path(),
                    release: release.to_owned(),
                    modules: dir.join("lib/modules").join(release),
                });
            }
        }
        Err(broken())
    }

    /// The file of the module `name`, which may be compressed.
    pub fn module(&self, name: &str) -> Result<PathBuf, LabError> {
        find_module(&self.modules, name).ok_or_else(|| LabError::ModuleMissing {
            kernel: self.release.clone(),
            module: name.to_owned(),
        })
    }
}

/// Where unpacked kernels are kept.
pub fn cache_dir() -> PathBuf {
    let from = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("MEMWRIGHT_KERNELS").unwrap_or_else(|| {
        from("XDG_CACHE_HOME")
            .or_else(|| from("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(std::env::temp_dir)
            .join("memwright/kernels")
    })
}

fn download(cache: &Path, series: &str) -> Result<Kernel, LabError> {
    let known = || SERIES.iter().map(|(s, _)| *s).collect::<Vec<_>>().join(", ");
    let (_, meta) = SERIES
        .iter()
        .find(|(s, _)| *s == series)
        .ok_or_else(|| LabError::KernelUnknown { wanted: series.to_owned(), known: known() })?;
    let depends = output_of(Command::new("apt-cache").args(["depends", meta]), "apt")?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|package| package.strip_prefix("linux-image-").is_some_and(|p| is_of(p, series)))
        .ok_or_else(|| LabError::Command {
            command: format!("apt-cache depends {meta}"),
            detail: format!(
                "names no kernel {series}; run apt-get update, or put one into {}",
                cache.display()
            ),
        })?;
    std::fs::create_dir_all(cache).map_err(LabError::io(cache))?;
    let work = workdir::new_in(cache)?;
    output_of(Command::new("apt-get").args(["download", package]).current_dir(work.path()), "apt")?;
    unpack(work.path(), cache, package.trim_start_matches("linux-image-"))
}

/// Unpacks the one package file in `work` to `cache/name`, in one step as others see it.
fn unpack(work: &Path, cache: &Path, name: &str) -> Result<Kernel, LabError> {
    let tree = work.join("tree");
    for entry in work.read_dir().map_err(LabError::io(work))? {
        let deb = entry.map_err(LabError::io(work))?.path();
        output_of(Command::new("dpkg").arg("-x").arg(deb).arg(&tree), "dpkg")?;
    }
    let target = cache.join(name);
    if !target.exists() {
        std::fs::rename(&tree, &target).map_err(LabError::io(&target))?;
    }
    Kernel::unpacked(&target)
}

/// Whether a release such as `6.1.0-56-cloud-amd64` belongs to a series such as `6.1`.
fn is_of(release: &str, series: &str) -> bool {
    release.strip_prefix(series).is_some_and(|rest| rest.starts_with(['.', '-']))
}

/// The numbers in a release, so that releases sort as people read them.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

fn find_module(dir: &Path, name: &str) -> Option<PathBuf> {
    for entry in dir.read_dir().ok()?.flatten() {
        let path = entry.path();
        let file = entry.file_name().to_string_lossy().into_owned();
        let is_it = file.strip_prefix(name).is_some_and(|rest| matches!(rest, ".ko" | ".ko.xz"));
        if is_it {
            return Some(path);
        }
        if path.is_dir()
            && !path.is_symlink()
            && let Some(found) = find_module(&path, name)
        {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(cache: &Path, release: &str) {
        let dir = cache.join(release);
        std::fs::create_dir_all(dir.join("boot")).unwrap();
        std::fs::write(dir.join(format!("boot/vmlinuz-{release}")), "").unwrap();
        let modules = dir.join(format!("lib/modules/{release}/kernel/drivers/block"));
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(modules.join("virtio_blk.ko.xz"), "").unwrap();
    }

    #[test]
    fn the_newest_kernel_of_a_series_is_found() {
        let cache = tempfile::tempdir().unwrap();
        for release in ["6.1.0-9-cloud-amd64", "6.1.0-56-cloud-amd64", "6.12.117+deb12-cloud-amd64"]
        {
            package(cache.path(), release);
        }
        let of = |series| Kernel::cached(cache.path(), series).unwrap().map(|k| k.release);
        assert_eq!(of("6.1").as_deref(), Some("6.1.0-56-cloud-amd64"));
        assert_eq!(of("6.12").as_deref(), Some("6.12.117+deb12-cloud-amd64"));
        assert_eq!(of("6.9"), None);
    }

    #[test]
    fn modules_are_found_by_name() {
        let cache = tempfile::tempdir().unwrap();
        package(cache.path(), "6.1.0");
        let kernel = Kernel::cached(cache.path(), "6.1").unwrap().unwrap();
        assert!(kernel.module("virtio_blk").unwrap().ends_with("block/virtio_blk.ko.xz"));
        let error = kernel.module("virtio").unwrap_err().to_string();
        assert_eq!(error, "kernel 6.1.0 has no module virtio.ko");
    }

    #[test]
    fn a_broken_package_says_what_to_do() {
        let cache = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(cache.path().join("6.1.0/boot")).unwrap();
        let error = Kernel::cached(cache.path(), "6.1").unwrap_err().to_string();
        assert!(error.ends_with("remove it, so that it is downloaded again"), "{error}");
    }
}
