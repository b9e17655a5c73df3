//! Debian packages: installed for the tests, or unpacked beside the system for what is only compared.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest wait for another apt-get, in seconds.
const LOCK_WAIT: &str = "DPkg::Lock::Timeout=300";

/// Those of the packages whose file is not there.
pub fn missing<'p>(packages: &[(&'p str, &str)]) -> Vec<&'p str> {
    let missing = packages.iter().filter(|(_, file)| !Path::new(file).exists());
    missing.map(|(package, _)| *package).collect()
}

/// Installs packages whose file is not there, or says exactly what to install.
pub fn install(packages: &[(&str, &str)]) -> anyhow::Result<()> {
    let missing = missing(packages);
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "the tests need packages that are not installed; run: sudo apt-get install {list}"
    );
    println!("== installing {list}");
    let by_hand = || format!("install by hand: {list}");
    apt(&["update"]).with_context(by_hand)?;
    apt(&[&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat())
        .with_context(by_hand)
}

/// The tree that packages are in, unpacked with the packages that they need and that are not
/// installed: nothing is configured, no service is started. It is made once, in `cache`.
pub fn unpacked(packages: &[&str], cache: &Path) -> anyhow::Result<PathBuf> {
    let tree = cache.join("tree");
    if tree.exists() {
        return Ok(tree);
    }
    println!("== downloading {}", packages.join(" "));
    std::fs::create_dir_all(cache).with_context(|| cache.display().to_string())?;
    let work = tempfile::tempdir_in(cache)?;
    let archives = work.path().join("archives");
    std::fs::create_dir_all(archives.join("partial"))?;
    let into = format!("Dir::Cache::archives={}", archives.display());
    apt(&["update"])?;
    let download = ["-y", "-o", &into, "-o", "APT::Sandbox::User=root", "install"];
    let options = ["--download-only", "--reinstall", "--no-install-recommends"];
    apt(&[&download[..], &options, packages].concat())?;
    let half = work.path().join("tree");
    for entry in archives.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            unpack(&path, &half)?;
        }
    }
    std::fs::rename(&half, &tree).with_context(|| tree.display().to_string())?;
    Ok(tree)
}

fn unpack(deb: &Path, tree: &Path) -> anyhow::Result<()> {
    let status = Command::new("dpkg").arg("-x").arg(deb).arg(tree).status().context("dpkg")?;
    anyhow::ensure!(status.success(), "dpkg -x {} failed", deb.display());
    Ok(())
}

/// The version of the source that an installed package was built from.
pub fn installed_source_version(package: &str) -> anyhow::Result<Option<String>> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status} ${source:Version}", package])
        .stderr(Stdio::null())
        .output()
        .context("dpkg-query")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.strip_prefix("installed ").map(str::to_owned))
}

/// Unpacks directories of a package's source, as its authors published it, from the distribution's own
/// servers, whether or not the machine is set up for sources.
pub fn source(package: &str, version: &str, folders: &[&str], into: &Path) -> anyhow::Result<()> {
    println!("== downloading the source of {package} {version}");
    let work = tempfile::tempdir()?;
    let at = |name: &str| work.path().join(name);
    let format = "deb-src $(SITE) $(CODENAME) $(COMPONENT)";
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", format, "Created-By: Packages", "Origin: Debian"])
        .output()
        .context("apt-get indextargets")?;
    std::fs::write(at("sources.list"), &output.stdout)?;
    std::fs::create_dir_all(at("lists/partial"))?;
    let list = format!("Dir::Etc::sourcelist={}", at("sources.list").display());
    let lists = format!("Dir::State::lists={}", at("lists").display());
    let private = ["-o", &list, "-o", "Dir::Etc::sourceparts=-", "-o", &lists];
    apt_in(work.path(), &[&private[..], &["update"]].concat())?;
    let exact = format!("{package}={version}");
    let get = ["source", "--tar-only", "--download-only", &exact];
    apt_in(work.path(), &[&private[..], &["-o", "APT::Sandbox::User=root"], &get].concat())?;
    let is_archive = |path: &PathBuf| path.to_string_lossy().contains(".orig.tar.");
    let mut entries = work.path().read_dir()?.flatten().map(|entry| entry.path());
    let archive = entries.find(is_archive).context("the source has no archive")?;
    let status = Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(into)
        .args(["--strip-components=1", "--wildcards"])
        .args(folders.iter().map(|folder| format!("*/{folder}")))
        .status()
        .context("tar")?;
    anyhow::ensure!(status.success(), "tar failed");
    Ok(())
}

/// Unpacks a package as `NAME=VERSION`, without those that it needs.
pub fn unpack_one(package: &str, tree: &Path) -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    apt_in(work.path(), &["-o", "APT::Sandbox::User=root", "download", package])?;
    let mut entries = work.path().read_dir()?.flatten().map(|entry| entry.path());
    unpack(&entries.next().with_context(|| format!("no {package}"))?, tree)
}

/// Unpacks the package that `meta` of another Debian release depends on to `tree`, once.
pub fn of_release(codename: &str, meta: &str, tree: &Path) -> anyhow::Result<()> {
    if tree.exists() {
        return Ok(());
    }
    println!("== downloading {meta} of {codename}");
    let parent = tree.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    let work = tempfile::tempdir_in(parent)?;
    let at = |name: &str| work.path().join(name);
    std::fs::write(at("sources.list"), sources_of(codename))?;
    for dir in ["lists/partial", "packages"] {
        std::fs::create_dir_all(at(dir))?;
    }
    let list = format!("Dir::Etc::sourcelist={}", at("sources.list").display());
    let lists = format!("Dir::State::lists={}", at("lists").display());
    let cache = format!("Dir::Cache={}", work.path().display());
    let private = ["-o", &list, "-o", "Dir::Etc::sourceparts=-", "-o", &lists, "-o", &cache];
    let user = ["-o", "APT::Sandbox::User=root"];
    apt_in(work.path(), &[&private[..], &user, &["update"]].concat())?;
    let output = Command::new("apt-cache").args(private).args(["depends", meta]).output()?;
    let depends = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let package = lines.next().with_context(|| format!("{meta} of {codename} names no package"))?;
    apt_in(&at("packages"), &[&private[..], &user, &["download", package]].concat())?;
    let mut entries = at("packages").read_dir()?.flatten().map(|entry| entry.path());
    let half = at("tree");
    unpack(&entries.next().with_context(|| format!("no {package}"))?, &half)?;
    std::fs::rename(&half, tree).with_context(|| tree.display().to_string())
}

fn sources_of(codename: &str) -> String {
    let signed = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]";
    format!(
        "deb {signed} http://deb.debian.org/debian {codename} main\n\
         deb {signed} http://deb.debian.org/debian-security {codename}-security main\n"
    )
}

fn apt(args: &[&str]) -> anyhow::Result<()> {
    apt_in(Path::new("/"), args)
}

fn apt_in(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("apt-get")
        .current_dir(dir)
        .args(["-o", LOCK_WAIT])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status()
        .context("apt-get")?;
    anyhow::ensure!(status.success(), "apt-get {} failed", args.join(" "));
    Ok(())
}
