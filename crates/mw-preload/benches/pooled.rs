//! What a start of PostgreSQL costs whose shared memory comes from a pool, and without:
//! `cargo bench -p mw-preload --bench pooled`, and `-- --write` into docs/benchmarks.md.
//!
//! `--size MIB` (of shared buffers) and `--rounds N` make it shorter or longer. Huge pages are reserved
//! for it and given back (root). Plain starts and the pool have the same memory, one after the other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on fails")]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/plays/mod.rs"]
mod plays;
#[path = "../../mw-pool/tests/common/mod.rs"]
mod pools;
mod postgres;

use mw_pool::protocol::PoolStatus;
use mw_pool::{Owners, PageSize, Spec};
use mw_test::measure::{is_asked, median, number, others, replace};
use mw_test::{HugePages, alone};
use plays::NOBODY;
use pools::{MIB, Running, spec};
use postgres::Cluster;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const COMMAND: &str = "cargo bench -p mw-preload --bench pooled";
const POOL: &str = "db";
/// What one page table maps of huge pages: the stripes of a pool, from four of them on.
const GIB: usize = 1024;
/// No round is begun after so long.
const LONG: Duration = Duration::from_secs(60);
const HEAD: &str = "| pages | command | rounds | start to first query, ms | first use, ms | stop, ms | page faults \
     to the first query | in the first use |\n|---|---|---|---|---|---|---|---|\n";
/// What is in the table: the same however PostgreSQL has its memory.
const CHECK: &str = "SELECT count(*), sum(n), sum(hashtext(filler)) FROM pages";

/// How it is started.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    prefault: bool,
}

const PLAIN: Way = Way { name: "as it is", prefault: false };
const PREFAULT: Way = Way { name: "`run --prefault`", prefault: true };
const POOLED: Way = Way { name: "`run --pool`", prefault: false };
const POOLED_PREFAULT: Way = Way { name: "`run --pool --prefault`", prefault: true };

/// What one start came to.
#[derive(Debug)]
struct Round {
    /// To the first answer, in ms.
    ready: f64,
    /// Reading the table into the buffers, in ms.
    used: f64,
    /// From the signal to its end, in ms.
    stop: f64,
    /// Page faults of all processes until the first answer, and while the table was read.
    faults: [f64; 2],
}

/// What the rounds of one way came to.
struct Row {
    pages: PageSize,
    way: Way,
    rounds: Vec<Round>,
}

impl Row {
    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    fn faults(&self, part: usize) -> f64 {
        self.median(|round| round.faults[part])
    }

    fn ready(&self) -> f64 {
        self.median(|round| round.ready)
    }

    fn text(&self) -> String {
        format!(
            "| {} | {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
            self.pages.name(),
            self.way.name,
            self.rounds.len(),
            self.ready(),
            self.median(|round| round.used),
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
    /// What the table was first found to hold.
    held: Option<String>,
}

fn main() {
    let (mib, rounds) = (number("--size", 8192), number("--rounds", 5));
    let _alone = alone();
    let busy = others();
    let table_mib = mib / 4;
    println!("a cluster with a table of {table_mib} MiB");
    let Some(cluster) = Cluster::new(mib, table_mib) else {
        println!("skipped: PostgreSQL is not there");
        return;
    };
    let shared_mib = cluster.shared_mib();
    let pool_mib = shared_mib.next_multiple_of(GIB);
    let mut bench = Bench { cluster, rounds, pool_mib, held: None };
    let tables = [PageSize::HUGE_2M, PageSize::Base].map(|pages| bench.ways(pages));
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

/// The two ways that have all shared memory populated at the first query, plain and pooled.
fn populated(rows: &[Row]) -> (&Row, &Row) {
    match rows {
        [_, plain, .., pooled] => (plain, pooled),
        _ => panic!("{} ways", rows.len()),
    }
}

fn gain(rows: &[Row]) -> String {
    let (plain, pooled) = populated(rows);
    format!("{:.1} times ({} pages)", plain.ready() / pooled.ready(), plain.pages.name())
}

/// Memory that is there is mapped several pages a fault, small ones with those around them, huge ones
/// by page tables that processes share, where a pool's stripes are as large as those map.
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
    /// All ways with such pages.
    fn ways(&mut self, pages: PageSize) -> Vec<Row> {
        let _reserved = pages.is_hugetlb().then(|| {
            let more = HugePages::more(2 << 20, self.pool_mib as u64 / 2);
            more.unwrap_or_else(|| panic!("huge pages cannot be reserved"))
        });
        if pages.is_hugetlb() {
            // Files are not cached yet, and a hypervisor has to find what was just reserved.
            let warm_up = self.round(pages, PREFAULT, None);
            println!("{} pages, to warm up: {warm_up:.0?}", pages.name());
        }
        let mut rows = self.turns(pages, &[PLAIN, PREFAULT], None);
        let pool = Running::new(u64::MAX);
        let owners = Owners { users: vec![NOBODY], groups: Vec::new() };
        let spec = Spec { pages, owners, ..spec(POOL, self.pool_mib as u64) };
        pool.client.create(&spec).unwrap();
        fs::set_permissions(pool.socket.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
        // Huge pages are mapped at once in any case.
        let ways = if pages.is_hugetlb() { &[POOLED][..] } else { &[POOLED, POOLED_PREFAULT] };
        rows.extend(self.turns(pages, ways, Some(&pool)));
        pool.client.remove(&spec.name).unwrap();
        rows
    }

    /// Ways that take turns.
    fn turns(&mut self, pages: PageSize, ways: &[Way], pool: Option<&Running>) -> Vec<Row> {
        let row = |way: &Way| Row { pages, way: *way, rounds: Vec::new() };
        let mut rows: Vec<Row> = ways.iter().map(row).collect();
        let start = Instant::now();
        while rows[0].rounds.len() < self.rounds && start.elapsed() < LONG {
            for row in &mut rows {
                if pool.is_none() && !pages.is_hugetlb() {
                    self.cluster.warm_up();
                }
                let round = self.round(pages, row.way, pool);
                println!("{} pages, {}: {round:.0?}", pages.name(), row.way.name);
                row.rounds.push(round);
            }
        }
        rows
    }

    fn round(&mut self, pages: PageSize, way: Way, pool: Option<&Running>) -> Round {
        let mut variables = Vec::new();
        if way.prefault {
            variables.push(("MEMWRIGHT_PREFAULT", "1"));
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
        let (mut server, ready) = self.cluster.start(pages.is_hugetlb(), &variables);
        let started = server.faults();
        let start = Instant::now();
        server.ask("SELECT pg_prewarm('pages')");
        let used = start.elapsed();
        let faults = [started, server.faults() - started].map(|faults| faults as f64);
        let held = server.ask(CHECK);
        assert_eq!(*self.held.get_or_insert_with(|| held.clone()), held);
        if let Some(pool) = pool {
            let leased = state(pool).bytes.leased;
            assert!(leased > 0, "it has no memory from the pool");
        }
        let stop = server.stop();
        Round { ready: ms(ready), used: ms(used), stop: ms(stop), faults }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn state(pool: &Running) -> PoolStatus {
    pool.client.pool(&POOL.parse().unwrap()).unwrap()
}

fn wait_until_whole(pool: &Running) {
    plays::wait_until("all of the pool", || {
        let state = state(pool);
        assert!(state.trouble.is_empty(), "{}", state.trouble);
        state.bytes.ready == state.spec.bytes && state.locked
    });
}
