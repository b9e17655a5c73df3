//! The cost of starting PostgreSQL with and without shared memory from a pool:
//! `cargo bench -p mw-preload --bench pooled`; `-- --write` writes eval/results/benchmarks.md.
//!
//! `--size MIB` (of shared buffers) and `--rounds N` make it shorter or longer. It reserves huge pages and
//! frees them at the end (needs root). Plain starts and the pool use the same memory one after the other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../../mw-pool/tests/common/mod.rs"]
mod pools;
mod postgres;
#[path = "../tests/workloads/mod.rs"]
mod workloads;

use mw_pool::protocol::PoolStatus;
use mw_pool::{Owners, PageSize, PoolSpec};
use mw_test::measure::{is_asked, median, number, others, replace};
use mw_test::{HugePages, alone};
use pools::{MIB, Running, spec};
use postgres::Cluster;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use workloads::NOBODY;

const COMMAND: &str = "cargo bench -p mw-preload --bench pooled";
const POOL: &str = "db";
/// The range of one page table of huge pages, which is the stripe size of a pool from four of them on.
const GIB: usize = 1024;
/// No round starts later than this.
const MAX_TIME: Duration = Duration::from_secs(60);
const HEAD: &str = "| pages | command | rounds | start to first query, ms | first use, ms | stop, ms | page faults \
     to the first query | in the first use |\n|---|---|---|---|---|---|---|---|\n";
/// A checksum of the table: the same in all variants.
const CHECK: &str = "SELECT count(*), sum(n), sum(hashtext(filler)) FROM pages";

/// Command line of the server.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    prefault: bool,
}

const PLAIN: Variant = Variant { name: "as it is", prefault: false };
const PREFAULT: Variant = Variant { name: "`run --prefault=now`", prefault: true };
const POOLED: Variant = Variant { name: "`run --pool`", prefault: false };
const POOLED_PREFAULT: Variant = Variant { name: "`run --pool --prefault=now`", prefault: true };

/// The measurements of one start.
#[derive(Debug)]
struct Round {
    /// Time to the first reply, in ms.
    start: f64,
    /// Time to read the table into the buffers, in ms.
    first_use: f64,
    /// Time from the signal to its end, in ms.
    stop: f64,
    /// Page faults of all processes until the first reply, and while the table was read.
    faults: [f64; 2],
}

/// The rounds of one variant.
struct Row {
    pages: PageSize,
    variant: Variant,
    rounds: Vec<Round>,
}

impl Row {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    fn faults(&self, part: usize) -> f64 {
        self.median(|round| round.faults[part])
    }

    fn start(&self) -> f64 {
        self.median(|round| round.start)
    }

    fn text(&self) -> String {
        format!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
            self.pages.name(),
            self.variant.name,
            self.rounds.len(),
            self.start(),
            self.median(|round| round.first_use),
            self.median(|round| round.stop),
            self.faults(0),
            self.faults(1)
        )
    }
}

struct Bench {
    cluster: Cluster,
    rounds: usize,
    pool_mib: usize,
    /// The checksum of the first round.
    checksum: Option<String>,
}

fn main() {
    let (mib, rounds) = (number("--size", 8192), number("--rounds", 5));
    let _alone = alone();
    let busy = others();
    let table_mib = mib / 4;
    println!("a cluster with a table of {table_mib} MiB");
    let Some(cluster) = Cluster::new(mib, table_mib) else {
        println!("skipped: PostgreSQL is not installed");
        return;
    };
    let shared_mib = cluster.shared_mib();
    let pool_mib = shared_mib.next_multiple_of(GIB);
    let mut bench = Bench { cluster, rounds, pool_mib, checksum: None };
    let tables = [PageSize::HUGE_2M, PageSize::Base].map(|pages| bench.measure_variants(pages));
    let mut page = format!(
        "{}, {mib} MiB of shared buffers, {shared_mib} MiB of shared memory, a table of {table_mib} MiB; \
         medians; other load at the start: {busy}.\n\n{HEAD}",
        bench.cluster.version()
    );
    page.extend(tables.iter().flatten().map(Row::text));
    page.push_str("\nWith all shared memory populated at the first query, a pooled start is ");
    page += &tables.each_ref().map(|rows| gain(rows)).join(" and ");
    page.push_str(" as fast as a plain one.\n");
    print!("{page}");
    if is_asked("--write") {
        replace(COMMAND, &page);
    }
    for rows in &tables {
        assert_fewer_faults(rows, shared_mib, pool_mib);
    }
}

/// The two variants that have all shared memory populated at the first query, plain and pooled.
fn populated(rows: &[Row]) -> (&Row, &Row) {
    match rows {
        [_, plain, .., pooled] => (plain, pooled),
        _ => panic!("{} variants", rows.len()),
    }
}

