//! What cgroups use and wait for: their counters at one moment, and what changed between two.
//!
//! Version 1, 2 and hybrid hierarchies are merged by path, since systemd and container engines give a group
//! the same path in each. [`GroupSampler::sample`] reads the groups of the service first, then as many
//! others as its limits permit. Opening and reading a file costs 3 to 8 µs, which is nearly all of the cost:
//! limits are read only of groups that are reported.

mod difference;
mod files;
mod hierarchy;
mod sample;

use crate::source::Source;
pub use difference::MAX_USES;
use files::{GroupLimits, Memory, ReadBuffers};
pub use hierarchy::MAX_GROUPS;
use hierarchy::{Controllers, OpenHierarchy};
use mw_model::{GroupUse, Missing};
use mw_proc::cgroup::{self, Membership, PathFromMount};
use mw_sys::thread_time;
use rustix::fs::{Mode, OFlags, openat};
use sample::GroupReading;
pub use sample::GroupSample;
use std::collections::BTreeMap;
use std::iter;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The most groups of the service, those above them included, that are read before others.
const MAX_SERVICE_GROUPS: usize = 64;

/// Depth of the groups that are read: systemd puts an application of a user seventh.
const MAX_DEPTH: usize = 10;

/// CPU time of a sample of services alone.
const SERVICES_LIMIT: Duration = Duration::from_millis(5);

/// Limit of a sample's duration on a busy machine, as a multiple of its limit of CPU time.
const WALL_TIMES: u32 = 4;

/// The longest path of a group.
const MAX_PATH_BYTES: usize = 4096;

/// Reads the counters of cgroups.
#[derive(Debug)]
pub struct GroupSampler {
    hierarchies: Vec<OpenHierarchy>,
    buffers: ReadBuffers,
    /// The memory counters of the last sample.
    before: BTreeMap<String, Memory>,
}

impl GroupSampler {
    /// Finds the hierarchies with the memory, cpu, io or freezer controller.
    ///
    /// # Errors
    /// None is mounted, or the mounts cannot be read.
    pub fn find(source: &Source) -> Result<Self, Missing> {
        let hierarchies = hierarchy::find(source)?;
        Ok(Self { hierarchies, buffers: ReadBuffers::default(), before: BTreeMap::new() })
    }

    /// Reads the groups of services, those above them and the root, without limits.
    pub fn sample_services(&mut self, services: &[String]) -> GroupSample {
        let at = Instant::now();
        let mut walk = GroupWalk::new(&mut self.buffers, &self.before, SERVICES_LIMIT);
        for (number, hierarchy) in self.hierarchies.iter().enumerate() {
            walk.read(&hierarchy.dir, "/", number, hierarchy.controllers);
        }
        for path in services.iter().flat_map(|path| ancestry(path)).take(MAX_SERVICE_GROUPS) {
            for (number, hierarchy) in self.hierarchies.iter().enumerate() {
                if let Some(dir) = open_group(&hierarchy.dir, path) {
                    walk.read(&dir, path, number, hierarchy.controllers);
                }
            }
        }
        for (path, group) in &mut walk.groups {
            group.of_service = path != "/";
        }
        let GroupWalk { groups, .. } = walk;
        self.remember(&groups);
        GroupSample { at, groups, complete: false }
    }

    /// Reads the groups of the `service` and those above them, then the others, [`MAX_GROUPS`] at most.
    /// It takes at most about `limit` of CPU time and four times as long in all.
    pub fn sample(&mut self, limit: Duration, service: &[String]) -> GroupSample {
        let at = Instant::now();
        let mut walk = GroupWalk::new(&mut self.buffers, &self.before, limit);
        for path in service.iter().flat_map(|path| ancestry(path)).take(MAX_SERVICE_GROUPS) {
            let mut limits = GroupLimits::default();
            for (number, hierarchy) in self.hierarchies.iter().enumerate() {
                if let Some(dir) = open_group(&hierarchy.dir, path) {
                    walk.read(&dir, path, number, hierarchy.controllers);
                    files::limits(&dir, hierarchy.controllers, walk.buffers, &mut limits);
                }
            }
            if let Some(group) = walk.groups.get_mut(path) {
                (group.of_service, group.limits) = (true, vec![limits]);
            }
        }
        for (number, hierarchy) in self.hierarchies.iter().enumerate() {
            walk.descend(&hierarchy.dir, &mut String::new(), number, hierarchy.controllers, 0);
        }
        let GroupWalk { groups, complete, .. } = walk;
        self.remember(&groups);
        GroupSample { at, groups, complete }
    }

