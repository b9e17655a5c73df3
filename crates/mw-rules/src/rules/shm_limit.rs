//! # shm-limit
//!
//! The limits of shared memory are low for the size of the machine.
//!
//! ## What it finds
//! `kernel.shmmax` (one segment) or `kernel.shmall` (all segments) is less than half of memory; or
//! nearly all of `shmall` or of the number of segments (`kernel.shmmni`) is in use. For POSIX shared memory:
//! /dev/shm has room for less than 1% of the memory that is available to the caller. And segments that no process has
//! attached, which together hold 5% of memory.
//!
//! ## Why it hurts
//! `shmget` of a database's segment fails with EINVAL or ENOSPC although memory is free. Oracle, Sybase,
//! DB2, SAP and PostgreSQL (with `shared_memory_type = sysv`) do not start. A small /dev/shm, which is a
//! default of containers (64 MiB), ends programs that share memory between processes: workers of PyTorch,
//! NCCL, inference servers, parallel queries of PostgreSQL, browsers. A segment outlives the program that made it: what a
//! job or a server leaves behind that was killed holds its memory until it is removed.
//!
//! ## What it looks like
//! "could not create shared memory segment: Invalid argument" in the database's log; for /dev/shm "could not
//! resize shared memory segment: No space left on device", or "Bus error".
//!
//! ## How to fix it
//! `memwright fix` sets the kernel's defaults where a limit is low. Where a limit is nearly used up, only `memwright fix
//! shm-limit` does, because any user can use it up (for the number of segments: twice the present value). These limits protect nothing; cgroups do. /dev/shm is enlarged by `mount -o remount,size=50%
//! /dev/shm`; in a container it is set when that is created: `--shm-size=16g` of Docker and Podman, in Kubernetes an
//! `emptyDir` with `medium: Memory` that is mounted there. A segment that nobody attaches any more is removed by `ipcrm -m
//! ID`; see first that its program has ended, and does not attach it again.
//!
//! ## Threshold
//! Since 3.16 the kernel's defaults are practically unlimited; smaller values come from old sysctl
//! files. Databases use up to 80% of memory, so less than half is a warning, and so is 90% in use: the
//! next segment may be refused. By default a tmpfs may take half of memory; 1% is a note, because many programs
//! use no shared memory.
//!
//! ## References
//! Linux, Documentation/admin-guide/sysctl/kernel.rst, shmall, shmmax, shmmni; shmget(2); commit
//! 060028bac94b ("ipc/shm.c: increase the defaults for SHMALL, SHMMAX"); Documentation/filesystems/tmpfs.rst.

use crate::ipc_ids;
use crate::share::{is_most, percent};
use crate::shared_memory::{POSIX_MOUNT, posix_mount};
use mw_model::{
    Area, Finding, Missing, Quantity, Remedy, Severity, Snapshot, Step, Subject, Sysctl, Window,
    caller, derived, format_bytes, format_count,
};
use mw_proc::sysvipc_shm::ShmSegment;
use std::collections::BTreeMap;

const SHMMAX: &str = "kernel.shmmax";
const SHMALL: &str = "kernel.shmall";
const SHMMNI: &str = "kernel.shmmni";

/// ULONG_MAX - (1 << 24), the default of both limits.
const DEFAULT_LIMIT: u64 = u64::MAX - (1 << 24);
const MEMORY_PERCENT: u64 = 50;
const USED_PERCENT: f64 = 90.0;

/// Of memory, what segments without a process may hold.
const UNATTACHED_PERCENT: f64 = 5.0;

/// Of available memory, what /dev/shm has room for at least.
const POSIX_PERCENT: f64 = 1.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let sysctl = &snapshot.sysctl;
    let half = (derived::memory_bytes(&snapshot.sample)? / 100).saturating_mul(MEMORY_PERCENT);
    let shmmax = sysctl.number(SHMMAX)?;
    let shmall = sysctl.number(SHMALL)?.saturating_mul(snapshot.origin.page_bytes);
    let limits = [(SHMMAX, shmmax, "one segment"), (SHMALL, shmall, "all segments together")];
    let low = limits
        .into_iter()
        .filter(|(_, limit, _)| *limit < half)
        .map(|(setting, limit, what)| too_low(setting, limit, what));
    let used = used_up(snapshot, sysctl, shmall);
    // A limit that is used up is not also reported as low.
    let subjects: Vec<Subject> = used.iter().map(|finding| finding.subject.clone()).collect();
    let low = low.filter(|finding| !subjects.contains(&finding.subject));
    Ok(low.chain(used).chain(small_mount(snapshot)).chain(unattached(snapshot)).collect())
}

