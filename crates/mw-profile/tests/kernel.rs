//! The profiler on the running kernel: what is made to happen is seen. Needs root, as it does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Busy, Setting};
use mw_model::{Profile, WaitKind};
use mw_profile::{BlockedThreads, Profiler, ProfilerOptions, TaskFiles, Tasks, delays_off};
use mw_test::{TestCgroup, alone, is_root};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Whether some stack of this process has the function.
fn has(profile: &Profile, pid: u32, function: &str) -> bool {
    let mine = profile.stacks.iter().filter(|stack| stack.pid == pid);
    mine.into_iter().any(|stack| profile.names(stack).any(|name| name == function))
}

#[test]
fn a_busy_loop_in_the_kernel_is_seen_with_its_functions() {
    if !is_root() {
        return;
    }
    let (profiler, missing) = Profiler::start(ProfilerOptions::default());
    assert!(missing.iter().all(|m| m.what.contains("tracing")), "{missing:?}");
    let stalled = Instant::now();
    profiler.begin();
    profiler.begin();
    let busy = Busy::reading_zero();
    busy.for_ms(500);
    let evidence = profiler.end();
    drop(busy);
    let profile = evidence.profile.unwrap();
    let elapsed_ms = u64::try_from(stalled.elapsed().as_millis()).unwrap();
    assert_eq!(profile.hz, 999);
    assert!((500..=elapsed_ms).contains(&profile.span_ms), "{}", profile.span_ms);
    assert!(has(&profile, std::process::id(), "read_zero"), "{:?}", profile.functions);
    let stack = profile.stacks.iter().find(|stack| stack.task == "busy-zero").unwrap();
    let names: Vec<_> = profile.names(stack).collect();
    let place = |name| names.iter().position(|n| *n == name);
    assert!(place("do_syscall_64") < place("read_zero"), "outermost first: {names:?}");
    assert_eq!(profiler.end(), mw_profile::ProfileEvidence::default(), "no stall is under way");
}

#[test]
fn the_baseline_is_always_on_and_leaves_stalls_out() {
    if !is_root() {
        return;
    }
    let options = ProfilerOptions { baseline_hz: 199, ..ProfilerOptions::default() };
    let began = Instant::now();
    let (profiler, _) = Profiler::start(options);
    let busy = Busy::reading_zero();
    busy.for_ms(400);
    let stalled = Instant::now();
    profiler.begin();
    busy.for_ms(400);
    let evidence = profiler.end();
    let baseline = profiler.baseline().unwrap();
    drop(busy);
    let before = evidence.baseline.unwrap();
    assert!(has(&before, 0, "read_zero"), "{:?}", before.functions);
    let calm_ms = u64::try_from((stalled - began).as_millis()).unwrap();
    // A late start of the stall does not count.
    assert!(before.span_ms <= calm_ms + 200, "{} of {calm_ms}", before.span_ms);
    assert!(baseline.span_ms >= before.span_ms && has(&baseline, 0, "read_zero"));
    assert!((before.hz, before.cpus) == (199, evidence.profile.unwrap().cpus));
}

/// Promise (The recorder): Reclaim and compaction are recorded as waits of the task that waited; lost records are
/// counted.
#[test]
fn reclaim_in_a_cgroup_is_a_wait_of_who_reclaims() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let cgroup = match TestCgroup::with_memory(24 * MIB as u64) {
        Ok(cgroup) => cgroup,
        Err(error) => return mw_test::skip(format!("no memory cgroup: {error}")),
    };
    let (profiler, missing) = Profiler::start(ProfilerOptions::default());
    assert_eq!(missing, []);
    profiler.begin();
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let path = file.path().to_str().unwrap();
    let script = format!(
        "echo $$ > {}; exec dd if=/dev/zero of={path} bs=1M count=96 status=none",
        cgroup.members().display()
    );
    let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait().unwrap().success());
    let evidence = profiler.end();
    let wait = evidence
        .waits
        .iter()
        .find(|wait| (wait.pid, wait.kind) == (pid, WaitKind::CgroupReclaim))
        .unwrap_or_else(|| panic!("{:?}", evidence.waits));
    assert!(wait.count > 10 && wait.total_us > 0 && wait.max_us <= wait.total_us, "{wait:?}");
    // The name is the one that it waited by first: a shell in the group may wait before it is dd.
    assert!(wait.order == Some(0) && ["sh", "dd"].contains(&wait.task.as_str()), "{wait:?}");
}

#[test]
fn waiters_are_processes_with_what_they_waited() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let mut child = Command::new("sh")
        .args(["-c", "while :; do echo 1 > /proc/sys/vm/compact_memory; sleep 0.05; done"])
        .spawn()
        .unwrap();
    let seen = mw_profile::waiters(Duration::from_millis(800)).unwrap();
    let waited = seen.processes.iter().find(|process| process.pid == child.id());
    assert!(waited.is_some_and(|waiter| waiter.waited_us > 0 && waiter.name == "sh"), "{seen:?}");
    assert!((750_000..5_000_000).contains(&seen.span_us), "{seen:?}");
    let is_kernel_thread = |name: &str| name.starts_with("kswapd") || name.starts_with("kcompactd");
    assert!(!seen.processes.iter().any(|process| is_kernel_thread(&process.name)), "{seen:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn compaction_is_a_wait_with_its_node() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let (profiler, _) = Profiler::start(ProfilerOptions::default());
    profiler.begin();
    let mut child = Command::new("sh")
        .args(["-c", "echo 1 > /proc/sys/vm/compact_memory; sleep 0.3"])
        .spawn()
        .unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let evidence = profiler.end();
    let found = |w: &&mw_model::KernelWait| (w.pid, w.kind) == (pid, WaitKind::Compaction);
    let wait = evidence.waits.iter().find(found);
    let wait = wait.unwrap_or_else(|| panic!("{:?}", evidence.waits));
    assert_eq!((wait.order, wait.node), (None, Some(0)), "nobody wanted a block: {wait:?}");
    assert!(wait.count >= 1, "{wait:?}");
}

