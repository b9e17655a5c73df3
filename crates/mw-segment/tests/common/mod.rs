//! Helpers of the tests of segments.

#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_segment::{Options, PageSize, SegmentKind};
use std::fs;

pub(crate) const MIB: usize = 1 << 20;

/// Resources that can outlive a process: shared memory, huge pages, System V segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelResources {
    /// Other programs may change the size of the pool during a test.
    pub(crate) huge_total_2m: u64,
    pub(crate) huge_free_2m: u64,
    pub(crate) huge_reserved_2m: u64,
    pub(crate) sysv: usize,
    pub(crate) names: usize,
}

pub(crate) fn resources() -> KernelResources {
    let pool = |file| number(&format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{file}"));
    KernelResources {
        huge_total_2m: pool("nr_hugepages"),
        huge_free_2m: pool("free_hugepages"),
        huge_reserved_2m: pool("resv_hugepages"),
        sysv: fs::read_to_string("/proc/sysvipc/shm").unwrap().lines().count() - 1,
        names: fs::read_dir("/dev/shm").unwrap().count(),
    }
}

/// Waits until all resources are freed. There is no event for it: the kernel frees those of a process after
/// its last thread has ended, possibly after wait(2), and other programs use the machine as well.
pub(crate) fn assert_resources(before: KernelResources, what: &str) {
    let same = |now: KernelResources| {
        let pool = now.huge_total_2m != before.huge_total_2m
            || (now.huge_free_2m, now.huge_reserved_2m)
                == (before.huge_free_2m, before.huge_reserved_2m);
        // Fewer of the machine's segments and names: other programs have removed theirs.
        pool && now.sysv <= before.sysv && now.names <= before.names
    };
    for _ in 0..300 {
        if same(resources()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{what}: {before:?} before, {:?} now", resources());
}

pub(crate) fn number(path: &str) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// A field of a file like /proc/meminfo, in bytes.
pub(crate) fn field(path: &str, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Waits until the machine's shared memory has returned to the earlier value, within `slack_bytes`: other
/// programs change the counter only temporarily, while a leak stays. There is no event for it.
pub(crate) fn assert_shmem_returns(before: u64, slack_bytes: u64) {
    for _ in 0..100 {
        if field("/proc/meminfo", "Shmem") <= before + slack_bytes {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("shared memory was {before}, is {}", field("/proc/meminfo", "Shmem"));
}

/// Options of a segment; one of kind posix gets a unique name.
pub(crate) fn options(
    kind: SegmentKind,
    page: impl Into<Option<PageSize>>,
    bytes: usize,
) -> Options {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let options = Options::new(bytes).kind(kind).page_size(page);
    if kind == SegmentKind::Posix {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        options.name(format!("mw-test-{}-{number}", std::process::id()))
    } else {
        options
    }
}

/// Runs the ignored test `name` of this program in another process, with `value` in its environment.
pub(crate) fn child(name: &str, value: &str) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("MW_TEST_VALUE", value);
    command
}

/// The value that the child was started with; none if ignored tests are run by hand.
pub(crate) fn value() -> Option<String> {
    std::env::var("MW_TEST_VALUE").ok()
}

/// A random number generator: xorshift64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = now.as_nanos() as u64 | 1;
        eprintln!("seed {seed}");
        Self(seed)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