/// Segments that no process has attached, where they hold much memory: those of programs that ended, mostly.
fn unattached(snapshot: &Snapshot) -> Option<Finding> {
    let unattached = snapshot.shm.value()?.iter().filter(|segment| segment.attached == 0);
    let held = |segment: &ShmSegment| segment.rss_bytes.unwrap_or(segment.size_bytes);
    let largest = unattached.clone().max_by_key(|segment| held(segment))?;
    let bytes = derived::total(unattached.clone().map(held));
    if percent(bytes, derived::memory_bytes(&snapshot.sample).ok()?) < UNATTACHED_PERCENT {
        return None;
    }
    let headline = match unattached.count() {
        1 => format!(
            "no process has SysV segment {} attached, which holds {}",
            largest.shmid,
            format_bytes(bytes)
        ),
        count => format!(
            "no process has {count} SysV segments attached, which hold {}; segment {} holds {}",
            format_bytes(bytes),
            largest.shmid,
            format_bytes(held(largest))
        ),
    };
    let remedy = Remedy::named(
        "remove it if its program has ended, and attaches it no more",
        vec![Step::manual(format!("ipcrm -m {}", largest.shmid))],
    );
    let creator = format!("process {}, user {}", largest.creator_pid, largest.uid);
    let finding = Finding::new(Severity::Note, Area::SharedMemory, headline)
        .with_evidence("held", Quantity::Bytes(bytes), "/proc/sysvipc/shm")
        .with_evidence("created by", Quantity::Text(creator), "/proc/sysvipc/shm")
        .with_impact("Its memory stays in use until it is removed, or the machine is restarted.")
        .with_remedy(remedy);
    Some(finding)
}

/// A /dev/shm that is small beside what the caller could have.
fn small_mount(snapshot: &Snapshot) -> Option<Finding> {
    let size = posix_mount(snapshot)?.size_bytes?;
    let available = caller::available(snapshot, derived::ready_bytes(snapshot).ok()?).bytes;
    if percent(size, available) >= POSIX_PERCENT {
        return None;
    }
    let headline = format!(
        "{POSIX_MOUNT} has room for {}, while {} are available",
        format_bytes(size),
        format_bytes(available)
    );
    let steps = vec![
        Step::manual_on("mount -o remount,size=50%", POSIX_MOUNT),
        Step::manual(
            "in a container, set it when the container is created: --shm-size, or an emptyDir with medium: Memory",
        ),
    ];
    Some(
        Finding::new(Severity::Note, Subject::Mount(POSIX_MOUNT.to_owned()), headline)
            .with_evidence("size", Quantity::Bytes(size), "statfs")
            .with_evidence("available to the caller", Quantity::Bytes(available), "/proc/meminfo")
            .with_impact(
                "Programs that share memory between processes fail with ENOSPC, or are killed by SIGBUS.",
            )
            .with_remedy(Remedy::named("enlarge /dev/shm before such a program starts", steps)),
    )
}

fn too_low(setting: &str, limit: u64, what: &str) -> Finding {
    let headline =
        format!("{setting} limits {what} to {}, less than half of memory", format_bytes(limit));
    Finding::new(Severity::Warning, Subject::Sysctl(setting.to_owned()), headline)
        .with_evidence(setting, Quantity::Bytes(limit), Sysctl::path(setting))
        .with_impact("shmget of a database's segment fails although memory is free.")
        .with_remedy(raise(setting, DEFAULT_LIMIT))
}

fn raise(setting: &str, value: u64) -> Remedy {
    Remedy::automatic(format!("set {setting} to {value}"), raising(setting, value))
}

fn raising(setting: &str, value: u64) -> Vec<Step> {
    vec![Step::write(Sysctl::path(setting), value)]
}

/// Limits that are nearly reached.
fn used_up(snapshot: &Snapshot, sysctl: &Sysctl, shmall_bytes: u64) -> Vec<Finding> {
    let Some(segments) = snapshot.shm.value() else { return Vec::new() };
    let bytes = segments.iter().fold(0_u64, |sum, s| sum.saturating_add(s.size_bytes));
    let count = segments.len() as u64;
    let mut findings = Vec::new();
    if percent(bytes, shmall_bytes) >= USED_PERCENT {
        let headline = format!(
            "shared memory segments take {} of the {} that {SHMALL} allows",
            format_bytes(bytes),
            format_bytes(shmall_bytes)
        );
        findings.push((SHMALL, headline, Quantity::Bytes(bytes), Some(DEFAULT_LIMIT)));
    }
    if let Ok(most) = sysctl.number(SHMMNI)
        && percent(count, most) >= USED_PERCENT
    {
        let headline = format!("{count} shared memory segments exist; {SHMMNI} allows {most}");
        findings.push((SHMMNI, headline, Quantity::Count(count), ipc_ids::raised(most)));
    }
    findings
        .into_iter()
        .map(|(setting, headline, used, target)| {
            // Any user can create segments: that raises no limit by itself.
            let (summary, steps) = match target {
                Some(target) => (format!("set {setting} to {target}"), raising(setting, target)),
                None => (format!("allow a larger {setting} at boot"), vec![ipc_ids::extending()]),
            };
            let summary = format!("remove unused segments (ipcs -m, ipcrm), or {summary}");
            let finding =
                Finding::new(Severity::Warning, Subject::Sysctl(setting.to_owned()), headline)
                    .with_evidence("in use", used, "/proc/sysvipc/shm");
            with_creator(finding, snapshot, segments)
                .with_impact("The next shmget fails with ENOSPC although memory is free.")
                .with_remedy(Remedy::named(summary, steps))
        })
        .collect()
}

