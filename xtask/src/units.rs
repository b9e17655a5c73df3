//! The shipped systemd units: systemd itself has nothing to say against them, and finds their sandboxes tight.

use crate::workspace::root;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FOLDER: &str = "packaging/systemd";

/// Path of the program in units, and a program that exists on every machine.
const INSTALLED: &str = "/usr/bin/memwright";
const STAND_IN: &str = "/bin/true";

/// Services, and the highest exposure that systemd may find, in tenths: from 0, a perfect sandbox, to 100.
///
/// What keeps the recorder from 30 are permissions without which it is blind; docs/security.md lists them.
const EXPOSURES: &[(&str, u32)] =
    &[("memwright.service", 39), ("memwright-pool.service", 20), ("memwright-ship.service", 30)];

/// Paths that a unit may name without a `-` before them, by the setting: what is there wherever systemd runs, or what
/// systemd passes over where it is not. A service with any other path that is absent does not start (226/NAMESPACE).
const PRESENT: &[(&str, &str)] = &[
    ("ExecStart", INSTALLED),
    ("ExecReload", INSTALLED),
    ("ExecReload", "/bin/kill"),
    // The kernel's, which systemd itself mounts.
    ("ReadOnlyPaths", "/proc/sys"),
    ("ReadOnlyPaths", "/sys"),
    // A rule for a device that is not there is left out (systemd.resource-control(5), DeviceAllow=).
    ("DeviceAllow", "/dev/kmsg"),
];

/// Checks all units, users and temporary files.
pub(crate) fn run() -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    for path in shipped()? {
        let name = path.file_name().context("no name")?;
        let text = crate::workspace::read(&path)?;
        let copy = work.path().join(name);
        std::fs::write(&copy, text.replace(INSTALLED, STAND_IN))?;
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("service") => {
                verify_paths(&name.to_string_lossy(), &text)?;
                verify(&copy)?;
                verify_exposure(&copy)?;
            }
            Some("socket" | "timer") => verify(&copy)?,
            Some("sysusers") => apply("systemd-sysusers", &[], &copy)?,
            Some("tmpfiles") => apply("systemd-tmpfiles", &["--create"], &copy)?,
            _ => anyhow::bail!("{}: there is no check for it", path.display()),
        }
    }
    Ok(())
}

/// The files that are shipped.
fn shipped() -> anyhow::Result<Vec<PathBuf>> {
    let folder = root().join(FOLDER);
    let entries = folder.read_dir().with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    anyhow::ensure!(!paths.is_empty(), "{FOLDER} is empty");
    Ok(paths)
}

/// The manual pages are not installed where this runs.
fn verify(unit: &Path) -> anyhow::Result<()> {
    let args = ["verify", "--man=no"];
    let output = Command::new("systemd-analyze").args(args).arg(unit).output();
    silent(unit, &output.context("systemd-analyze")?)
}

/// Every path that may be absent is optional: containers lack devices and directories that machines have.
fn verify_paths(name: &str, unit: &str) -> anyhow::Result<()> {
    let settings = unit.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';', '[']));
    for (setting, value) in settings.filter_map(|line| line.split_once('=')) {
        // `SOURCE:TARGET` of a bind mount; only the source may be absent.
        let paths = value.split_whitespace().map(|word| word.split(':').next().unwrap_or(word));
        // Prefixes other than `-` say how a path is used (systemd.exec(5), systemd.service(5)).
        let paths = paths.map(|path| path.trim_start_matches(['@', ':', '+', '!', '|', '~', '"']));
        for path in paths.filter(|path| path.starts_with('/')) {
            anyhow::ensure!(
                PRESENT.contains(&(setting.trim(), path)),
                "{name}: {setting}={path} fails the service where {path} is absent, as in a container: \
                 write {setting}=-{path}, or list it as PRESENT (xtask/src/units.rs)"
            );
        }
    }
    Ok(())
}

