//! What is packaged works where nothing but a distribution is, leaves nothing behind, and can be built again.

use super::{VERSION, build};
use crate::workspace::{self, output, target_dir};
use anyhow::Context;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that the installation of any package may leave in a root.
const NOT_OURS: &[&str] =
    &["./etc/.pwd.lock", "./etc/group-", "./etc/gshadow-", "./etc/passwd-", "./etc/shadow-"];
const NOT_OURS_BELOW: &[&str] =
    &["./proc/", "./sys/", "./var/cache/", "./var/lib/dpkg/", "./var/log/"];

/// Files of a user that an upgrade and a removal keep, and a purge does not.
const KEPT: &[&str] = &["etc/memwright/memwright.toml", "var/lib/memwright/recording.db"];

/// Builds everything twice, compares it, and installs it.
pub(crate) fn run() -> anyhow::Result<()> {
    let out = target_dir().join("packages");
    let packages = build(&target_dir().join("dist-sources"), &target_dir(), &out)?;
    lint(&packages)?;
    debian(&packages)?;
    rpm(&packages)?;
    alone(&out)?;
    built_twice(&out)
}

/// In directories with longer names, from the start.
fn built_twice(out: &Path) -> anyhow::Result<()> {
    let second = tempfile::Builder::new().prefix("built-again-").tempdir_in(target_dir())?;
    let at = |name: &str| second.path().join(name);
    build(&at("the-sources"), &at("the-target"), &at("packages"))?;
    let sums = |dir: &Path| crate::workspace::read(&dir.join("SHA256SUMS"));
    let (first, again) = (sums(out)?, sums(&at("packages"))?);
    anyhow::ensure!(first == again, "two builds differ:\n{first}\nand\n{again}");
    Ok(())
}

/// Promise (Installation): The Debian packages are accepted by lintian and work in a new root; an upgrade and a
/// removal keep configuration and recording, and a purge leaves nothing.
fn lint(packages: &[PathBuf]) -> anyhow::Result<()> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]);
    // Of a first upload to Debian itself.
    lintian.args(["--suppress-tags", "initial-upload-closes-no-bugs"]).args(of(packages, "deb"));
    workspace::run(&mut lintian)
}

fn of<'a>(packages: &'a [PathBuf], ending: &'a str) -> impl Iterator<Item = &'a PathBuf> {
    packages.iter().filter(move |path| path.extension() == Some(OsStr::new(ending)))
}

/// Installs, upgrades, removes and purges the Debian packages in a new root of this machine's release.
fn debian(packages: &[PathBuf]) -> anyhow::Result<()> {
    let root = Root::debian()?;
    let before = root.entries()?;
    let debs = root.dir.path().join("packages");
    std::fs::create_dir(&debs)?;
    workspace::run(Command::new("cp").args(of(packages, "deb")).arg(&debs))?;
    root.run("dpkg -i /packages/*.deb")?;
    verify_program(&root, "memwright")?;
    root.run("memwright run --lock -- true")?;
    for unit in ["memwright", "memwright-pool"] {
        root.run(&format!("test -L /etc/systemd/system/multi-user.target.wants/{unit}.service"))?;
    }
    root.run(
        "! find /etc/systemd /var/lib/systemd -name memwright.socket -path '*.wants/*' | grep .",
    )?;
    // As those do who want metrics; a purge removes the link.
    root.run("systemctl enable memwright.socket")?;
    root.run("getent passwd memwright-pool")?;
    // Below /lib, which is a link, dpkg of Debian 13 warns at the purge.
    root.run("! dpkg -L memwright | grep ^/lib/")?;
    root.run("test -e /usr/share/doc/memwright/examples/memwright.toml")?;
    for path in KEPT {
        root.run(&format!("mkdir -p $(dirname /{path}) && : > /{path}"))?;
    }
    for step in
        ["dpkg -i /packages/*.deb", "dpkg --remove memwright libmemwright-dev libmemwright0"]
    {
        root.run(step)?;
        for path in KEPT {
            root.run(&format!("test -e /{path}")).with_context(|| format!("after {step}"))?;
        }
    }
    root.run("dpkg --purge memwright && rm -r /packages")?;
    let left: Vec<String> = root.entries()?.difference(&before).cloned().collect();
    anyhow::ensure!(left.is_empty(), "purging leaves {}", left.join(" "));
    Ok(())
}

