//! Packages of a kernel and of busybox for its architecture, from Debian's suites, unpacked below the target directory.
//! Apt is run with lists of its own: the machine's configuration is left alone, its keys are used.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::workspace::{output, run, target_dir};

/// Suites in the order in which they are searched; the first that has a kernel of the series provides it.
const SUITES: &[&str] = &["sid", "forky", "trixie-backports", "trixie", "bookworm", "bullseye"];

/// Suites with updates in an archive of their own.
const SECURED: &[&str] = &["trixie", "bookworm", "bullseye"];

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Packages that hold a kernel's files: since Linux 7.0 the image's package is empty, and depends on the others.
const PARTS: &[&str] = &["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"];

/// A series and a flavour, such as `6.12-cloud-amd64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KernelName {
    series: String,
    flavour: String,
}

impl KernelName {
    pub(crate) fn parse(name: &str) -> anyhow::Result<Self> {
        let parts = name.split_once('-').filter(|(series, flavour)| {
            let numbers: Vec<&str> = series.split('.').collect();
            let is_series = numbers.len() == 2 && numbers.iter().all(|n| n.parse::<u16>().is_ok());
            let is_flavour = flavour.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            is_series && is_flavour && matches!(architecture(flavour), "amd64" | "arm64")
        });
        let (series, flavour) = parts.with_context(|| {
            format!("invalid kernel '{name}' (use for example 6.12-cloud-amd64, 6.12-rt-amd64, 7.3-arm64)")
        })?;
        Ok(Self { series: series.to_owned(), flavour: flavour.to_owned() })
    }

    /// As dpkg names it.
    pub(crate) fn architecture(&self) -> &str {
        architecture(&self.flavour)
    }

    pub(crate) fn flavour(&self) -> &str {
        &self.flavour
    }

    /// True if a word of the flavour is this one.
    pub(crate) fn has_flavour(&self, word: &str) -> bool {
        self.flavour.split('-').any(|part| part == word)
    }

    /// Numbers of the series, for sorting.
    pub(crate) fn numbers(&self) -> Vec<u16> {
        self.series.split('.').filter_map(|number| number.parse().ok()).collect()
    }
}

impl std::fmt::Display for KernelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.series, self.flavour)
    }
}

fn architecture(flavour: &str) -> &str {
    flavour.rsplit('-').next().unwrap_or(flavour)
}

/// An unpacked kernel, and a busybox to boot it with.
pub(crate) struct UnpackedKernel {
    pub(crate) image: PathBuf,
    pub(crate) modules: PathBuf,
    pub(crate) busybox: PathBuf,
}

/// Downloads the newest kernel of this name.
pub(crate) fn download(name: &KernelName) -> anyhow::Result<UnpackedKernel> {
    let work = std::path::absolute(target_dir())?.join("kernels");
    for suite in SUITES {
        let apt = AptSuite::new(&work, suite, name.architecture())?;
        if let Some(package) = apt.newest(name)? {
            println!("{package} of {suite}");
            let dir = work.join(name.to_string());
            return unpack(&apt, &tools(&work, name)?, &package, &dir);
        }
    }
    anyhow::bail!("no suite has a kernel {name} (searched: {})", SUITES.join(", "))
}

/// Apt for the suite that has busybox: backports do not, and that of bullseye encodes no base64.
fn tools(work: &Path, name: &KernelName) -> anyhow::Result<AptSuite> {
    AptSuite::new(work, "bookworm", name.architecture())
}

fn unpack(
    apt: &AptSuite,
    tools: &AptSuite,
    package: &str,
    dir: &Path,
) -> anyhow::Result<UnpackedKernel> {
    if dir.exists() {
        std::fs::remove_dir_all(dir)?;
    }
    let (debs, tree) = (dir.join("debs"), dir.join("tree"));
    std::fs::create_dir_all(&debs)?;
    let mut packages = apt.parts(package)?;
    packages.push(package.to_owned());
    download_to(&debs, apt, &packages)?;
    download_to(&debs, tools, &["busybox-static".to_owned()])?;
    for deb in debs.read_dir()? {
        run(Command::new("dpkg").arg("-x").arg(deb?.path()).arg(&tree))?;
    }
    let modules = ["usr/lib/modules", "lib/modules"].map(|folder| tree.join(folder));
    let modules = modules.iter().find_map(|folder| find(folder, |_| true));
    let modules = modules.with_context(|| {
        format!("{package} has no modules: its suite has lost the package with them")
    })?;
    let images = [tree.join("boot"), modules.clone()];
    let image = images.iter().find_map(|dir| find(dir, |file| file.starts_with("vmlinuz")));
    let busybox = ["usr/bin/busybox", "bin/busybox"].map(|file| tree.join(file));
    Ok(UnpackedKernel {
        image: image.with_context(|| format!("{package} has no image"))?,
        busybox: busybox.into_iter().find(|file| file.is_file()).context("no busybox")?,
        modules,
    })
}

