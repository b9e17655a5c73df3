//! Debian's packages of kernels: those that this machine's apt knows, and newer ones from backports, for which apt is
//! run with lists of its own. The machine's configuration of apt and its lists are left alone; its keys are used.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::output_of;
use crate::error::LabError;
use crate::workdir;

/// Command line of apt that knows the packages of a series.
enum PackageOrigin {
    Machine,
    Backports,
}

/// The series that cases may name, oldest first.
const SERIES: &[(&str, PackageOrigin)] = &[
    ("6.1", PackageOrigin::Machine),
    ("6.12", PackageOrigin::Machine),
    ("6.18", PackageOrigin::Backports),
    ("7.3", PackageOrigin::Backports),
];

const BACKPORTS: &str = "deb http://deb.debian.org/debian trixie-backports main\n";

/// The packaged series, oldest first.
pub fn series() -> impl Iterator<Item = &'static str> {
    SERIES.iter().map(|(series, _)| *series)
}

/// Downloads the newest kernel of `series` and unpacks it in `cache`; returns the directory.
pub(super) fn download(cache: &Path, series: &str) -> Result<PathBuf, LabError> {
    let known = || self::series().collect::<Vec<_>>().join(", ");
    let (_, origin) = SERIES
        .iter()
        .find(|(s, _)| *s == series)
        .ok_or_else(|| LabError::KernelUnknown { wanted: series.to_owned(), known: known() })?;
    download_from(cache, series, origin).map_err(|error| LabError::KernelUnavailable {
        wanted: series.to_owned(),
        cache: cache.to_path_buf(),
        detail: error.to_string(),
    })
}

fn download_from(cache: &Path, series: &str, origin: &PackageOrigin) -> Result<PathBuf, LabError> {
    std::fs::create_dir_all(cache).map_err(LabError::io(cache))?;
    let work = workdir::new_in(cache)?;
    let (apt, advice) = match origin {
        PackageOrigin::Machine => (Apt(Vec::new()), "; run apt-get update"),
        PackageOrigin::Backports => (Apt::of_backports(&work.path().join("apt"))?, ""),
    };
    let image = newest(&apt.images()?, series).ok_or_else(|| LabError::Command {
        command: "apt-cache search linux-image".to_owned(),
        detail: format!("names no kernel {series}{advice}"),
    })?;
    // From Linux 7.1 the image's package is empty, and depends on those with the files.
    let mut packages = apt.kernels_needed_by(&image)?;
    packages.push(image.clone());
    let debs = work.path().join("debs");
    std::fs::create_dir_all(&debs).map_err(LabError::io(&debs))?;
    output_of(apt.run("apt-get").arg("download").args(&packages).current_dir(&debs), "apt")?;
    let target = cache.join(image.trim_start_matches("linux-image-"));
    unpack(&debs, &work.path().join("tree"), &target)?;
    Ok(target)
}

/// Apt with one configuration: its options, none for the machine's.
struct Apt(Vec<String>);

impl Apt {
    /// Apt that knows backports and nothing else; its files are in `dir`.
    fn of_backports(dir: &Path) -> Result<Apt, LabError> {
        let list = dir.join("sources.list");
        for folder in ["lists/partial", "cache/archives/partial"] {
            let folder = dir.join(folder);
            std::fs::create_dir_all(&folder).map_err(LabError::io(&folder))?;
        }
        std::fs::write(&list, BACKPORTS).map_err(LabError::io(&list))?;
        let option = |name: &str, value: &str| format!("{name}={value}");
        let path = |name: &str, file: &str| option(name, &dir.join(file).display().to_string());
        let apt = Apt(vec![
            path("Dir::Etc::sourcelist", "sources.list"),
            option("Dir::Etc::sourceparts", "/dev/null"),
            path("Dir::State::lists", "lists"),
            path("Dir::Cache", "cache"),
        ]);
        output_of(apt.run("apt-get").arg("update"), "apt")?;
        Ok(apt)
    }

    fn run(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.0.iter().flat_map(|option| ["-o", option.as_str()]));
        command
    }

    /// The packages with an image for virtual machines.
    fn images(&self) -> Result<Vec<String>, LabError> {
        let mut search = self.run("apt-cache");
        search.args(["search", "--names-only", "^linux-image-.*-cloud-amd64$"]);
        let found = output_of(&mut search, "apt")?;
        Ok(found.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
    }

    /// The packages of a kernel's files that `package` depends on.
    fn kernels_needed_by(&self, package: &str) -> Result<Vec<String>, LabError> {
        let depends = output_of(self.run("apt-cache").args(["depends", package]), "apt")?;
        let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        Ok(names.filter(|name| holds_kernel(name)).map(str::to_owned).collect())
    }
}

fn holds_kernel(package: &str) -> bool {
    let kinds = ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"];
    kinds.iter().any(|kind| package.starts_with(kind))
}

fn newest(packages: &[String], series: &str) -> Option<String> {
    let is_image = |package: &&String| {
        package.strip_prefix("linux-image-").is_some_and(|release| is_of(release, series))
    };
    packages.iter().filter(is_image).max_by_key(|package| numbers(package)).cloned()
}

/// Unpacks the packages in `debs` to `tree`, and moves it to `target` atomically.
fn unpack(debs: &Path, tree: &Path, target: &Path) -> Result<(), LabError> {
    for entry in debs.read_dir().map_err(LabError::io(debs))? {
        let deb = entry.map_err(LabError::io(debs))?.path();
        output_of(Command::new("dpkg").arg("-x").arg(deb).arg(tree), "dpkg")?;
    }
    if !target.exists() {
        std::fs::rename(tree, target).map_err(LabError::io(target))?;
    }
    Ok(())
}

/// True if a release such as `6.1.0-56-cloud-amd64` belongs to a series such as `6.1`.
pub(super) fn is_of(release: &str, series: &str) -> bool {
    release.strip_prefix(series).is_some_and(|rest| rest.starts_with(['.', '-']))
}

/// The numbers in a release, for sorting.
pub(super) fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_image_of_the_series_is_chosen() {
        let packages = [
            "linux-image-6.18.9+deb13-cloud-amd64",
            "linux-image-6.18.15+deb13-cloud-amd64",
            "linux-image-6.1.80-cloud-amd64",
        ]
        .map(str::to_owned);
        assert_eq!(newest(&packages, "6.18").as_ref(), Some(&packages[1]));
        assert_eq!(newest(&packages, "6.1").as_ref(), Some(&packages[2]));
        assert_eq!(newest(&packages, "6.8"), None);
    }

    #[test]
    fn the_packages_of_a_kernel_are_told_from_its_tools() {
        // linux-base-7.3.4 has the list of what is built in, linux-base has scripts.
        for part in ["image", "binary", "modules", "base"] {
            assert!(holds_kernel(&format!("linux-{part}-7.3.4+deb13-cloud-amd64")), "{part}");
        }
        assert!(!holds_kernel("linux-base") && !holds_kernel("initramfs-tools"));
    }
}
