//! Limits: each is reached in a process of its own, is named in the error, and nothing is left behind.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{MIB, assert_resources, child, field, options, resources, value};
use mw_segment::{Error, Limit, PageSize, SegmentKind, Shortage};
use mw_sys::Capability;
use mw_test::{TestCgroup, alone, skip};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs;

const KINDS: [SegmentKind; 4] =
    [SegmentKind::Anon, SegmentKind::Memfd, SegmentKind::Ism, SegmentKind::Dism];

fn shortage(kind: SegmentKind, page: PageSize, bytes: usize, locked: bool) -> Shortage {
    let created = options(kind, page, bytes).locked(locked).create();
    match created {
        Err(Error::Short(short)) => *short,
        other => panic!("{kind} {page}: {other:?}"),
    }
}

/// Runs a child, and checks that it succeeds and leaves nothing.
fn run(name: &str, value: &str) {
    let before = resources();
    let status = child(name, value).status().unwrap();
    assert!(status.success(), "{name}: {status}");
    assert_resources(before, name);
}

#[test]
fn more_than_is_available_fails_before_anything_is_allocated() {
    let _alone = alone();
    let resident = field("/proc/self/status", "VmHWM");
    for kind in KINDS {
        let available = usize::try_from(field("/proc/meminfo", "MemAvailable")).unwrap();
        let short = shortage(kind, PageSize::Base, available + 1024 * MIB, false);
        assert!(matches!(short.limit, Limit::Memory | Limit::Cgroup(_)), "{short}");
        assert!(short.missing_bytes() >= 512 << 20 && !short.remedy.is_empty(), "{short}");
    }
    assert!(field("/proc/self/status", "VmHWM") < resident + (64 << 20));
}

#[test]
fn dev_shm_and_huge_pages_are_limits() {
    let _alone = alone();
    let shm = rustix::fs::statvfs("/dev/shm").unwrap();
    let more = usize::try_from(shm.f_bavail * shm.f_frsize).unwrap() + MIB;
    assert_eq!(shortage(SegmentKind::Posix, PageSize::Base, more, false).limit, Limit::DevShm);
    for kind in [SegmentKind::Hugetlb, SegmentKind::Anon, SegmentKind::Ism, SegmentKind::Dism] {
        let short = shortage(kind, PageSize::HUGE_2M, 1 << 42, false);
        assert_eq!(short.limit, Limit::HugePages(2 * MIB), "{kind}");
    }
}

/// Promise (Segments): A limit is a typed error with the requested, available and missing amounts, and no process is
/// killed.
#[test]
fn memlock_is_a_limit() {
    let _alone = alone();
    run("memlock_child", "8");
}

#[test]
#[ignore = "run by memlock_is_a_limit"]
fn memlock_child() {
    let Some(mib) = value() else { return };
    let limit = mib.parse::<u64>().unwrap() << 20;
    mw_sys::set_memlock_limit_bytes(limit).unwrap();
    mw_sys::drop_capability(Capability::IpcLock).unwrap();
    for kind in KINDS {
        let locked = kind != SegmentKind::Ism;
        let short = shortage(kind, PageSize::Base, 64 * MIB, locked);
        assert_eq!((&short.limit, short.available_bytes), (&Limit::Memlock, limit), "{kind}");
        assert_eq!(short.missing_bytes(), (64 << 20) - limit);
        assert_eq!(field("/proc/self/status", "VmLck"), 0);
        drop(options(kind, PageSize::Base, 4 * MIB).locked(true).create().unwrap());
    }
}

#[test]
fn address_space_is_a_limit() {
    let _alone = alone();
    run("address_child", "256");
}

#[test]
#[ignore = "run by address_space_is_a_limit"]
fn address_child() {
    let Some(mib) = value() else { return };
    let bytes = Some(mib.parse::<u64>().unwrap() << 20);
    setrlimit(Resource::As, Rlimit { current: bytes, maximum: bytes }).unwrap();
    for kind in KINDS {
        assert_eq!(shortage(kind, PageSize::Base, 512 * MIB, false).limit, Limit::AddressSpace);
        drop(options(kind, PageSize::Base, 16 * MIB).create().unwrap());
    }
}

