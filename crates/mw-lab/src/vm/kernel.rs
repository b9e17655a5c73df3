//! The kernels of guests: unpacked from the distribution's packages into a cache, never installed.
//!
//! The cache is `$MEMWRIGHT_KERNELS`, or `$XDG_CACHE_HOME/memwright/kernels`, or
//! `~/.cache/memwright/kernels`; with a directory for each package. A cached kernel needs no network.
//! A user's own kernel is used in place.

mod package;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::vm::vmlinuz;

pub use package::series;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestKernel {
    pub image: PathBuf,
    /// As in `uname -r`.
    pub release: String,
    pub modules: PathBuf,
}

impl GuestKernel {
    /// The newest kernel of `series` (such as `6.12`) in the cache; downloaded if there is none.
    pub fn get(series: &str) -> Result<GuestKernel, LabError> {
        let cache = cache_dir();
        match GuestKernel::cached(&cache, series)? {
            Some(kernel) => Ok(kernel),
            None => GuestKernel::from_package(&package::download(&cache, series)?),
        }
    }

    /// `wanted` is a series, or the path of an image.
    pub fn find(wanted: &str) -> Result<GuestKernel, LabError> {
        if wanted.contains('/') {
            GuestKernel::from_image(Path::new(wanted))
        } else {
            GuestKernel::get(wanted)
        }
    }

    /// The modules are beside the image, as in an unpacked package (boot/vmlinuz-RELEASE, or vmlinuz in the directory of
    /// the modules), or those installed on this machine.
    pub fn from_image(image: &Path) -> Result<GuestKernel, LabError> {
        let mut head = Vec::new();
        let file = File::open(image).map_err(LabError::io(image))?;
        file.take(vmlinuz::HEAD_BYTES).read_to_end(&mut head).map_err(LabError::io(image))?;
        let release = vmlinuz::release(&head)
            .ok_or_else(|| LabError::NoKernel { path: image.to_path_buf() })?;
        let here = image.parent().filter(|folder| folder.ends_with(&release));
        let root = image.ancestors().nth(2);
        let of_root = |root| module_folders(root).map(|folder| folder.join(&release));
        let beside = here.map(Path::to_path_buf).into_iter();
        let mut folders = beside.chain(root.into_iter().flat_map(of_root));
        let modules = folders.find(|modules| modules.is_dir());
        let modules = modules.unwrap_or_else(|| Path::new("/lib/modules").join(&release));
        Ok(GuestKernel { image: image.to_path_buf(), release, modules })
    }

    /// The newest kernel of `series` in `cache`.
    pub fn cached(cache: &Path, series: &str) -> Result<Option<GuestKernel>, LabError> {
        if !cache.is_dir() {
            return Ok(None);
        }
        let mut names = Vec::new();
        for entry in cache.read_dir().map_err(LabError::io(cache))? {
            let name = entry.map_err(LabError::io(cache))?.file_name();
            let name = name.to_string_lossy().into_owned();
            if package::is_of(&name, series) {
                names.push(name);
            }
        }
        names.sort_by_key(|name| package::numbers(name));
        names.last().map(|name| GuestKernel::from_package(&cache.join(name))).transpose()
    }

    /// The kernel of the packages that are unpacked in `dir`. The image is in `boot`, or since Linux 7.1 beside the
    /// modules.
    pub fn from_package(dir: &Path) -> Result<GuestKernel, LabError> {
        let modules = module_folders(dir)
            .into_iter()
            .flat_map(|folder| folder.read_dir())
            .flatten()
            .flatten();
        let mut kernels = modules.filter_map(|entry| {
            let release = entry.file_name().to_str()?.to_owned();
            let modules = entry.path();
            let images = [dir.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")];
            let image = images.into_iter().find(|image| image.is_file())?;
            Some(GuestKernel { image, release, modules })
        });
        kernels.next().ok_or_else(|| LabError::KernelBroken { path: dir.to_path_buf() })
    }

    /// The files of the modules `names` and of their dependencies, in the order of loading. Built-in
    /// modules have none.
    pub fn modules(&self, names: &[String]) -> Result<Vec<PathBuf>, LabError> {
        let mut files = Vec::new();
        for name in names.iter().filter(|name| !self.has_built_in(name)) {
            let chain = self.chain(name).or_else(|| Some(vec![find_module(&self.modules, name)?]));
            let chain = chain.ok_or_else(|| LabError::ModuleMissing {
                kernel: self.release.clone(),
                module: name.clone(),
                folder: self.modules.clone(),
            })?;
            files.extend(chain);
        }
        let mut seen = std::collections::BTreeSet::new();
        files.retain(|file| seen.insert(file.clone()));
        Ok(files)
    }

    /// True if the module is a file, not built in.
    pub fn has_module(&self, name: &str) -> bool {
        !self.has_built_in(name) && find_module(&self.modules, name).is_some()
    }

    fn has_built_in(&self, name: &str) -> bool {
        let list = self.text("modules.builtin");
        list.lines().any(|line| is_module(line.rsplit('/').next().unwrap_or(line), name))
    }

    /// A module after its dependencies, if `modules.dep` has it.
    fn chain(&self, name: &str) -> Option<Vec<PathBuf>> {
        let list = self.text("modules.dep");
        let (module, needs) = list.lines().find_map(|line| {
            let (module, needs) = line.split_once(':')?;
            is_module(module.rsplit('/').next()?, name).then_some((module, needs))
        })?;
        let files = needs.split_whitespace().rev().chain([module]);
        Some(files.map(|file| self.modules.join(file)).collect())
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.modules.join(name)).unwrap_or_default()
    }
}