/// Unpacks the RPM packages, without what they depend on.
///
/// Promise (Installation): The RPM packages install what they list, and their program runs.
fn rpm(packages: &[PathBuf]) -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    let rpm = |args: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(root.path()).args(args);
        rpm
    };
    let options = ["--install", "--nodeps", "--noscripts"];
    workspace::run(rpm(&options).args(of(packages, "rpm")))?;
    let version = output(Command::new(root.path().join("usr/bin/memwright")).arg("--version"))?;
    anyhow::ensure!(version.contains(VERSION), "{version}");
    for name in ["memwright", "libmemwright", "libmemwright-devel"] {
        workspace::run(&mut rpm(&[
            "--verify",
            "--nodeps",
            "--noscripts",
            "--nouser",
            "--nogroup",
            name,
        ]))?;
    }
    // The shell that runs the scriptlets parses them.
    let scripts =
        output(rpm(&["-q", "--queryformat", "%{POSTIN}\n%{PREUN}\n%{POSTUN}\n"]).arg("memwright"))?;
    anyhow::ensure!(scripts.contains("systemctl"), "no scriptlets: {scripts}");
    workspace::run(Command::new("sh").args(["-n", "-c", &scripts]))?;
    let linker = output(rpm(&["-q", "--scripts", "--changelog"]).arg("libmemwright"))?;
    for part in ["/sbin/ldconfig", "CHANGELOG.md lists the changes"] {
        anyhow::ensure!(linker.contains(part), "libmemwright lacks {part}: {linker}");
    }
    Ok(())
}

/// The static program runs in a root that has nothing else.
///
/// Promise (Installation): The static program runs in a root that has nothing else.
fn alone(out: &Path) -> anyhow::Result<()> {
    let root = Root::empty()?;
    let name = format!("memwright-{VERSION}-x86_64-static");
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(out.join(format!("{name}.tar.gz"))).arg("-C").arg(root.dir.path());
    workspace::run(&mut tar)?;
    let program = format!("/{name}/memwright");
    let run = root.command(&[&program, "run", "--", &program, "--version"]).output()?;
    let said = String::from_utf8_lossy(&run.stderr);
    anyhow::ensure!(said.contains("the static program"), "run does not say why: {run:?}");
    verify_program(&root, &program)
}

fn verify_program(root: &Root, program: &str) -> anyhow::Result<()> {
    let version = output(&mut root.command(&[program, "--version"]))?;
    anyhow::ensure!(version.starts_with(&format!("memwright {VERSION}\n")), "{version}");
    // Whatever this machine's condition is, the first line says it.
    let check = root.command(&[program, "check", "--fail-on", "never"]).output()?;
    let said = String::from_utf8_lossy(&check.stdout);
    anyhow::ensure!(check.status.success() && said.contains(" available "), "{check:?}");
    Ok(())
}

/// A directory that programs have as root directory, with /proc and /sys.
struct Root {
    dir: tempfile::TempDir,
}

impl Root {
    fn empty() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir_in(target_dir())?;
        for name in ["proc", "sys"] {
            std::fs::create_dir(dir.path().join(name))?;
        }
        Ok(Self { dir })
    }

    /// The smallest Debian with systemd.
    fn debian() -> anyhow::Result<Self> {
        let release =
            output(Command::new("sh").args(["-c", ". /etc/os-release && echo $VERSION_CODENAME"]))?;
        let dir = tempfile::tempdir_in(target_dir())?;
        let mut mmdebstrap = Command::new("mmdebstrap");
        mmdebstrap.args([
            "--quiet",
            "--variant=minbase",
            "--include=systemd,libgcc-s1",
            release.trim(),
        ]);
        workspace::run(mmdebstrap.arg(dir.path()).arg("http://deb.debian.org/debian"))?;
        Ok(Self { dir })
    }

    /// Its mounts end with it.
    fn command(&self, args: &[&str]) -> Command {
        let script = "mount --rbind /proc \"$0/proc\" && mount --rbind /sys \"$0/sys\" && exec chroot \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(self.dir.path()).args(args);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command
    }

    fn run(&self, script: &str) -> anyhow::Result<()> {
        output(&mut self.command(&["sh", "-ec", script])).map(drop)
    }

    /// All that is there except what belongs to the package manager.
    fn entries(&self) -> anyhow::Result<BTreeSet<String>> {
        let all = output(Command::new("find").args([".", "-print"]).current_dir(self.dir.path()))?;
        let is_ours = |path: &&str| {
            !NOT_OURS.contains(path) && !NOT_OURS_BELOW.iter().any(|dir| path.starts_with(dir))
        };
        Ok(all.lines().filter(is_ours).map(str::to_owned).collect())
    }
}
