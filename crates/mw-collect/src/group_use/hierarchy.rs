//! The mounts of cgroup hierarchies whose controllers count something that is read.

use crate::source::Source;
use mw_model::Missing;
use mw_proc::cgroup::{Membership, MountedHierarchy};
use mw_proc::mountinfo;
use rustix::fs::{Mode, OFlags, open};
use std::os::fd::OwnedFd;

/// The most groups of one sample.
pub const MAX_GROUPS: usize = 512;

/// A hierarchy, opened where it is mounted.
#[derive(Debug)]
pub(super) struct OpenHierarchy {
    pub(super) dir: OwnedFd,
    /// The group at the mount point, relative to the root of this process's cgroup namespace.
    pub(super) root: String,
    pub(super) controllers: Controllers,
}

/// Counters of the groups of a hierarchy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Controllers {
    /// Version 2, whatever controllers it has.
    pub(super) unified: bool,
    pub(super) memory: bool,
    pub(super) cpu: bool,
    pub(super) cpuacct: bool,
    pub(super) blkio: bool,
    pub(super) freezer: bool,
}

impl Controllers {
    fn of(hierarchy: &MountedHierarchy) -> Option<Self> {
        let has = |name: &str| hierarchy.has_v1(name);
        let found = Self {
            unified: !hierarchy.is_v1,
            memory: has("memory"),
            cpu: has("cpu"),
            cpuacct: has("cpuacct"),
            blkio: has("blkio"),
            freezer: has("freezer"),
        };
        (found != Self::default()).then_some(found)
    }

    /// True if a membership is of this hierarchy.
    pub(super) fn is_of(self, membership: &Membership) -> bool {
        let of_v1 = [
            (self.memory, "memory"),
            (self.cpu, "cpu"),
            (self.cpuacct, "cpuacct"),
            (self.blkio, "blkio"),
            (self.freezer, "freezer"),
        ];
        (self.unified && membership.is_unified())
            || of_v1.iter().any(|(has, name)| *has && membership.has_controller(name))
    }

    /// The hierarchy whose groups say most comes first.
    fn rank(self) -> u8 {
        if self.memory {
            0
        } else if self.unified {
            1
        } else if self.cpu || self.cpuacct {
            2
        } else {
            3
        }
    }
}

/// Finds the hierarchies; of several mounts of one, that which shows most of it.
pub(super) fn find(source: &Source) -> Result<Vec<OpenHierarchy>, Missing> {
    let mounts = source.parse("/proc/self/mountinfo", mountinfo::parse)?;
    let mut found: Vec<(Controllers, MountedHierarchy)> = MountedHierarchy::visible(&mounts)
        .into_iter()
        .filter_map(|hierarchy| Some((Controllers::of(&hierarchy)?, hierarchy)))
        .collect();
    found.sort_by_key(|(controllers, mounted)| {
        (controllers.rank(), mounted.device.clone(), mounted.root.len())
    });
    found.dedup_by_key(|(_, mounted)| mounted.device.clone());
    let hierarchies: Vec<OpenHierarchy> = found
        .into_iter()
        .filter_map(|(controllers, mounted)| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = open(&mounted.target, flags, Mode::empty()).ok()?;
            Some(OpenHierarchy { dir, root: mounted.root, controllers })
        })
        .collect();
    if hierarchies.is_empty() {
        return Err(Missing::absent("/sys/fs/cgroup", "no cgroup hierarchy is mounted"));
    }
    Ok(hierarchies)
}