/// The cache of unpacked kernels.
pub fn cache_dir() -> PathBuf {
    let from = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("MEMWRIGHT_KERNELS").unwrap_or_else(|| {
        from("XDG_CACHE_HOME")
            .or_else(|| from("HOME").map(|home| home.join(".cache")))
            .unwrap_or_else(std::env::temp_dir)
            .join("memwright/kernels")
    })
}

/// True if `file` is the module `name`, compressed or not.
fn is_module(file: &str, name: &str) -> bool {
    let rest = file.replace('-', "_");
    let rest = rest.strip_prefix(&name.replace('-', "_"));
    rest.is_some_and(|rest| matches!(rest, ".ko" | ".ko.xz" | ".ko.zst" | ".ko.gz"))
}

fn find_module(dir: &Path, name: &str) -> Option<PathBuf> {
    for entry in dir.read_dir().ok()?.flatten() {
        let path = entry.path();
        let file = entry.file_name().to_string_lossy().into_owned();
        if is_module(&file, name) {
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

/// Directory of modules in packages, below their root.
fn module_folders(root: &Path) -> [PathBuf; 2] {
    ["lib/modules", "usr/lib/modules"].map(|folder| root.join(folder))
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
        let of = |series| GuestKernel::cached(cache.path(), series).unwrap().map(|k| k.release);
        assert_eq!(of("6.1").as_deref(), Some("6.1.0-56-cloud-amd64"));
        assert_eq!(of("6.12").as_deref(), Some("6.12.117+deb12-cloud-amd64"));
        assert_eq!(of("6.9"), None);
    }

    #[test]
    fn modules_are_found_by_name() {
        let cache = tempfile::tempdir().unwrap();
        package(cache.path(), "6.1.0");
        let kernel = GuestKernel::cached(cache.path(), "6.1").unwrap().unwrap();
        let of = |name: &str| kernel.modules(&[name.to_owned()]);
        assert!(of("virtio-blk").unwrap()[0].ends_with("block/virtio_blk.ko.xz"));
        assert!(kernel.has_module("virtio_blk") && !kernel.has_module("virtio"));
        let error = of("virtio").unwrap_err().to_string();
        assert!(error.starts_with("kernel 6.1.0 has no module virtio"), "{error}");
    }

    #[test]
    fn modules_are_found_beside_an_image() {
        let head = vmlinuz::tests::head(b"HdrS", 0x100, b"7.3.0 x\0");
        for (image, modules) in [
            ("boot/vmlinuz-7.3.0", "lib/modules/7.3.0"),
            ("boot/vmlinuz-7.3.0", "usr/lib/modules/7.3.0"),
            ("usr/lib/modules/7.3.0/vmlinuz", "usr/lib/modules/7.3.0"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let (image, modules) = (root.path().join(image), root.path().join(modules));
            std::fs::create_dir_all(image.parent().unwrap()).unwrap();
            std::fs::create_dir_all(&modules).unwrap();
            std::fs::write(&image, &head).unwrap();
            assert_eq!(GuestKernel::from_image(&image).unwrap().modules, modules);
        }
    }

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let cache = tempfile::tempdir().unwrap();
        package(cache.path(), "6.1.0");
        let kernel = GuestKernel::cached(cache.path(), "6.1").unwrap().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(kernel.modules.join(name), text).unwrap();
        };
        write("modules.builtin", "kernel/fs/ext4/ext4.ko\n");
        write("modules.dep", "k/nvme.ko.xz: k/nvme-core.ko.xz k/crc.ko\nk/crc.ko:\n");
        let names = ["ext4", "crc", "nvme"].map(str::to_owned);
        let files = kernel.modules(&names).unwrap();
        let names: Vec<_> = files.iter().filter_map(|f| f.file_name()?.to_str()).collect();
        assert_eq!(names, ["crc.ko", "nvme-core.ko.xz", "nvme.ko.xz"]);
    }

    #[test]
    fn what_is_no_kernel_is_said_to_be_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("vmlinuz");
        std::fs::write(&file, "text").unwrap();
        let error = GuestKernel::find(file.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("is not an x86 kernel image"), "{error}");
        let error = GuestKernel::find("/nowhere/vmlinuz").unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/vmlinuz: No such file"), "{error}");
    }

    #[test]
    fn a_broken_package_says_what_to_do() {
        let cache = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(cache.path().join("6.1.0/boot")).unwrap();
        let error = GuestKernel::cached(cache.path(), "6.1").unwrap_err().to_string();
        assert!(error.ends_with("remove it to download it again"), "{error}");
    }
}