/// The exposure is at most that of [`EXPOSURES`].
fn verify_exposure(unit: &Path) -> anyhow::Result<()> {
    let name = unit.file_name().context("no name")?;
    let listed = EXPOSURES.iter().find(|(service, _)| name == *service);
    let (name, most) =
        listed.with_context(|| format!("{name:?} is not in the list of exposures"))?;
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager", &format!("--threshold={most}")]);
    let output = analyze.arg(unit).output().context("systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let overall = said.lines().last().unwrap_or_default();
    anyhow::ensure!(output.status.success(), "{name} may have {most} tenths at most:\n{said}");
    anyhow::ensure!(overall.contains("exposure level"), "{name}: no exposure: {output:?}");
    Ok(())
}

/// Makes the users or files in a root of their own.
fn apply(program: &str, args: &[&str], file: &Path) -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    for folder in ["etc", "run"] {
        std::fs::create_dir(root.path().join(folder))?;
    }
    let below = format!("--root={}", root.path().display());
    let output = Command::new(program).args(args).arg(below).arg(file).output();
    let output = output.with_context(|| program.to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {said}", file.display());
    Ok(())
}

/// A warning is a failure too: systemd ignores the line that it does not understand.
fn silent(file: &Path, output: &Output) -> anyhow::Result<()> {
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    anyhow::ensure!(output.status.success() && said.is_empty(), "{}: {said}", file.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_warning_is_a_failure() {
        let output = |said: &str| Output {
            status: std::process::ExitStatus::from_raw(0),
            stdout: Vec::new(),
            stderr: said.into(),
        };
        assert!(silent(Path::new("a"), &output("")).is_ok());
        let warning = "Failed to parse service type, ignoring: notify-reload\n";
        assert!(silent(Path::new("a"), &output(warning)).is_err());
    }

    #[test]
    fn a_service_without_a_sandbox_is_too_exposed() {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join("memwright.service");
        std::fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
        let error = verify_exposure(&unit).unwrap_err().to_string();
        assert!(error.contains("may have 39 tenths"), "{error}");
    }

    /// Promise (Installation): A shipped unit starts where a path that it names is absent, as in a container.
    #[test]
    fn a_path_that_may_be_absent_is_optional() {
        let check = |line: &str| verify_paths("x.service", &format!("[Service]\n{line}\n"));
        let refused = [
            "BindReadOnlyPaths=/dev/kmsg",
            "BindPaths=-/run/x /dev/mem:/dev/kmsg",
            "ReadWritePaths=+/var/lib/x",
            "EnvironmentFile=/etc/memwright/ship.env",
            "ExecStartPre=/usr/sbin/modprobe x",
            "WorkingDirectory = /srv",
            "DeviceAllow=/dev/mem r",
        ];
        for line in refused {
            let error = check(line).unwrap_err().to_string();
            assert!(error.contains("as in a container"), "{error}");
        }
        let accepted = [
            "BindReadOnlyPaths=-/dev/kmsg",
            "DeviceAllow=/dev/kmsg r",
            "ExecStart=/usr/bin/memwright watch",
            "# BindPaths=/x",
            "StateDirectory=memwright",
            "ReadOnlyPaths=/proc/sys /sys",
        ];
        for line in accepted {
            check(line).unwrap();
        }
    }

    #[test]
    fn the_recorders_unit_can_be_reloaded() {
        let text = crate::workspace::read(&root().join(FOLDER).join("memwright.service")).unwrap();
        assert!(text.contains("\nType=notify\n"), "{text}");
        // `systemctl reload` fails where the first command does.
        let reload = "\nExecReload=/usr/bin/memwright watch --check-config\n\
                      ExecReload=/bin/kill -HUP $MAINPID\n";
        assert!(text.contains(reload), "{text}");
    }

    /// Promise (The recorder): systemd finds an exposure of at most 3.9 for the recorder's unit and 2.0 for the pool
    /// server's, and the recorder sees no less in it.
    ///
    /// Promise (The recorder): The shipped units are valid for systemd 252, and SIGHUP reloads the recorder.
    #[test]
    fn systemd_has_nothing_to_say_against_the_shipped_units() {
        run().unwrap();
    }
}