/// Promise (The recorder): The writer that fills the page cache is identified by process and path.
#[test]
fn who_fills_the_page_cache_is_known_by_process_and_path() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let (profiler, _) =
        Profiler::start(ProfilerOptions { flood_period: 64, ..ProfilerOptions::default() });
    let mut file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    // Small writes make small folios, and so enough samples.
    for _ in 0..64 * MIB / 4096 {
        file.write_all(&[1; 4096]).unwrap();
    }
    let other = file.path().with_extension("other");
    let to = format!("of={}", other.display());
    let dd = ["if=/dev/zero", &to, "bs=4k", "count=4096", "status=none"];
    assert!(Command::new("dd").args(dd).status().unwrap().success());
    fs::remove_file(&other).unwrap();
    let flood = profiler.flood();
    let dd = flood.iter().find(|share| share.task == "dd" && share.pages > 2000);
    assert!(dd.is_some(), "its name is known though it is gone: {flood:?}");
    let own = (std::process::id(), file.path().to_str().unwrap());
    let share = flood.iter().find(|share| (share.pid, share.path.as_str()) == own);
    let share = share.unwrap_or_else(|| panic!("{own:?}: {flood:?}"));
    let pages = 64 * MIB as u64 / 4096;
    assert!((pages / 2..pages * 2).contains(&share.pages), "{share:?}");
}

#[test]
fn a_stopped_task_is_found_in_every_look() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id();
    common::stop(pid);
    let mut blocked = BlockedThreads::default();
    for _ in 0..3 {
        blocked.look(&mut TaskFiles::start().unwrap(), Duration::from_secs(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let tasks = blocked.tasks();
    let task = tasks.iter().find(|task| task.pid == pid).unwrap();
    assert_eq!((task.task.as_str(), task.state), ("sleep", 'T'));
    assert_eq!((task.seen, task.looks), (3, 3));
    assert!(!task.stack.is_empty() || !blocked.missing().is_empty(), "{task:?}");
}

#[test]
fn what_a_task_used_is_the_difference_of_two_looks() {
    let before = Tasks::look(&mut TaskFiles::start().unwrap(), Duration::from_secs(5));
    let busy = Busy::reading_zero();
    let memory = vec![1_u8; 32 * MIB];
    busy.for_ms(200);
    let uses = Tasks::look(&mut TaskFiles::start().unwrap(), Duration::from_secs(5)).since(&before);
    drop(busy);
    let used = uses.iter().find(|used| used.pid == std::process::id()).unwrap();
    assert!(used.system_ms > 50, "{used:?}");
    assert!(used.resident_growth_bytes > 24 << 20, "{used:?} {}", memory.len());
    assert!(used.written_bytes.is_some() && used.minor_faults > 0, "{used:?}");
}

#[test]
fn delays_are_seen_where_the_kernel_accounts_them() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let Some(accounting) = Setting::open("/proc/sys/kernel/task_delayacct") else { return };
    accounting.set("0");
    assert!(delays_off().unwrap().why.contains("task_delayacct=1"));
    assert_eq!(
        Tasks::look(&mut TaskFiles::start().unwrap(), Duration::from_secs(5)).missing(),
        [],
        "no news in every incident"
    );
    accounting.set("1");
    assert_eq!(delays_off(), None);
    let before = Tasks::look(&mut TaskFiles::start().unwrap(), Duration::from_secs(5));
    assert_eq!(before.missing(), []);
    let cpus = std::thread::available_parallelism().unwrap().get();
    let busy: Vec<_> = (0..2 * cpus).map(|_| Busy::reading_zero()).collect();
    busy.iter().for_each(|busy| busy.for_ms(100));
    let uses = Tasks::look(&mut TaskFiles::start().unwrap(), Duration::from_secs(5)).since(&before);
    drop(busy);
    let own = uses.iter().find(|used| used.pid == std::process::id()).unwrap();
    assert!(own.delays.unwrap().cpu_us > 50_000, "twice as many threads as processors: {own:?}");
}

/// Run by the next test as nobody.
#[test]
#[ignore = "run by another test, without privileges"]
fn as_nobody() {
    let (profiler, missing) = Profiler::start(ProfilerOptions::default());
    for missing in &missing {
        println!("missing {missing}");
    }
    profiler.begin();
    let evidence = profiler.end();
    println!("profile {:?} waits {:?}", evidence.profile, evidence.waits);
    println!("baseline {:?} flood {:?}", profiler.baseline(), profiler.flood());
}

/// Promise (The recorder): Without privileges the profiler starts and reports what it cannot see.
#[test]
fn without_privilege_it_starts_and_says_what_it_cannot_see() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let copy = dir.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    common::readable_by_all(dir.path());
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let output = Command::new("setpriv")
        .args(nobody)
        .arg("--")
        .arg(&copy)
        .args(["as_nobody", "--exact", "--ignored", "--nocapture"])
        .current_dir("/")
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for said in ["perf_event_open (kernel stacks)", "CAP_PERFMON", "tracing", "profile None"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.contains("baseline None flood []"), "{text}");
}
