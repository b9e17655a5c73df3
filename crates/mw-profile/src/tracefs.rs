//! tracefs, which describes the tracepoints: where it is mounted, or as a mount of this process's own.

use crate::tracepoint::TracepointFormat;
use crate::user_namespace;
use mw_model::Missing;
use mw_proc::version::KernelVersion;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

/// On earlier kernels a second mount resets the owner and the mode that the first one was given.
const KEEPS_MODES: KernelVersion = KernelVersion::new(6, 0, 0);

/// The directory of tracefs.
#[derive(Debug)]
pub struct Tracefs {
    dir: OwnedFd,
    is_own: bool,
}

impl Tracefs {
    /// Usual mount points.
    pub const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

    /// tracefs where it is mounted. Where it is not, and this process may mount (CAP_SYS_ADMIN), a mount that is attached
    /// to no directory: no other process sees it, and it ends with the descriptor.
    ///
    /// # Errors
    /// It is neither mounted nor may it be; or only root may read it.
    pub fn open() -> Result<Self, Missing> {
        let mut denied = None;
        for place in Self::MOUNTS {
            match openat(CWD, format!("{place}/events"), directory(OFlags::RDONLY), Mode::empty()) {
                Ok(_) => {
                    let dir = openat(CWD, place, directory(OFlags::PATH), Mode::empty());
                    let dir = dir.map_err(|errno| Missing::failed(place, errno.to_string()))?;
                    return Ok(Self { dir, is_own: false });
                }
                Err(Errno::ACCESS) => denied = Some(place),
                Err(_) => {}
            }
        }
        let refusal =
            || user_namespace::refusal(Self::MOUNTS[0], "waits and page cache are not seen");
        if let Some(place) = denied {
            let only_root =
                "waits and page cache are not seen: only root may read it (or CAP_DAC_READ_SEARCH)";
            return Err(refusal().unwrap_or_else(|| Missing::skipped(place, only_root)));
        }
        let own = keeps_modes().then(mount).and_then(Result::ok);
        own.map(|dir| Self { dir, is_own: true }).ok_or_else(|| {
            let not_mounted = match rustix::process::geteuid().is_root() {
                true => {
                    "waits and page cache are not seen: tracefs is not mounted; \
                     `mount -t tracefs tracefs /sys/kernel/tracing` mounts it"
                }
                false => "waits and page cache are not seen: only root may mount and read tracefs",
            };
            refusal().unwrap_or_else(|| Missing::skipped(Self::MOUNTS[0], not_mounted))
        })
    }

    /// True if it is a mount of this process's own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// A file of an event such as `sched/sched_switch/id`.
    ///
    /// # Errors
    /// This kernel does not have it, or it may not be read.
    pub fn read(&self, file: &str) -> io::Result<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.dir, format!("events/{file}"), flags, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Format of the records of an event such as `sched/sched_switch`.
    pub(crate) fn format(&self, event: &str) -> Result<TracepointFormat, Missing> {
        let file = format!("{event}/format");
        let what = format!("{}/events/{file}", Self::MOUNTS[0]);
        let text = self.read(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Missing::absent(&what, "this kernel does not have it"),
            _ => Missing::failed(&what, error.to_string()),
        })?;
        TracepointFormat::parse(&text).ok_or_else(|| Missing::failed(what, "has no line `ID:`"))
    }
}

fn directory(access: OFlags) -> OFlags {
    access | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn keeps_modes() -> bool {
    let release = rustix::system::uname();
    KernelVersion::parse(release.release().to_bytes()).is_ok_and(|kernel| kernel >= KEEPS_MODES)
}

fn mount() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}