/// Adds the process that created at least half of the segments, by number or size.
fn with_creator(finding: Finding, snapshot: &Snapshot, segments: &[ShmSegment]) -> Finding {
    let mut creators: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for segment in segments {
        let (count, bytes) = creators.entry(segment.creator_pid).or_default();
        *count = count.saturating_add(1);
        *bytes = bytes.saturating_add(segment.size_bytes);
    }
    let bytes = derived::total(segments.iter().map(|segment| segment.size_bytes));
    let is_it = |(_, (count, size)): &(&u32, &(u64, u64))| {
        is_most(*count, segments.len() as u64) || is_most(*size, bytes)
    };
    let Some((pid, (count, size))) = creators.iter().find(is_it) else { return finding };
    let processes = snapshot.processes.value().map_or(&[][..], |all| all.list.as_slice());
    let process = processes.iter().find(|process| process.status.pid == Some(*pid));
    let creator = match process {
        Some(process) => format!("{} ({pid})", process.status.name),
        None => format!("process {pid}"),
    };
    let destroyed = segments.iter().filter(|s| s.creator_pid == *pid && s.is_destroyed()).count();
    let mut text = format!("{}, {}", format_count(*count, "segment"), format_bytes(*size));
    if destroyed > 0 {
        text.push_str(&format!(", {destroyed} of them destroyed and still attached"));
    }
    finding.with_evidence(
        format!("created by {creator}"),
        Quantity::Text(text),
        "/proc/sysvipc/shm",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{MemoryFilesystem, Reading};
    use mw_proc::meminfo::Meminfo;

    fn headline(fstype: &str, size_bytes: u64) -> Option<String> {
        let mut snapshot = Snapshot::default();
        let meminfo = b"MemTotal: 67108864 kB\nMemFree: 33554432 kB\n";
        snapshot.sample.meminfo = Reading::Value(Meminfo::parse(meminfo).ok()?);
        snapshot.filesystems = Reading::Value(vec![MemoryFilesystem {
            target: POSIX_MOUNT.to_owned(),
            fstype: fstype.to_owned(),
            size_bytes: Some(size_bytes),
            ..MemoryFilesystem::default()
        }]);
        small_mount(&snapshot).map(|finding| finding.headline)
    }

    #[test]
    fn a_mount_of_a_container_s_default_size_is_small_beside_what_is_available() {
        let small = headline("tmpfs", 64 << 20).unwrap_or_default();
        assert!(small.starts_with("/dev/shm has room for 64 MiB, while 3"), "{small}");
        assert_eq!(headline("tmpfs", 1 << 30), None);
        assert_eq!(headline("ramfs", 64 << 20), None, "it has no limit");
    }

    /// Promise (Findings): Shared memory that no process has attached is reported with the command that frees it.
    #[test]
    fn a_segment_without_a_process_is_named_where_it_holds_much() {
        let found = |attached, gib: &[u64]| {
            let mut snapshot = Snapshot::default();
            let meminfo = b"MemTotal: 67108864 kB\nMemFree: 33554432 kB\n";
            snapshot.sample.meminfo = Reading::Value(Meminfo::parse(meminfo).ok()?);
            let segment = |(shmid, gib): (u32, &u64)| ShmSegment {
                shmid,
                attached,
                size_bytes: gib << 30,
                ..ShmSegment::default()
            };
            snapshot.shm = Reading::Value((7..).zip(gib).map(segment).collect());
            unattached(&snapshot)
        };
        let one = found(0, &[5]).map(|finding| (finding.headline, format!("{:?}", finding.remedy)));
        let (headline, remedy) = one.unwrap_or_default();
        assert_eq!(headline, "no process has SysV segment 7 attached, which holds 5 GiB");
        assert!(remedy.contains("ipcrm -m 7"), "{remedy}");
        let two = found(0, &[2, 3]).map(|finding| finding.headline).unwrap_or_default();
        assert!(two.ends_with("which hold 5 GiB; segment 8 holds 3 GiB"), "{two}");
        assert_eq!(found(0, &[2]), None, "3%");
        assert_eq!(found(1, &[5]), None, "in use");
    }

    #[test]
    fn the_creator_of_most_segments_is_named() {
        let segment = |creator_pid, size_bytes| ShmSegment {
            creator_pid,
            size_bytes,
            mode: 0o1600,
            ..ShmSegment::default()
        };
        let evidence = |segments: &[ShmSegment]| {
            let finding = Finding::new(Severity::Warning, Subject::Sysctl(SHMALL.to_owned()), "");
            let finding = with_creator(finding, &Snapshot::default(), segments);
            finding.evidence.first().map(|evidence| format!("{evidence:?}"))
        };
        let most = evidence(&[segment(7, 1 << 30), segment(7, 1 << 30), segment(8, 1 << 20)]);
        let most = most.unwrap_or_default();
        assert!(most.contains("created by process 7") && most.contains("2 segments, 2 GiB"));
        assert!(most.contains("2 of them destroyed and still attached"), "{most}");
        assert_eq!(evidence(&[segment(7, 9), segment(8, 9), segment(9, 9)]), None);
    }
}