    /// Reads the limits of the `service`'s groups and of those above them once more: one may be set after a sample and lifted
    /// before the next.
    pub fn add_limits(&mut self, sample: &mut GroupSample, service: &[String]) {
        for path in service.iter().flat_map(|path| ancestry(path)).take(MAX_SERVICE_GROUPS) {
            let limits = self.limits(path);
            sample.add_limits(path, limits);
        }
    }

    fn limits(&mut self, path: &str) -> GroupLimits {
        let mut limits = GroupLimits::default();
        for hierarchy in &self.hierarchies {
            if let Some(dir) = open_group(&hierarchy.dir, path) {
                files::limits(&dir, hierarchy.controllers, &mut self.buffers, &mut limits);
            }
        }
        limits
    }

    fn remember(&mut self, groups: &BTreeMap<String, GroupReading>) {
        let memory =
            |(path, group): (&String, &GroupReading)| (path.clone(), group.counters.memory);
        self.before = groups.iter().map(memory).collect();
    }

    /// Use of the groups from `earlier` to `later`: those of the service, and others in which something
    /// happened, [`MAX_USES`] at most. Those of the service come first, then those that waited or were
    /// limited most. A group's numbers include those of the groups below it, but for throttling. Limits are
    /// those of now; of a service's group that is gone or had its limit lifted, those that a sample has, `between` the two, too.
    pub fn difference(
        &mut self,
        earlier: &GroupSample,
        between: &[&GroupSample],
        later: &GroupSample,
    ) -> Vec<GroupUse> {
        let mut uses = later.since(earlier);
        for group in &mut uses {
            let path = group.path.clone();
            let is_other = !group.of_service && path != "/";
            let now = is_other.then(|| self.limits(&path));
            // The latest first: a limit that was lifted meanwhile held until then.
            let of_samples = iter::once(later).chain(between.iter().rev().copied());
            let of_samples = of_samples.chain(iter::once(earlier));
            for limits in now.iter().chain(of_samples.flat_map(|sample| sample.limits(&path))) {
                difference::set_limits(group, limits);
            }
        }
        uses
    }

    /// The groups of a task in all hierarchies, as [`mw_model::GroupUse::path`] names them, each once: the memory
    /// controller's before others, and the root last. None where the task has gone or no mount shows its groups.
    pub fn cgroups_of(&self, tid: u32) -> Vec<String> {
        let text = mw_sys::kernel_file::read(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        let memberships = cgroup::parse_self(&text).unwrap_or_default();
        let hierarchies = self.hierarchies.iter();
        let hierarchies = hierarchies.map(|found| (found.root.as_str(), found.controllers));
        let mut groups = paths(hierarchies, &memberships);
        groups.sort_by_key(|path| path == "/");
        groups
    }
}

/// Names groups as a [`GroupSampler`] does, without descriptors.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupNames(Vec<(String, Controllers)>);

impl GroupNames {
    pub(crate) fn find(source: &Source) -> Result<Self, Missing> {
        let hierarchies = hierarchy::find(source)?;
        Ok(Self(hierarchies.into_iter().map(|found| (found.root, found.controllers)).collect()))
    }

