//! A program that leaks beside programs that do not, on this machine, as the recorder sees them.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

use mw_model::{SizeHistory, SizedHolder};
use mw_record::Recording;
use mw_rules::trend::{Growth, TrendPoint, growth};
use mw_test::{TestCgroup, skip};
use mw_watch::{Watch, WatchOptions};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Says what a program of this test does.
const ROLE: &str = "MW_LEAK_ROLE";

const MIB: usize = 1 << 20;

/// Bytes that leak in a second.
const LEAK_MIB: f64 = 2.0;

/// The limit of the leak's cgroup: it is reached after two minutes.
const LIMIT_BYTES: u64 = 256 << 20;

/// Samples that are recorded, in place of one a minute.
const SAMPLES: u32 = 120;
const INTERVAL: Duration = Duration::from_millis(500);

/// Time between two steps of the programs.
const STEP: Duration = Duration::from_millis(100);

/// Ends a program whose test has gone.
const MAX_STEPS: u32 = 3000;

#[test]
#[ignore = "a program of the other test"]
fn program() {
    let role = std::env::var(ROLE).unwrap_or_default();
    let begun = Instant::now();
    let mut held: Vec<Vec<u8>> = vec![vec![1; 16 * MIB]];
    for step in 1..=MAX_STEPS {
        match role.as_str() {
            // As much as should have leaked by now, however late this step is.
            "leak" => {
                let due = begun.elapsed().as_secs_f64() * LEAK_MIB * 8.0;
                (held.len()..due as usize).for_each(|_| held.push(vec![1; MIB / 8]));
            }
            "saw" if step.is_multiple_of(80) => held.truncate(1),
            "saw" => held.push(vec![1; MIB]),
            _ => {}
        }
        std::thread::sleep(STEP);
    }
}

struct Program(Child);

impl Program {
    fn start(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "program"]).env(ROLE, role);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn growth(&self, history: &SizeHistory) -> Option<Growth> {
        let own = self.0.id();
        find(history, |holder| matches!(holder, SizedHolder::Process { pid, .. } if *pid == own))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn find(history: &SizeHistory, is_it: impl Fn(&SizedHolder) -> bool) -> Option<Growth> {
    let series = history.series.iter().find(|series| is_it(&series.holder)).unwrap();
    let point =
        |(ms, bytes): &(u64, u64)| TrendPoint { at_s: *ms as f64 / 1e3, value: *bytes as f64 };
    growth(&series.sizes.iter().map(point).collect::<Vec<_>>())
}

/// True if a rate is that of the leak, within a tenth.
fn is_right(growth: &Growth) -> bool {
    (growth.per_s / (LEAK_MIB * MIB as f64) - 1.0).abs() < 0.1
}

/// Promise (Trends): A real leak is measured within 10%, its cgroup's limit is forecast, and the programs beside it
/// are silent.
#[test]
fn a_leak_is_measured_and_programs_beside_it_are_silent() {
    let group = match TestCgroup::with_memory(LIMIT_BYTES) {
        Ok(group) => group,
        Err(error) => return skip(format!("no memory cgroup: {error}")),
    };
    let leak = Program::start("leak");
    fs::write(group.members(), leak.0.id().to_string()).unwrap();
    let others = ["saw", "steady"].map(Program::start);
    let dir = TempDir::new().unwrap();
    let recording = dir.path().join("recording.db");
    let watch = Watch::start(WatchOptions {
        canary: None,
        profile: false,
        sizes_interval: INTERVAL,
        ..WatchOptions::new(recording.clone())
    })
    .unwrap();
    std::thread::sleep(INTERVAL * SAMPLES);
    drop(watch);
    let history = Recording::open(&recording).unwrap().sizes(0, u64::MAX).unwrap();
    println!("{} samples of {} holders", history.at_unix_ms.len(), history.series.len());

    let found = leak.growth(&history).unwrap();
    println!("the process: {found:?}");
    assert!(is_right(&found), "{found:?}");
    for other in &others {
        assert_eq!(other.growth(&history), None);
    }
    let name = group.path().file_name().unwrap().to_string_lossy().into_owned();
    let is_ours = |holder: &SizedHolder| matches!(holder, SizedHolder::Cgroup { path } if path.ends_with(&name));
    let found = find(&history, is_ours).unwrap();
    assert!(is_right(&found), "{found:?}");
    let trends = mw_rules::trends(&history, "", None).unwrap();
    println!("{}", trends.summary);
    let of_group = trends.trends.iter().find(|trend| is_ours(&trend.holder)).unwrap();
    assert_eq!(of_group.full_bytes, LIMIT_BYTES);
    let room = LIMIT_BYTES as f64 - of_group.bytes as f64;
    let truth_h = room / (LEAK_MIB * MIB as f64) / 3600.0;
    assert!((of_group.hours_left.expected / truth_h - 1.0).abs() < 0.3, "{of_group:?}");
    drop(leak);
}
