//! What a restart costs with a pool and without: `cargo bench -p mw-pool`, and `-- --write` into
//! eval/results/benchmarks.md. The server is a process of its own; each figure is a median.
//!
//! `--size MIB` and `--rounds N` make it shorter or longer. Huge pages are reserved for it and given
//! back (root).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on fails")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/process.rs"]
mod process;

use common::{eventually, spec};
use mw_pool::protocol::Refusal;
use mw_pool::{Attach, Client, Error, PageSize, PoolName, PoolSpec};
use mw_sys::Region;
use mw_test::measure::{is_asked, median, number, replace};
use mw_test::{HugePages, alone};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fmt::Write;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn main() {
    if let Some(dir) = std::env::var_os("MW_POOL_DIR") {
        return serve(&PathBuf::from(dir));
    }
    let _alone = alone();
    let mut page = String::new();
    let (mib, rounds) = (number("--size", 4096), number("--rounds", 7));
    let _ = writeln!(
        page,
        "A program with {mib} MiB ends and starts again; medians of {rounds} rounds, in ms/GiB, as \
         the program sees them. Load average at the start: {}.\n",
        fs::read_to_string("/proc/loadavg").unwrap().split(' ').next().unwrap()
    );
    page.push_str(
        "| pages | plain: create, lock | free | pooled: attach, lock | detach | restart, pooled | \
         zeroing by the server | non-temporal stores | ratio |\n|---|---|---|---|---|---|---|---|\
         ---|\n",
    );
    for pages in [PageSize::HUGE_2M, PageSize::Thp, PageSize::Base] {
        match offered(pages) {
            Ok(()) => page.push_str(&row(pages, mib, rounds)),
            Err(why) => {
                let _ = writeln!(page, "| {} | {why} | | | | | | | |", pages.name());
            }
        }
    }
    print!("{page}");
    if is_asked("--write") {
        replace("cargo bench -p mw-pool", &page);
    }
}

fn offered(pages: PageSize) -> Result<(), String> {
    let shmem = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    match pages {
        PageSize::Thp if fs::read_to_string(shmem).is_ok_and(|text| text.contains("[never]")) => {
            Err("not available: shmem_enabled is never".to_owned())
        }
        _ => Ok(()),
    }
}