fn gain(rows: &[Row]) -> String {
    let (plain, pooled) = populated(rows);
    format!("{:.1} times ({} pages)", plain.start() / pooled.start(), plain.pages.name())
}

/// Populated memory is mapped with several pages in a fault: base pages with their neighbours
/// (fault-around), huge pages by page tables that processes share, if the stripes of the pool are as
/// large as those map.
fn assert_fewer_faults(rows: &[Row], shared_mib: usize, pool_mib: usize) {
    let (plain, pooled) = populated(rows);
    if plain.pages.is_hugetlb() && pool_mib < 4 * GIB {
        return;
    }
    let pages = shared_mib as f64 * MIB as f64
        / plain.pages.granule_bytes(mw_sys::page_bytes() as u64) as f64;
    let (most, faults) = (plain.faults(0) - pages / 2.0, pooled.faults(0));
    assert!(faults <= most, "{}: {faults} page faults", plain.pages.name());
}

impl Bench {
    /// Measures all variants with pages of this size.
    fn measure_variants(&mut self, pages: PageSize) -> Vec<Row> {
        let _reserved = pages.is_hugetlb().then(|| {
            let more = HugePages::more(2 << 20, self.pool_mib as u64 / 2);
            more.unwrap_or_else(|| panic!("huge pages cannot be reserved"))
        });
        if pages.is_hugetlb() {
            // Files are not cached yet, and the hypervisor has not backed the reserved pages.
            let warm_up = self.round(pages, PREFAULT, None);
            println!("{} pages, to warm up: {warm_up:.0?}", pages.name());
        }
        let mut rows = self.measure_in_turn(pages, &[PLAIN, PREFAULT], None);
        let pool = Running::new(u64::MAX);
        let owners = Owners { users: vec![NOBODY], groups: Vec::new() };
        let spec = PoolSpec { pages, owners, ..spec(POOL, self.pool_mib as u64) };
        pool.client.create(&spec).unwrap();
        fs::set_permissions(pool.socket.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
        // Huge pages are always mapped immediately.
        let variants = if pages.is_hugetlb() { &[POOLED][..] } else { &[POOLED, POOLED_PREFAULT] };
        rows.extend(self.measure_in_turn(pages, variants, Some(&pool)));
        pool.client.remove(&spec.name).unwrap();
        rows
    }

    /// Measures variants in turn.
    fn measure_in_turn(
        &mut self,
        pages: PageSize,
        variants: &[Variant],
        pool: Option<&Running>,
    ) -> Vec<Row> {
        let row = |variant: &Variant| Row { pages, variant: *variant, rounds: Vec::new() };
        let mut rows: Vec<Row> = variants.iter().map(row).collect();
        let start = Instant::now();
        while rows[0].rounds.len() < self.rounds && start.elapsed() < MAX_TIME {
            for row in &mut rows {
                if pool.is_none() && !pages.is_hugetlb() {
                    self.cluster.touch_memory();
                }
                let round = self.round(pages, row.variant, pool);
                println!("{} pages, {}: {round:.0?}", pages.name(), row.variant.name);
                row.rounds.push(round);
            }
        }
        rows
    }

    fn round(&mut self, pages: PageSize, variant: Variant, pool: Option<&Running>) -> Round {
        let mut variables = Vec::new();
        if variant.prefault {
            variables.push(("MEMWRIGHT_PREFAULT", "now"));
        }
        if let Some(pool) = pool {
            wait_until_whole(pool);
            let socket = pool.socket.to_str().unwrap();
            variables.extend([
                ("MEMWRIGHT_POOL", POOL),
                ("MEMWRIGHT_POOL_SOCKET", socket),
                ("MEMWRIGHT_POOL_STRICT", "1"),
            ]);
        }
        let (mut server, first_reply) = self.cluster.start(pages.is_hugetlb(), &variables);
        let at_start = server.faults();
        let start = Instant::now();
        server.query("SELECT pg_prewarm('pages')");
        let first_use = start.elapsed();
        let faults = [at_start, server.faults() - at_start].map(|faults| faults as f64);
        let checksum = server.query(CHECK);
        assert_eq!(*self.checksum.get_or_insert_with(|| checksum.clone()), checksum);
        if let Some(pool) = pool {
            let leased = state(pool).bytes.leased;
            assert!(leased > 0, "the server uses no memory of the pool");
        }
        let stop = server.stop();
        Round { start: ms(first_reply), first_use: ms(first_use), stop: ms(stop), faults }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn state(pool: &Running) -> PoolStatus {
    pool.client.pool(&POOL.parse().unwrap()).unwrap()
}

fn wait_until_whole(pool: &Running) {
    workloads::wait_until("all of the pool", || {
        let state = state(pool);
        assert!(state.trouble.is_empty(), "{}", state.trouble);
        state.bytes.ready == state.spec.bytes && state.locked
    });
}
