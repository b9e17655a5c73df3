//! Reads what is judged. Nothing is changed, and nothing that is opened stays open.

use crate::host::{BootLoader, FileText, HostFacts, Installation, Tracepoint};
use mw_profile::Tracefs;
use mw_sys::{PerfAttr, PerfEvent, PerfSource, PidNamespace, SamplePeriod};
use rustix::fs::{Access, MemfdFlags, access, memfd_create};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;

/// Enough for every file but kallsyms, whose addresses do not begin with zero after the first pages.
const MAX_BYTES: u64 = 256 << 10;

const TRACEPOINT: &str = "sched/sched_switch/id";
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

impl HostFacts {
    /// Reads the machine.
    #[must_use]
    pub fn read(installation: Installation) -> Self {
        let status = read("/proc/self/status").unwrap_or_default();
        Self {
            is_root: rustix::process::geteuid().is_root(),
            capabilities: effective_capabilities(&status),
            kernel_release: rustix::system::uname().release().to_string_lossy().into_owned(),
            container: container(),
            pid_namespace: PidNamespace::of_this_process().map_err(|error| error.to_string()),
            namespaces: mw_collect::nested_namespaces(),
            boot_loader: boot_loader(),
            mountinfo: read("/proc/self/mountinfo"),
            tracepoint: tracepoint(),
            perf_event: perf_event(),
            perf_event_paranoid: read("/proc/sys/kernel/perf_event_paranoid"),
            kallsyms: read("/proc/kallsyms"),
            kptr_restrict: read("/proc/sys/kernel/kptr_restrict"),
            pressure: read("/proc/pressure/memory"),
            task_delayacct: read("/proc/sys/kernel/task_delayacct"),
            extfrag: read("/sys/kernel/debug/extfrag/unusable_index"),
            cgroup_controllers: read("/sys/fs/cgroup/cgroup.controllers"),
            cgroup_v1: read("/proc/cgroups"),
            cachestat: cachestat(),
            settings: access("/proc/sys/vm/swappiness", Access::WRITE_OK),
            memlock_bytes: mw_sys::memlock_limit_bytes(),
            clocksource: read(&format!("{CLOCKSOURCE}/current_clocksource")),
            clocksources: read(&format!("{CLOCKSOURCE}/available_clocksource")),
            installation,
        }
    }
}

/// The beginning of a file.
fn read(path: &str) -> FileText {
    let mut bytes = Vec::new();
    let file = mw_sys::guarded::open(Path::new(path));
    match file.and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes)) {
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Files that container engines leave for those inside.
fn container() -> Option<String> {
    let name = |text: String| text.trim().to_owned();
    let told = read("/run/systemd/container").ok().map(name).filter(|name| !name.is_empty());
    let marked = |path: &str, name: &str| Path::new(path).exists().then(|| name.to_owned());
    told.or_else(|| marked("/.dockerenv", "docker"))
        .or_else(|| marked("/run/.containerenv", "podman"))
}

fn boot_loader() -> BootLoader {
    let is_there = |path: &str| Path::new(path).exists();
    if is_there("/usr/sbin/grubby") || is_there("/sbin/grubby") {
        BootLoader::Grubby
    } else if is_there("/usr/sbin/update-grub") {
        BootLoader::UpdateGrub
    } else {
        BootLoader::Other
    }
}

fn tracepoint() -> Tracepoint {
    match Tracefs::open() {
        Ok(tracefs) => {
            let id = tracefs.read(TRACEPOINT);
            let id = id.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
            Tracepoint { id, is_of_own_mount: tracefs.is_own() }
        }
        Err(_) => {
            let [first, second] =
                Tracefs::MOUNTS.map(|mount| read(&format!("{mount}/events/{TRACEPOINT}")));
            let is_second = first == Err(Errno::NOENT) && second != Err(Errno::NOENT);
            let id = if is_second { second } else { first };
            Tracepoint { id, is_of_own_mount: false }
        }
    }
}

/// Opens what the profiler opens on every CPU.
fn perf_event() -> Result<(), Errno> {
    let attr = PerfAttr {
        source: PerfSource::CpuClock,
        period: SamplePeriod::Hz(1),
        stack_frames: Some(1),
        user_stack: None,
        fields: false,
        user_mode: false,
        names: false,
        scheduling: false,
        mappings: false,
        wake_bytes: 1,
    };
    let opened = PerfEvent::open(&attr, 0).map(drop);
    opened.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn cachestat() -> Result<(), Errno> {
    let file = memfd_create("memwright-doctor", MemfdFlags::CLOEXEC)?;
    let pages = mw_sys::cached_pages(file.as_fd()).map(drop);
    pages.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_read() {
        let machine = HostFacts::read(crate::judge_tests::complete().installation);
        let status = read("/proc/self/status").unwrap();
        assert_eq!(machine.capabilities, effective_capabilities(&status));
        assert!(machine.capabilities.is_some());
        assert!(machine.kallsyms.is_ok_and(|text| text.len() <= 256 << 10));
        assert_eq!(read("/nowhere"), Err(Errno::NOENT));
    }
}