#[test]
fn a_memory_cgroup_is_a_limit_and_no_process_is_killed() {
    let _alone = alone();
    let group = match TestCgroup::new("memory") {
        Ok(group) => group,
        Err(error) => return skip(format!("no memory cgroup of version 1: {error}")),
    };
    fs::write(group.path().join("memory.limit_in_bytes"), "134217728").unwrap();
    run("cgroup_child", group.path().to_str().unwrap());
    let oom = fs::read_to_string(group.path().join("memory.oom_control")).unwrap();
    assert!(oom.contains("oom_kill 0") || !oom.contains("oom_kill "), "{oom}");
}

#[test]
#[ignore = "run by a_memory_cgroup_is_a_limit_and_no_process_is_killed"]
fn cgroup_child() {
    let Some(group) = value() else { return };
    fs::write(format!("{group}/cgroup.procs"), std::process::id().to_string()).unwrap();
    for kind in KINDS {
        let short = shortage(kind, PageSize::Base, 256 * MIB, false);
        assert!(matches!(&short.limit, Limit::Cgroup(path) if group.ends_with(path)), "{short}");
        assert!(
            short.available_bytes <= 128 << 20 && short.remedy.contains("limit_in_bytes"),
            "{short}"
        );
        // It is charged to this cgroup, whichever worker touched it.
        let segment = options(kind, PageSize::Base, 64 * MIB).create().unwrap();
        assert!(common::number(&format!("{group}/memory.usage_in_bytes")) >= 64 << 20);
        drop(segment);
    }
    // Two segments that each fit, but not together.
    let one = options(SegmentKind::Memfd, PageSize::Base, 80 * MIB).create().unwrap();
    let short = shortage(SegmentKind::Memfd, PageSize::Base, 80 * MIB, false);
    assert!(matches!(short.limit, Limit::Cgroup(_)), "{short}");
    drop(one);
    drop(options(SegmentKind::Memfd, PageSize::Base, 80 * MIB).create().unwrap());
}

#[test]
fn a_memory_cgroup_is_a_limit_in_a_cgroup_namespace() {
    let _alone = alone();
    let group = match TestCgroup::with_memory(128 << 20) {
        Ok(group) => group,
        Err(error) => return skip(format!("no memory cgroup: {error}")),
    };
    // The namespace has the machine's mount of the hierarchy, whose root it does not report.
    let own = child("namespaced_child", "128");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "echo $$ >$0 && exec unshare --cgroup -- \"$@\""]);
    shell.arg(group.members()).arg(own.get_program()).args(own.get_args());
    shell.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(shell.status().unwrap().success());
}

#[test]
#[ignore = "run by a_memory_cgroup_is_a_limit_in_a_cgroup_namespace"]
fn namespaced_child() {
    let Some(mib) = value() else { return };
    let limit = mib.parse::<u64>().unwrap() << 20;
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(own.lines().any(|line| line.ends_with(":/")), "{own}");
    let available = mw_segment::available_bytes().unwrap();
    assert!(available <= limit, "{available}");
    let short = shortage(SegmentKind::Memfd, PageSize::Base, 256 * MIB, false);
    assert!(matches!(short.limit, Limit::Cgroup(_)), "{short}");
}

#[test]
fn without_threads_the_caller_works_alone() {
    let _alone = alone();
    let group = match TestCgroup::new("pids") {
        Ok(group) => group,
        Err(error) => return skip(format!("no pids cgroup of version 1: {error}")),
    };
    run("threadless_child", group.path().to_str().unwrap());
}

#[test]
#[ignore = "run by without_threads_the_caller_works_alone"]
fn threadless_child() {
    let Some(group) = value() else { return };
    fs::write(format!("{group}/cgroup.procs"), std::process::id().to_string()).unwrap();
    fs::write(format!("{group}/pids.max"), "1").unwrap();
    for kind in KINDS {
        let segment = options(kind, PageSize::Base, 64 * MIB).create().unwrap();
        assert_eq!(segment.times().workers, 1, "{kind}");
    }
}
