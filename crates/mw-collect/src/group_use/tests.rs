#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use super::*;
use rustix::fs::open;
use std::fs;
use std::process::{Child, Command};

const PATIENCE: Duration = Duration::from_secs(10);

/// A directory in place of a hierarchy.
struct Made {
    folder: tempfile::TempDir,
    controllers: Controllers,
}

impl Made {
    fn new(controllers: Controllers) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), controllers }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn hierarchy(&self) -> OpenHierarchy {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        OpenHierarchy {
            dir: open(self.folder.path(), flags, Mode::empty()).unwrap(),
            root: "/".to_owned(),
            controllers: self.controllers,
        }
    }
}

fn sampler(made: &[&Made]) -> GroupSampler {
    let hierarchies = made.iter().map(|made| made.hierarchy()).collect();
    GroupSampler { hierarchies, buffers: ReadBuffers::default(), before: BTreeMap::new() }
}

fn unified() -> Made {
    Made::new(Controllers { unified: true, ..Controllers::default() })
}

fn since(sampler: &mut GroupSampler, earlier: &GroupSample, service: &[String]) -> Vec<GroupUse> {
    let later = sampler.sample(PATIENCE, service);
    sampler.difference(earlier, &[], &later)
}

/// Promise (The recorder): A limit that is set after the alarm's sample and lifted before the stall ends is known.
#[test]
fn a_limit_that_was_set_and_lifted_meanwhile_is_known() {
    let made = unified();
    let service = ["/db".to_owned()];
    let limit = |quota: &str| made.write("db/cpu.max", &format!("{quota}\n"));
    made.write("db/cpu.stat", "usage_usec 100\nnr_throttled 0\nthrottled_usec 0\n");
    limit("max 100000");
    let mut sampler = sampler(&[&made]);
    let mut earlier = sampler.sample(PATIENCE, &service);
    // The same ones once more take no room of others.
    (0..8).for_each(|_| sampler.add_limits(&mut earlier, &service));
    limit("4000 1000000");
    sampler.add_limits(&mut earlier, &service);
    limit("max 100000");
    made.write("db/cpu.stat", "usage_usec 900\nnr_throttled 5\nthrottled_usec 9000000\n");
    let uses = since(&mut sampler, &earlier, &service);
    let db = uses.iter().find(|group| group.path == "/db").unwrap();
    assert_eq!((db.cpu_quota_us, db.cpu_period_us), (Some(4000), Some(1_000_000)));
    assert_eq!(db.throttled_wall_us(), 5_000_000);
    limit("400000 100000");
    let first = sampler.sample(PATIENCE, &service);
    limit("4000 1000000");
    let between = sampler.sample(PATIENCE, &service);
    limit("max 100000");
    let last = sampler.sample(PATIENCE, &service);
    let uses = sampler.difference(&first, &[&between], &last);
    let latest = uses.iter().find(|group| group.path == "/db").unwrap();
    assert_eq!((latest.cpu_quota_us, latest.cpu_period_us), (Some(4000), Some(1_000_000)));
    let lifted = GroupUse { cpu_quota_us: None, cpu_period_us: Some(100_000), ..db.clone() };
    assert_eq!(lifted.throttled_wall_us(), 5_000_000, "its period is not known");
}

fn paths(uses: &[GroupUse]) -> Vec<&str> {
    uses.iter().map(|group| group.path.as_str()).collect()
}