    pub(crate) fn of(&self, memberships: &[Membership]) -> Vec<String> {
        paths(self.0.iter().map(|(root, controllers)| (root.as_str(), *controllers)), memberships)
    }
}

/// The paths below the mounts of the groups of a task, each once.
fn paths<'a>(
    hierarchies: impl Iterator<Item = (&'a str, Controllers)>,
    memberships: &[Membership],
) -> Vec<String> {
    let mut paths = Vec::new();
    for (root, controllers) in hierarchies {
        let of_it = memberships.iter().find(|membership| controllers.is_of(membership));
        let path = match of_it.map(|membership| PathFromMount::new(root, &membership.path)) {
            Some(PathFromMount::Named(path)) if path.is_empty() => "/".to_owned(),
            Some(PathFromMount::Named(path)) => path,
            _ => continue,
        };
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// `/a/b` gives `/a/b` and `/a`: the group and those above it, but for the root.
fn ancestry(path: &str) -> impl Iterator<Item = &str> {
    let path = if path.starts_with('/') { path.trim_end_matches('/') } else { "" };
    let above = path.rmatch_indices('/').filter(|(end, _)| *end > 0).map(|(end, _)| end);
    let ends = Some(path.len()).filter(|end| *end > 0).into_iter().chain(above);
    ends.filter_map(|end| path.get(..end))
}

fn open_group(root: &OwnedFd, path: &str) -> Option<OwnedFd> {
    let relative = path.trim_start_matches('/');
    let leaves = relative.split('/').any(|part| part == "..");
    if relative.is_empty() || leaves { None } else { open_dir(root, relative) }
}

fn open_dir(dir: &OwnedFd, name: impl rustix::path::Arg) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(dir, name, flags, Mode::empty()).ok()
}

/// One sample being taken.
struct GroupWalk<'a> {
    buffers: &'a mut ReadBuffers,
    before: &'a BTreeMap<String, Memory>,
    groups: BTreeMap<String, GroupReading>,
    /// The [`thread_time`] at which it ends.
    cpu_deadline: Duration,
    deadline: Instant,
    complete: bool,
}

impl<'a> GroupWalk<'a> {
    fn new(
        buffers: &'a mut ReadBuffers,
        before: &'a BTreeMap<String, Memory>,
        limit: Duration,
    ) -> Self {
        Self {
            buffers,
            before,
            groups: BTreeMap::new(),
            cpu_deadline: thread_time() + limit,
            deadline: Instant::now() + limit * WALL_TIMES,
            complete: true,
        }
    }

    /// Reads a group unless that was done.
    fn read(&mut self, dir: &OwnedFd, path: &str, number: usize, controllers: Controllers) {
        let bit = 1_u32.checked_shl(u32::try_from(number).unwrap_or(u32::MAX)).unwrap_or(0);
        if !self.groups.contains_key(path) {
            if self.groups.len() >= MAX_GROUPS {
                self.complete = false;
                return;
            }
            self.groups.insert(path.to_owned(), GroupReading::default());
        }
        let Some(group) = self.groups.get_mut(path) else { return };
        if group.read & bit == 0 {
            group.read |= bit;
            let before = self.before.get(path);
            files::counters(dir, controllers, before, self.buffers, &mut group.counters);
        }
    }

    /// Reads a group and those below it.
    fn descend(
        &mut self,
        dir: &OwnedFd,
        path: &mut String,
        number: usize,
        controllers: Controllers,
        depth: usize,
    ) {
        if thread_time() > self.cpu_deadline || Instant::now() > self.deadline {
            self.complete = false;
            return;
        }
        let shown = if path.is_empty() { "/" } else { path.as_str() };
        self.read(dir, shown, number, controllers);
        if depth == MAX_DEPTH {
            return;
        }
        for name in files::children(dir, self.buffers) {
            let Some(child) = open_dir(dir, name.as_c_str()) else { continue };
            let end = path.len();
            path.push('/');
            path.push_str(&name.to_string_lossy());
            if path.len() <= MAX_PATH_BYTES {
                self.descend(&child, path, number, controllers, depth + 1);
            }
            path.truncate(end);
        }
    }
}

#[cfg(test)]
mod tests;
