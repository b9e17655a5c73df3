//! Filesystems that tests mount, and that go with them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A filesystem in a file, on a loop device; none where this machine does not make it.
pub(crate) struct Disk {
    pub(crate) dir: TempDir,
    mounts: Vec<PathBuf>,
}

impl Disk {
    pub(crate) fn new(kind: &str, room: Option<&str>) -> Option<Self> {
        let mut disk = Self { dir: tempfile::tempdir().unwrap(), mounts: Vec::new() };
        let made = disk.make(kind, room);
        if let Err(why) = &made {
            mw_test::skip(format!("no {kind} on a loop device: {why}"));
        }
        made.is_ok().then_some(disk)
    }

    fn make(&mut self, kind: &str, room: Option<&str>) -> Result<(), String> {
        let backing = self.dir.path().join("backing");
        fs::create_dir(&backing).unwrap();
        if let Some(room) = room {
            self.mount(Command::new("mount").args(["-t", "tmpfs", "-o", room, "tmpfs"]), &backing)?;
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

    /// Another mount that goes with this one, on a new folder: the command lacks that folder alone.
    pub(crate) fn mount_beside(&mut self, command: &mut Command) -> Result<PathBuf, String> {
        let at = self.dir.path().join(format!("beside-{}", self.mounts.len()));
        fs::create_dir(&at).unwrap();
        self.mount(command, &at)?;
        Ok(at)
    }

    /// An overlayfs whose upper directory is on this disk, or elsewhere.
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
        self.mount_beside(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for mount in self.mounts.iter().rev() {
            // The loop device lets go of its file a little after it was unmounted.
            let gone = (0..100).any(|_| {
                let gone = quiet(Command::new("umount").arg(mount)).is_ok();
                if !gone {
                    std::thread::sleep(Duration::from_millis(50));
                }
                gone
            });
            if !gone {
                let _ = quiet(Command::new("umount").arg("--lazy").arg(mount));
            }
        }
    }
}

pub(crate) fn quiet(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let why = || format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    output.status.success().then_some(()).ok_or_else(why)
}