/// Promise (The recorder): What cgroups used, waited for and were limited by is read for version 1, 2 and hybrid,
/// those of the service first.
#[test]
fn differences_of_version_2() {
    let made = unified();
    let io = "254:254 rbytes=0 wbytes=4096 rios=0 wios=1 dbytes=0 dios=0\n\
              254:255 rbytes=4 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n";
    made.write("db/memory.stat", "anon 1\nworkingset_refault_file 10\npgscan 5\n");
    made.write("db/memory.events", "low 0\nhigh 1\nmax 2\noom 0\noom_kill 0\n");
    made.write("db/memory.max", "1048576\n");
    made.write("db/memory.high", "max\n");
    made.write("db/memory.swap.events", "high 3\nmax 0\nfail 0\n");
    made.write("db/memory.swap.high", "65536\n");
    made.write("db/cpu.stat", "usage_usec 100\nnr_throttled 1\nthrottled_usec 50\n");
    made.write("db/cpu.max", "20000 100000\n");
    made.write("db/io.stat", io);
    made.write("db/io.max", "254:254 rbps=max wbps=1000 riops=max wiops=max\n");
    made.write("db/cgroup.events", "populated 1\nfrozen 0\n");
    made.write("calm/memory.stat", "anon 1\nworkingset_refault_file 10\n");
    made.write("calm/io.stat", io);
    let mut sampler = sampler(&[&made]);
    let earlier = sampler.sample(PATIENCE, &[]);
    let stat =
        "anon 1\nfile_dirty 8192\nfile_writeback 4096\nworkingset_refault_file 17\npgscan 9\n";
    made.write("db/memory.stat", stat);
    made.write("db/memory.swap.events", "high 10\nmax 0\nfail 0\n");
    // Limits of the groups below are not its own.
    made.write("db/memory.events", "low 0\nhigh 2\nmax 9\noom 0\noom_kill 1\n");
    made.write("db/memory.events.local", "low 0\nhigh 2\nmax 5\noom 0\noom_kill 0\n");
    made.write("db/cpu.stat", "usage_usec 300\nnr_throttled 3\nthrottled_usec 90\n");
    made.write("db/io.stat", &io.replace("rbytes=0", "rbytes=8192"));
    made.write("db/cgroup.events", "populated 1\nfrozen 1\n");
    made.write("new/memory.events", "high 0\nmax 4\n");
    made.write("new/memory.stat", "anon 1\n");
    let uses = since(&mut sampler, &earlier, &[]);
    assert_eq!(paths(&uses), ["/db", "/new"], "the calm group is left out");
    let db = &uses[0];
    assert_eq!((db.refaults_file, db.refaults_anon, db.pgscan), (Some(7), None, Some(4)));
    assert_eq!((db.high_events, db.max_events, db.oom_kills), (Some(1), Some(3), Some(1)));
    assert_eq!((db.swap_high_events, db.memory_swap_high_bytes), (Some(7), Some(1 << 16)));
    assert_eq!(db.memory_dirty_bytes, Some(12 << 10));
    assert_eq!((db.cpu_us, db.throttled_us), (Some(200), Some(40)));
    assert_eq!((db.throttled_periods, db.frozen), (Some(2), true));
    assert_eq!((db.memory_max_bytes, db.memory_high_bytes), (Some(1 << 20), None));
    assert_eq!((db.cpu_quota_us, db.cpu_period_us), (Some(20_000), Some(100_000)));
    assert_eq!(db.io[0].device, "254:254", "no such device here");
    assert_eq!((db.io[0].read_bytes, db.io[0].written_bytes), (8192, 0));
    assert_eq!((db.io[1].read_bytes, db.io[1].written_bytes), (0, 0), "it used that before");
    assert_eq!(db.io_limits, ["254:254 wbps=1000"]);
    assert_eq!(uses[1].max_events, Some(4), "a new group counts from zero");
}

