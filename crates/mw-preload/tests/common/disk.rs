//! Filesystems that tests mount.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A filesystem in a file, on a loop device; unmounted when it is dropped.
pub(crate) struct Disk {
    pub(crate) dir: TempDir,
    mounts: Vec<PathBuf>,
}

impl Disk {
    /// `tmpfs` are mount options of a tmpfs for the file. None, after a skip, if this machine cannot create it.
    pub(crate) fn new(kind: &str, tmpfs: Option<&str>) -> Option<Self> {
        let mut disk = Self { dir: tempfile::tempdir().unwrap(), mounts: Vec::new() };
        let created = disk.create(kind, tmpfs);
        if let Err(why) = &created {
            mw_test::skip(format!("no {kind} on a loop device: {why}"));
        }
        created.is_ok().then_some(disk)
    }

    fn create(&mut self, kind: &str, tmpfs: Option<&str>) -> Result<(), String> {
        let backing = self.dir.path().join("backing");
        fs::create_dir(&backing).unwrap();
        if let Some(options) = tmpfs {
            self.mount(
                Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]),
                &backing,
            )?;
        }
        let image = backing.join("disk");
        File::create(&image).unwrap().set_len(320 << 20).unwrap();
        let options: &[&str] = match kind {
            "ext4" => &["-q", "-F", "-O", "^has_journal", "-E", "nodiscard"],
            "xfs" => &["-q", "-f"],
            _ => &["-q"],
        };
        quiet(Command::new(format!("mkfs.{kind}")).args(options).arg(&image))?;
        let at = self.path();
        fs::create_dir(&at).unwrap();
        self.mount(Command::new("mount").args(["-o", "loop"]).arg(&image), &at)
    }

    fn mount(&mut self, command: &mut Command, at: &Path) -> Result<(), String> {
        quiet(command.arg(at))?;
        self.mounts.push(at.to_owned());
        Ok(())
    }

    /// Another mount that is unmounted with this one, on a new directory, which is appended to the command.
    pub(crate) fn mount_other(&mut self, command: &mut Command) -> Result<PathBuf, String> {
        let at = self.dir.path().join(format!("other-{}", self.mounts.len()));
        fs::create_dir(&at).unwrap();
        self.mount(command, &at)?;
        Ok(at)
    }

    /// An overlayfs with its upper directory on this disk, or at `upper`.
    pub(crate) fn overlay(&mut self, upper: Option<&Path>) -> Result<PathBuf, String> {
        let disk = self.path();
        let upper = upper.unwrap_or(&disk);
        let folder = |at: &Path, name: &str| {
            let folder = at.join(name);
            fs::create_dir(&folder).unwrap();
            folder.display().to_string()
        };
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            folder(&disk, "lower"),
            folder(upper, "upper"),
            folder(upper, "work")
        );
        self.mount_other(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for mount in self.mounts.iter().rev() {
            // The loop device releases its file shortly after it was unmounted; there is no event for it.
            let is_unmounted = (0..100).any(|_| {
                let is_unmounted = quiet(Command::new("umount").arg(mount)).is_ok();
                if !is_unmounted {
                    std::thread::sleep(Duration::from_millis(50));
                }
                is_unmounted
            });
            if !is_unmounted {
                let _ = quiet(Command::new("umount").arg("--lazy").arg(mount));
            }
        }
    }
}

/// Runs a command; an error has its standard error.
pub(crate) fn quiet(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let why = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    output.status.success().then_some(()).ok_or_else(why)
}