fn download_to(dir: &Path, apt: &AptSuite, packages: &[String]) -> anyhow::Result<()> {
    run(apt.command("apt-get").args(["-qq", "download"]).args(packages).current_dir(dir))
}

/// A file or directory in `dir` whose name is `wanted`.
fn find(dir: &Path, wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let mut entries = dir.read_dir().ok()?.flatten();
    entries.find(|entry| wanted(&entry.file_name().to_string_lossy())).map(|entry| entry.path())
}

/// Apt for one suite and architecture.
struct AptSuite(Vec<String>);

impl AptSuite {
    fn new(work: &Path, suite: &str, architecture: &str) -> anyhow::Result<Self> {
        let dir = work.join(format!("apt/{suite}-{architecture}"));
        for folder in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(dir.join(folder))?;
        }
        let mut sources =
            format!("deb [signed-by={KEYS}] http://deb.debian.org/debian {suite} main\n");
        if SECURED.contains(&suite) {
            sources += &format!(
                "deb [signed-by={KEYS}] http://deb.debian.org/debian-security {suite}-security main\n"
            );
        }
        std::fs::write(dir.join("sources.list"), sources)?;
        std::fs::write(dir.join("status"), "")?;
        let path = |name: &str, file: &str| format!("{name}={}", dir.join(file).display());
        let apt = Self(vec![
            path("Dir::Etc::sourcelist", "sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            path("Dir::State::lists", "lists"),
            path("Dir::State::status", "status"),
            path("Dir::Cache", "cache"),
            "APT::Sandbox::User=root".to_owned(),
            format!("APT::Architecture={architecture}"),
            format!("APT::Architectures={architecture}"),
        ]);
        run(apt.command("apt-get").args(["-qq", "update"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.0.iter().flat_map(|option| ["-o", option.as_str()]));
        command
    }

    /// The package with the newest kernel of this name.
    fn newest(&self, name: &KernelName) -> anyhow::Result<Option<String>> {
        let names = output(self.command("apt-cache").args(["pkgnames", "linux-image-"]))?;
        let images = names.lines().filter(|package| is_image(package, name));
        Ok(images.max_by_key(|package| numbers(package)).map(str::to_owned))
    }

    /// The packages with files of a kernel's that its image depends on.
    fn parts(&self, package: &str) -> anyhow::Result<Vec<String>> {
        let depends = output(self.command("apt-cache").args(["depends", package]))?;
        let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let names = names.map(|name| name.trim_matches(['<', '>']));
        let is_part = |name: &&str| {
            PARTS.iter().any(|part| {
                name.strip_prefix(part)
                    .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
        };
        let available = output(self.command("apt-cache").args(["pkgnames", "linux-"]))?;
        let available: std::collections::BTreeSet<&str> = available.lines().collect();
        // A suite may have lost linux-base-RELEASE, which nothing here needs.
        let parts = names.filter(is_part).filter(|name| available.contains(name));
        Ok(parts.map(str::to_owned).collect())
    }
}

/// `linux-image-6.12.118+deb13-cloud-amd64` and `linux-image-6.1.0-56-cloud-amd64` are images; packages that are the
/// newest of their flavour (`linux-image-6.12-cloud-amd64`), unsigned or have debugging information are not.
fn is_image(package: &str, name: &KernelName) -> bool {
    let rest = package.strip_prefix("linux-image-").and_then(|rest| {
        let rest = rest.strip_prefix(name.series.as_str())?.strip_prefix('.')?;
        rest.strip_suffix(name.flavour.as_str())?.strip_suffix('-')
    });
    // What is left is numbers and Debian's mark, not another flavour.
    rest.is_some_and(|rest| {
        rest.split(['-', '.', '+', '~']).all(|part| {
            let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
            ["", "deb", "bpo"].contains(&word)
        })
    })
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_series_and_a_flavour() {
        let name = KernelName::parse("6.12-cloud-arm64").unwrap();
        assert_eq!((name.to_string().as_str(), name.architecture()), ("6.12-cloud-arm64", "arm64"));
        for wrong in ["6.12", "6-amd64", "6.12-riscv64", "6.12-../amd64", "x.y-amd64"] {
            assert!(KernelName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_image_is_of_the_flavour_itself() {
        let is_of =
            |name: &str, package: &str| is_image(package, &KernelName::parse(name).unwrap());
        assert!(is_of("6.12-amd64", "linux-image-6.12.118+deb13-amd64"));
        assert!(is_of("5.10-cloud-amd64", "linux-image-5.10.0-46-cloud-amd64"));
        assert!(is_of("6.1-amd64", "linux-image-6.1.0-0.deb11.52-amd64"));
        for other in
            ["6.12.118+deb13-cloud-amd64", "6.12-amd64", "6.12.118+deb13-amd64-dbg", "6.1.0-amd64"]
        {
            assert!(!is_of("6.12-amd64", &format!("linux-image-{other}")), "{other}");
        }
    }
}
