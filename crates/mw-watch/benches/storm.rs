//! How punctual the recorder stays in a reclaim storm:
//! `cargo bench -p mw-watch --bench storm -- [SECONDS]`, as root.
//!
//! A memory cgroup of [`LIMIT_BYTES`] holds the recorder and processes that read a file four times as
//! large and touch fresh memory, so that whoever wants a page must reclaim one first. Printed is how
//! late the looks at the counters were, from the recording itself, before the storm and in it. The
//! largest of each second's ten is recorded: one second in a hundred is one look in a thousand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark ends where something fails")]

use mw_record::Recording;
use mw_sys::Scratch;
use mw_watch::{Watch, WatchOptions};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LIMIT_BYTES: usize = 96 << 20;
const FILE_BYTES: usize = 4 * LIMIT_BYTES;
/// Bytes that each of the touching processes touches; all of them stay within the limit.
const FRESH_BYTES: usize = 16 << 20;
const READERS: usize = 4;
const TOUCHERS: usize = 2;
const CALM: Duration = Duration::from_secs(20);
const USUAL_SECONDS: u64 = 120;
const GROUPS: &str = "/sys/fs/cgroup/memory";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["read", path] => until_told(|| read(Path::new(path))),
        ["touch"] => until_told(touch),
        _ => storm_of(args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(USUAL_SECONDS)),
    }
}

fn storm_of(seconds: u64) {
    let group = match Group::make() {
        Ok(group) => group,
        Err(error) => {
            println!("skipped: no memory cgroup of version 1 can be made in {GROUPS}: {error}");
            return;
        }
    };
    // What it caches of the file is the group's, or reading it would reclaim nothing.
    group.enter(std::process::id());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    write(&file);
    let recording = dir.path().join("recording.db");
    let watch = Watch::start(WatchOptions::new(recording.clone())).unwrap();
    let calm = window(CALM);
    let file = file.to_str().unwrap();
    let mut storm: Vec<Child> = Vec::new();
    storm.extend((0..READERS).map(|_| group.start(&["read", file])));
    storm.extend((0..TOUCHERS).map(|_| group.start(&["touch"])));
    let refused = group.refused();
    let stormy = window(Duration::from_secs(seconds));
    let refused = group.refused() - refused;
    for mut child in storm {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    let mut incidents = 0;
    while watch.event(Duration::ZERO).is_some() {
        incidents += 1;
    }
    drop(watch);
    println!("{} reclaims a second; {incidents} events of incidents", refused / seconds.max(1));
    println!("ms late, the worst of each second's looks:");
    println!("  calm:  {}", late(&recording, calm));
    println!("  storm: {}", late(&recording, stormy));
}

/// Lets time pass; from when to when, in milliseconds since 1970.
fn window(time: Duration) -> (u64, u64) {
    let since = unix_ms();
    std::thread::sleep(time);
    (since, unix_ms())
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn late(recording: &Path, (since, until): (u64, u64)) -> String {
    let ticks = Recording::open(recording).unwrap().ticks(since, until).unwrap();
    let mut late: Vec<u64> = ticks.iter().map(|tick| tick.recorder.late_us).collect();
    late.sort_unstable();
    let at = |share: f64| late[((late.len() - 1) as f64 * share).round() as usize] as f64 / 1000.0;
    format!(
        "median {:.1}, p90 {:.1}, p99 {:.1} (p99.9 of all looks), worst {:.1}, in {} s",
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0),
        late.len()
    )
}

/// A memory cgroup; gone with this process, however that ends, for a shell waits for its end.
struct Group {
    path: PathBuf,
    _cleaner: Child,
}

/// `$0` is the group, `$1` the one above.
const CLEAN: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
for turn in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    while read -r task; do echo "$task" > "$1/cgroup.procs"; done < "$0/cgroup.procs"
    rmdir "$0" && break
    sleep 0.2
done 2> /dev/null
"#;

impl Group {
    fn make() -> std::io::Result<Self> {
        let path = Path::new(GROUPS).join(format!("memwright-storm-{}", std::process::id()));
        fs::create_dir(&path)?;
        let cleaner = Command::new("sh")
            .args(["-c", CLEAN])
            .args([path.as_path(), Path::new(GROUPS)])
            .stdin(Stdio::piped())
            .spawn()?;
        fs::write(path.join("memory.limit_in_bytes"), LIMIT_BYTES.to_string())?;
        Ok(Self { path, _cleaner: cleaner })
    }

    fn enter(&self, pid: u32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// This program in the group, with another job; it ends with its standard input.
    fn start(&self, job: &[&str]) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let child = command.args(job).stdin(Stdio::piped()).spawn().unwrap();
        self.enter(child.id());
        child
    }

    /// Number of times that a page was refused until others were reclaimed.
    fn refused(&self) -> u64 {
        let text = fs::read_to_string(self.path.join("memory.failcnt")).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Group {
    /// The shell removes it; that needs its limit no more, and may take the memory that it has.
    fn drop(&mut self) {
        let _ = fs::write(self.path.join("memory.limit_in_bytes"), "-1");
        let above = Path::new(GROUPS).join("cgroup.procs");
        let _ = fs::write(above, std::process::id().to_string());
        let _ = fs::remove_dir(&self.path);
    }
}

/// Does a job again and again until the standard input ends.
fn until_told(mut job: impl FnMut()) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        TOLD.store(true, Ordering::Relaxed);
    });
    while !TOLD.load(Ordering::Relaxed) {
        job();
    }
}

/// Of a file that is larger than the group's memory, a piece at a time.
fn write(path: &Path) {
    let (mut file, piece) = (File::create(path).unwrap(), vec![1; 1 << 20]);
    for _ in 0..FILE_BYTES / piece.len() {
        file.write_all(&piece).unwrap();
    }
    file.sync_all().unwrap();
}

fn read(path: &Path) {
    let (mut file, mut buffer) = (File::open(path).unwrap(), vec![0; 1 << 20]);
    while file.read(&mut buffer).unwrap() > 0 {}
}

fn touch() {
    let mut memory = Scratch::with_base_pages(FRESH_BYTES).unwrap();
    memory.touch(0..FRESH_BYTES).unwrap();
}