#[test]
fn hierarchies_of_version_1_are_merged_by_path() {
    let made = |controllers| Made::new(controllers);
    let memory = made(Controllers { memory: true, ..Controllers::default() });
    let cpu = made(Controllers { cpu: true, cpuacct: true, ..Controllers::default() });
    let rest = made(Controllers { blkio: true, freezer: true, ..Controllers::default() });
    memory.write("db/memory.stat", "rss 1\ntotal_workingset_refault_file 4\n");
    memory.write("db/memory.failcnt", "7\n");
    memory.write("db/memory.limit_in_bytes", "4096\n");
    memory.write("db/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    cpu.write("db/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 9000\n");
    cpu.write("db/cpu.cfs_quota_us", "10000\n");
    cpu.write("db/cpu.cfs_period_us", "100000\n");
    cpu.write("db/cpuacct.usage", "5000\n");
    rest.write("db/blkio.throttle.io_service_bytes_recursive", "254:254 Read 5\nTotal 5\n");
    rest.write("db/blkio.throttle.read_bps_device", "254:254 1024\n");
    rest.write("db/blkio.throttle.write_iops_device", "254:254 10\n");
    rest.write("db/freezer.state", "FROZEN\n");
    let mut sampler = sampler(&[&memory, &cpu, &rest]);
    let nothing = GroupSample { at: Instant::now(), groups: BTreeMap::new(), complete: true };
    let uses = since(&mut sampler, &nothing, &[]);
    assert_eq!(paths(&uses), ["/db"]);
    let db = &uses[0];
    assert_eq!((db.refaults_file, db.max_events, db.oom_kills), (Some(4), Some(7), Some(2)));
    assert_eq!((db.cpu_us, db.throttled_us), (Some(5), Some(9)));
    assert_eq!((db.cpu_quota_us, db.cpu_period_us), (Some(10_000), Some(100_000)));
    assert_eq!((db.memory_max_bytes, db.frozen), (Some(4096), true));
    assert_eq!(db.io[0].read_bytes, 5);
    assert_eq!(db.io_limits, ["254:254 rbps=1024 wiops=10"]);
}

#[test]
fn groups_of_the_service_come_first_and_are_read_when_time_is_short() {
    let made = unified();
    for group in ["a", "b", "system.slice/db.service", "system.slice/web.service"] {
        made.write(&format!("{group}/memory.events"), "high 0\nmax 1\n");
        made.write(&format!("{group}/memory.stat"), "anon 1\n");
    }
    let mut sampler = sampler(&[&made]);
    let service = ["/system.slice/db.service".to_owned(), "/../../etc".to_owned()];
    let sample = sampler.sample(Duration::ZERO, &service);
    assert!(!sample.is_complete());
    let all: Vec<_> = sample.groups.keys().map(String::as_str).collect();
    assert_eq!(all, ["/system.slice", "/system.slice/db.service"]);
    let nothing = GroupSample { at: Instant::now(), groups: BTreeMap::new(), complete: true };
    let uses = since(&mut sampler, &nothing, &service);
    assert!(uses[..2].iter().all(|group| group.of_service), "{uses:?}");
    assert_eq!(uses.len(), 5);
    assert!(since(&mut sampler, &sample, &[]).len() < 5, "unknown before");
}

#[test]
fn a_group_removed_and_made_again_counts_from_zero() {
    let made = unified();
    made.write("db/memory.stat", "anon 1\n");
    made.write("db/memory.events", "max 9\n");
    let mut sampler = sampler(&[&made]);
    let earlier = sampler.sample(PATIENCE, &[]);
    made.write("db/memory.events", "max 2\n");
    assert_eq!(since(&mut sampler, &earlier, &[])[0].max_events, Some(2));
}

#[test]
fn the_memory_files_are_read_when_memory_or_io_was_waited_for() {
    let pressure = |us| format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n");
    let made = unified();
    made.write("db/memory.stat", "anon 1\nworkingset_refault_file 1\n");
    made.write("db/memory.pressure", &pressure(5000));
    let mut sampler = sampler(&[&made]);
    let earlier = sampler.sample(PATIENCE, &[]);
    made.write("db/memory.stat", "anon 1\nworkingset_refault_file 3\n");
    assert!(since(&mut sampler, &earlier, &[]).is_empty());
    made.write("db/memory.pressure", &pressure(9000));
    let db = &since(&mut sampler, &earlier, &[])[0];
    assert_eq!((db.refaults_file, db.memory_pressure_us), (Some(2), Some(4000)));
    // What was not in use when it was reclaimed is no wait for memory when it is read again.
    made.write("db/io.pressure", &pressure(100));
    let earlier = sampler.sample(PATIENCE, &[]);
    made.write("db/memory.stat", "anon 1\nworkingset_refault_file 3003\n");
    assert!(since(&mut sampler, &earlier, &[]).is_empty());
    made.write("db/io.pressure", &pressure(70_100));
    let db = &since(&mut sampler, &earlier, &[])[0];
    assert_eq!((db.refaults_file, db.io_pressure_us), (Some(3000), Some(70_000)));
}

#[test]
fn a_group_that_went_with_its_service_is_named_with_its_limit() {
    let made = unified();
    made.write("db.service/memory.max", "4096\n");
    made.write("other/memory.max", "4096\n");
    let mut sampler = sampler(&[&made]);
    let service = ["/db.service".to_owned()];
    let earlier = sampler.sample(PATIENCE, &service);
    fs::remove_dir_all(made.folder.path().join("db.service")).unwrap();
    fs::remove_dir_all(made.folder.path().join("other")).unwrap();
    let uses = since(&mut sampler, &earlier, &service);
    assert_eq!(paths(&uses), ["/db.service"]);
    assert_eq!((uses[0].memory_max_bytes, uses[0].oom_kills), (Some(4096), None));
}

#[test]
fn a_limit_that_was_lifted_is_named() {
    let made = unified();
    made.write("db/memory.max", "4096\n");
    let mut sampler = sampler(&[&made]);
    let service = ["/db".to_owned()];
    let earlier = sampler.sample(PATIENCE, &service);
    made.write("db/memory.max", "max\n");
    assert_eq!(since(&mut sampler, &earlier, &service)[0].memory_max_bytes, Some(4096));
}

/// A process that ends with the test, passed or not.
struct Busy(Child);

impl Busy {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn a_quota_of_a_real_group_is_seen() {
    if !mw_test::is_root() {
        return;
    }
    let Ok(group) = mw_test::TestCgroup::new("cpu") else {
        return mw_test::skip("no cpu cgroup of version 1");
    };
    fs::write(group.path().join("cpu.cfs_quota_us"), "10000").unwrap();
    let source = Source::live().unwrap();
    let mut sampler = GroupSampler::find(&source).unwrap();
    let path = format!("/{}", group.path().file_name().unwrap().to_str().unwrap());
    let earlier = sampler.sample(PATIENCE, std::slice::from_ref(&path));
    let script = format!("echo $$ > {}; while :; do :; done", group.members().display());
    let mut busy = Busy(Command::new("sh").args(["-c", &script]).spawn().unwrap());
    let begun = Instant::now();
    let throttled = loop {
        let uses = since(&mut sampler, &earlier, std::slice::from_ref(&path));
        let group = uses.into_iter().find(|group| group.path == path).unwrap();
        assert!(group.of_service);
        if group.throttled_us > Some(50_000) || begun.elapsed() > PATIENCE {
            break group;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(sampler.cgroups_of(busy.0.id()).contains(&path));
    assert!(sampler.cgroups_of(busy.0.id()).first().is_some_and(|path| path != "/"));
    busy.end();
    assert!(throttled.throttled_us > Some(50_000), "{throttled:?}");
    assert_eq!(throttled.cpu_quota_us, Some(10_000));
    assert_eq!(sampler.cgroups_of(busy.0.id()).first(), None, "it has gone");
}

/// Run by hand with `--ignored --nocapture`: how long a sample takes here.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_sample() {
    let source = Source::live().unwrap();
    let mut sampler = GroupSampler::find(&source).unwrap();
    for _ in 0..5 {
        let (begun, cpu) = (Instant::now(), thread_time());
        let first = sampler.sample(PATIENCE, &[]);
        let (wall, cpu) = (begun.elapsed(), thread_time() - cpu);
        let uses = since(&mut sampler, &first, &[]);
        println!("{} groups: {wall:?}, cpu {cpu:?}; {} uses", first.groups(), uses.len());
    }
}

#[test]
fn the_groups_above_a_group() {
    assert_eq!(ancestry("/a/b").collect::<Vec<_>>(), ["/a/b", "/a"]);
    for none in ["/", "", "a/b"] {
        assert_eq!(ancestry(none).count(), 0);
    }
}
