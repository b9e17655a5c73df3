//! A pool server: how much is ready, then a table of its pools.

use mw_model::{PoolReport, format_bytes, format_count};
use std::fmt::Write;

/// The answer in one line: how much is ready.
fn answer(report: &PoolReport) -> String {
    let ready: u64 = report.pools.iter().map(|pool| pool.ready_bytes).sum();
    let all: u64 = report.pools.iter().map(|pool| pool.bytes).sum();
    let budget = format_bytes(report.server.budget_bytes);
    match report.pools.len() {
        0 => format!("no pools of yours; budget {budget}\n"),
        count => {
            let (ready, all) = (format_bytes(ready), format_bytes(all));
            format!("{ready} of {all} ready in {}\n", format_count(count, "pool"))
        }
    }
}

/// The pools, one a line.
pub fn pools(report: &PoolReport) -> String {
    let mut text = answer(report);
    if report.pools.is_empty() {
        return text;
    }
    let head = ["pool", "size", "pages", "ready", "leased", "kept", "coming"].map(str::to_owned);
    let rows = report.pools.iter().map(|pool| {
        let coming = pool.draining_bytes + pool.scrubbing_bytes + pool.missing_bytes;
        let [size, ready, leased, kept, coming] =
            [pool.bytes, pool.ready_bytes, pool.leased_bytes, pool.kept_bytes, coming]
                .map(|bytes| if bytes == 0 { "-".to_owned() } else { format_bytes(bytes) });
        [pool.name.clone(), size, pool.pages.clone(), ready, leased, kept, coming]
    });
    let rows: Vec<[String; 7]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0)
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "  {}", line.trim_end());
    }
    for pool in report.pools.iter().filter(|pool| !pool.trouble.is_empty()) {
        let _ = writeln!(text, "{}: {}", pool.name, pool.trouble);
    }
    text
}

/// The pools, what the server did, and the leases.
pub fn pool_statistics(report: &PoolReport) -> String {
    let mut text = pools(report);
    let server = &report.server;
    let _ = writeln!(
        text,
        "pools use {} of a budget of {}",
        format_bytes(server.pools_bytes),
        format_bytes(server.budget_bytes)
    );
    let _ = writeln!(
        text,
        "{}, {}, {} refused, {}, {}",
        format_count(server.leases_total, "lease"),
        format_count(server.requests_total, "request"),
        server.refused_total,
        format_count(server.bad_messages_total, "bad message"),
        format_count(server.stray_descriptors_total, "stray descriptor")
    );
    for pool in &report.pools {
        let locked = if pool.locked { "locked" } else { "not locked in memory" };
        let _ = writeln!(
            text,
            "{}: {} now, {} in total, {} zeroed, {locked}, nodes {}, {} still in use after \
             its lease",
            pool.name,
            format_count(pool.leases, "lease"),
            pool.leases_total,
            format_bytes(pool.scrubbed_bytes_total),
            pool.nodes,
            format_bytes(pool.draining_bytes)
        );
    }
    for lease in &report.leases {
        let _ = writeln!(
            text,
            "{}: lease {} of {}, user {}, process {}, {}",
            lease.pool,
            lease.id,
            format_bytes(lease.bytes),
            lease.user,
            lease.process,
            lease.phase
        );
    }
    if !server.lacks.is_empty() {
        let _ = writeln!(text, "the server lacks {}", server.lacks);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{PoolRow, ServerRow};

    fn server() -> ServerRow {
        ServerRow {
            budget_bytes: 8 << 30,
            pools_bytes: 4 << 30,
            leases_total: 1,
            requests_total: 2,
            refused_total: 0,
            bad_messages_total: 0,
            stray_descriptors_total: 0,
            proves: true,
            stored: false,
            lacks: String::new(),
        }
    }

    fn pool() -> PoolRow {
        PoolRow {
            name: "db".to_owned(),
            bytes: 4 << 30,
            pages: "2M".to_owned(),
            nodes: "local".to_owned(),
            users: Vec::new(),
            groups: Vec::new(),
            trusting: false,
            stripe_bytes: 1 << 30,
            ready_bytes: 3 << 30,
            leased_bytes: 0,
            draining_bytes: 0,
            scrubbing_bytes: 1 << 29,
            kept_bytes: 0,
            missing_bytes: 1 << 29,
            leases: 0,
            leases_total: 1,
            scrubbed_bytes_total: 0,
            locked: true,
            trouble: "node 1 is full".to_owned(),
        }
    }

    #[test]
    fn what_is_ready_comes_first_and_trouble_last() {
        let report =
            PoolReport { schema: 1, server: server(), pools: vec![pool()], leases: vec![] };
        assert_eq!(
            pools(&report),
            "3 GiB of 4 GiB ready in 1 pool\n\
             \u{20} pool  size   pages  ready  leased  kept  coming\n\
             \u{20} db    4 GiB  2M     3 GiB  -       -     1 GiB\n\
             db: node 1 is full\n"
        );
        let none = PoolReport { pools: Vec::new(), ..report };
        assert_eq!(pools(&none), "no pools of yours; budget 8 GiB\n");
    }
}