/// What can be done: whatever else runs only takes away from it.
fn best(rounds: &[[f64; 4]], column: usize) -> f64 {
    rounds.iter().map(|times| times[column]).fold(f64::INFINITY, f64::min)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Measurements, in ms: medians, and the best of zeroing.
#[derive(Debug)]
struct Measured {
    create: f64,
    free: f64,
    attach: f64,
    give_back: f64,
    zeroed: f64,
    ceiling: f64,
}

fn row(pages: PageSize, mib: usize, rounds: usize) -> String {
    let _reserved = pages.is_hugetlb().then(|| {
        HugePages::more(2 << 20, mib as u64 / 2)
            .unwrap_or_else(|| panic!("huge pages cannot be reserved"))
    });
    // The plain way and the pool have the same memory, one after the other.
    let plain: Vec<(f64, f64)> = (0..=rounds).map(|_| plain(pages, mib)).skip(1).collect();
    let served = Served::new(pages, mib);
    let pooled: Vec<[f64; 4]> = (0..=rounds).map(|_| served.pooled()).skip(1).collect();
    let measured = Measured {
        create: median(plain.iter().map(|(create, _)| *create).collect()),
        free: median(plain.iter().map(|(_, free)| *free).collect()),
        attach: median(pooled.iter().map(|times| times[0]).collect()),
        ceiling: best(&pooled, 1),
        give_back: median(pooled.iter().map(|times| times[2]).collect()),
        zeroed: best(&pooled, 3),
    };
    text(pages, mib, &measured)
}

fn text(pages: PageSize, mib: usize, measured: &Measured) -> String {
    let gib = mib as f64 / 1024.0;
    let Measured { create, free, attach, give_back, zeroed, ceiling } = measured;
    format!(
        "| {} | {:.1} | {:.1} | {:.2} | {:.2} | {:.0}x | {:.1} | {:.1} | {:.0}% |\n",
        pages.name(),
        create / gib,
        free / gib,
        attach / gib,
        give_back / gib,
        (create + free) / (attach + give_back),
        zeroed / gib,
        ceiling / gib,
        100.0 * ceiling / zeroed
    )
}

/// As a program does it that knows nothing of memwright: one thread, mmap(2) and mlock(2).
fn plain(pages: PageSize, mib: usize) -> (f64, f64) {
    let start = Instant::now();
    let huge = match pages {
        PageSize::HUGE_2M => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        _ => MemfdFlags::empty(),
    };
    let file = memfd_create("mw-pool-bench", MemfdFlags::CLOEXEC | huge).unwrap();
    ftruncate(&file, (mib * MIB) as u64).unwrap();
    let region = Region::reserve(mib * MIB, mw_sys::page_bytes(), 2 * MIB).unwrap();
    region.map_file(0..mib * MIB, file.as_fd(), 0).unwrap();
    if pages == PageSize::Thp {
        region.advise_thp(mw_sys::ThpAdvice::Enable).unwrap();
    }
    region.lock(0..mib * MIB).unwrap();
    let created = start.elapsed();
    let start = Instant::now();
    drop(region);
    drop(file);
    (ms(created), ms(start.elapsed()))
}

/// Zeroing memory that is there with stores that bypass the caches, by as many threads as there are
/// CPUs: nothing else is done. In ms.
fn zero(region: &Region) -> f64 {
    const PIECE: usize = 16 * MIB;
    let threads = std::thread::available_parallelism().unwrap().get();
    let next = AtomicUsize::new(0);
    let work = || loop {
        let start = next.fetch_add(PIECE, Ordering::Relaxed);
        if start >= region.bytes() {
            return;
        }
        region.zero_uncached(start..(start + PIECE).min(region.bytes())).unwrap();
    };
    let start = Instant::now();
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    ms(start.elapsed())
}

/// A server in a process of its own, with one pool.
struct Served {
    dir: tempfile::TempDir,
    child: Child,
    client: Client,
    name: PoolName,
    bytes: u64,
}

impl Served {
    fn new(pages: PageSize, mib: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let child = command.env("MW_POOL_DIR", dir.path()).spawn().unwrap();
        let client = Client::new(dir.path().join("pool.sock"));
        eventually("the server answers", || client.server().is_ok());
        let spec = PoolSpec { pages, ..spec("bench", mib as u64) };
        client.create(&spec).unwrap();
        let bytes = (mib * MIB) as u64;
        let served = Self { dir, child, client, name: spec.name, bytes };
        while !served.is_ready() {
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn is_ready(&self) -> bool {
        let pool = match self.client.pools() {
            Ok(mut pools) => pools.remove(0),
            // The limit on requests.
            Err(Error::Refused(Refusal::Limit, _)) => return false,
            Err(error) => panic!("{error}"),
        };
        assert!(pool.trouble.is_empty(), "{}", pool.trouble);
        pool.bytes.ready == self.bytes && pool.locked
    }

    /// Attaching, zeroing it all here, giving back, and the zeroing that the server does then
    /// beside the program, in ms.
    fn pooled(&self) -> [f64; 4] {
        let start = Instant::now();
        let memory = self.client.attach(&Attach::new(self.name.clone(), self.bytes)).unwrap();
        let attached = start.elapsed();
        assert!(memory.is_locked());
        let zeroing = (0..3).map(|_| zero(memory.region())).fold(f64::INFINITY, f64::min);
        let start = Instant::now();
        drop(memory);
        let detached = start.elapsed();
        let start = Instant::now();
        while !self.is_ready() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let zeroed = start.elapsed();
        // So that the next round stays below the limit on requests.
        std::thread::sleep(Duration::from_secs(1));
        [ms(attached), zeroing, ms(detached), ms(zeroed)]
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.client.remove(&self.name);
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert!(self.dir.path().exists());
    }
}

fn serve(dir: &Path) {
    process::serve(dir, u64::MAX, || ());
}
