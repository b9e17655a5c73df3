//! Names of the functions of a kernel and of its modules.

use super::package::UnpackedKernel;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::workspace::{output, run};

/// Functions by the module that has them; those of the kernel's image are of [`IMAGE`].
pub(crate) type FunctionsByModule = BTreeMap<String, BTreeSet<String>>;

pub(crate) const IMAGE: &str = "vmlinux";

/// Modules with functions that the tables name, in those kernels in which they are modules.
const MODULES: &[&str] = &[
    "9pnet",
    "amdgpu",
    "bcache",
    "btrfs",
    "ceph",
    "cifs",
    "dlm",
    "dm-bufio",
    "dm-mod",
    "drm_gpusvm",
    "drm_gpusvm_helper",
    "ext4",
    "f2fs",
    "fuse",
    "gfs2",
    "jbd2",
    "libata",
    "libceph",
    "loop",
    "md-mod",
    "netfs",
    "nfs",
    "nfsv4",
    "nouveau",
    "nvme",
    "nvme-core",
    "ocfs2",
    "raid1",
    "raid10",
    "raid456",
    "scsi_mod",
    "sunrpc",
    "virtio_blk",
    "virtiofs",
    "vsock",
    "xe",
    "xfs",
    "zram",
];

/// Compares what a build adds to a name (`.isra.0`, `.constprop.0`, `.part.0`, `.cold`, `.llvm.1`): `None` for symbols
/// that are no functions of the source.
pub(crate) fn normalize(symbol: &str) -> Option<&str> {
    let name = symbol.split('.').next().unwrap_or(symbol);
    // Those of Rust begin with _R.
    let is_made =
        ["__pfx_", "__cfi_", "__SCT__", "__traceiter_", "__probestub_", "__bpf_trace_", "_R", "$"];
    (!name.is_empty() && !is_made.iter().any(|prefix| name.starts_with(prefix))).then_some(name)
}

/// All functions of a kernel; `image` are the symbols of its image, a line each.
pub(crate) fn of_kernel(kernel: &UnpackedKernel, image: &str) -> anyhow::Result<FunctionsByModule> {
    let of_image = image.lines().filter_map(normalize).map(str::to_owned).collect();
    let mut functions = BTreeMap::from([(IMAGE.to_owned(), of_image)]);
    let mut files = Vec::new();
    find_modules(&kernel.modules, MODULES, &mut files)?;
    for (module, file) in files {
        functions.insert(module, of_module(&file)?);
    }
    Ok(functions)
}

/// Finds the files of modules of these names.
pub(crate) fn find_modules(
    dir: &Path,
    names: &[&str],
    files: &mut Vec<(String, PathBuf)>,
) -> anyhow::Result<()> {
    for entry in dir.read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find_modules(&entry.path(), names, files)?;
        } else if let Some((module, _)) = name.split_once(".ko")
            && names.contains(&module)
        {
            files.push((module.to_owned(), entry.path()));
        }
    }
    Ok(())
}

fn of_module(file: &Path) -> anyhow::Result<BTreeSet<String>> {
    let dir = tempfile::tempdir()?;
    let plain = dir.path().join("module.ko");
    unpack_module(file, &plain)?;
    let symbols = output(Command::new("nm").arg(&plain))?;
    Ok(text_symbols(&symbols))
}

/// Writes a module's file, which a package compresses, to `plain`.
pub(crate) fn unpack_module(file: &Path, plain: &Path) -> anyhow::Result<()> {
    let unpacker = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz -dc",
        Some("zst") => "zstd -dc",
        Some("gz") => "gzip -dc",
        _ => "cat",
    };
    let unpack = format!("{unpacker} \"$1\" >\"$2\"");
    run(Command::new("sh").args(["-c", &unpack, "sh"]).arg(file).arg(plain))
}

/// Functions in the output of nm: `0000000000000010 t name`.
fn text_symbols(listed: &str) -> BTreeSet<String> {
    let names = listed.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().rev();
        let (name, kind) = (fields.next()?, fields.next()?);
        matches!(kind, "t" | "T" | "w" | "W").then(|| normalize(name)).flatten()
    });
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_adds_is_no_part_of_a_name() {
        assert_eq!(normalize("shrink_slab.constprop.0.isra.0"), Some("shrink_slab"));
        assert_eq!(normalize("do_wp_page.cold"), Some("do_wp_page"));
        assert_eq!(normalize("__pfx_do_wp_page"), None);
        assert_eq!(normalize("$x"), None);
    }

    #[test]
    fn functions_of_a_module_are_its_text_symbols() {
        let listed = "0000000000000010 t xfs_buf_lock\n                 U schedule\n\
                      0000000000000000 d table\n0000000000000020 T xfs_log_force.part.0\n";
        assert_eq!(
            text_symbols(listed).into_iter().collect::<Vec<_>>(),
            ["xfs_buf_lock", "xfs_log_force"]
        );
    }
}
