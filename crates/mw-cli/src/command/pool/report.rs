//! What a server and its pools are, for people and programs.

use super::failure::failure;
use crate::Failure;
use mw_model::{format_bytes, format_count};
use mw_pool::protocol::LeasePhase;
use mw_pool::protocol::{LeaseStatus, PoolStatus};
use mw_pool::{Client, NumaPolicy, PoolName};
use serde::Serialize;
use std::fmt::Write;

/// The version of what is printed as JSON.
pub(crate) const SCHEMA: u32 = 1;

/// A server and its pools.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(crate) struct PoolReport {
    /// The version of this format.
    schema: u32,
    /// The server.
    server: ServerRow,
    /// The pools that the asker may use, by name.
    pools: Vec<PoolRow>,
    /// The asker's leases; all of them if root asks.
    leases: Vec<LeaseRow>,
}

/// A lease.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct LeaseRow {
    /// Its number.
    id: u64,
    /// The pool that it is of.
    pool: String,
    /// Owner, by number.
    user: u32,
    /// The process that asked for it; others may have it by now.
    process: u32,
    /// Size.
    bytes: u64,
    /// active, draining (it is over, and somebody still has the memory) or kept.
    phase: &'static str,
    /// The name under which its contents are kept.
    keep: Option<String>,
    /// The System V segment whose memory it is.
    segment: Option<u32>,
}

/// A server.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct ServerRow {
    /// The bytes that pools may have together.
    budget_bytes: u64,
    /// The bytes that they have.
    pools_bytes: u64,
    /// Leases that were given since it started.
    leases_total: u64,
    /// Requests that were answered.
    requests_total: u64,
    /// Requests that were refused.
    refused_total: u64,
    /// Messages that were none, too long or too many.
    bad_messages_total: u64,
    /// Messages with descriptors, dropped; Linux 6.16 and later refuse them, uncounted.
    stray_descriptors_total: u64,
    /// True if the kernel says who still has memory that was released.
    proves: bool,
    /// True if a service manager keeps the memory while the server is restarted.
    stored: bool,
    /// Its shortage, in words; empty if there is none.
    lacks: String,
}

/// A pool. Its bytes add up to its size.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct PoolRow {
    /// Its name.
    name: String,
    /// Its size.
    bytes: u64,
    /// Its pages: 4k, thp, 2M or 1G.
    pages: String,
    /// Memory policy: local, a list of nodes, or interleave and a list.
    nodes: String,
    /// Users who may have memory of it, by number.
    users: Vec<u32>,
    /// Groups whose members may, by number.
    groups: Vec<u32>,
    /// True if memory goes from one user to another in place.
    trusting: bool,
    /// Size of its stripes.
    stripe_bytes: u64,
    /// Zeroed and nobody's.
    ready_bytes: u64,
    /// Handed out.
    leased_bytes: u64,
    /// Released, and somebody still has it.
    draining_bytes: u64,
    /// Being zeroed.
    scrubbing_bytes: u64,
    /// Released, contents kept.
    kept_bytes: u64,
    /// Not populated yet.
    missing_bytes: u64,
    /// Leases, those included that drain and are kept.
    leases: u32,
    /// Leases that there were.
    leases_total: u64,
    /// Bytes that were zeroed since the server started.
    scrubbed_bytes_total: u64,
    /// True if its pages stay in memory.
    locked: bool,
    /// The reason that it is not complete; empty if it is.
    trouble: String,
}

impl PoolReport {
    /// A server with all pools and leases, or with those of one pool.
    pub(crate) fn fetch(client: &Client, only: Option<&PoolName>) -> Result<Self, Failure> {
        let server = client.server().map_err(failure)?;
        let pools = match only {
            Some(name) => client.pool(name).map(|pool| vec![pool]),
            None => client.pools(),
        };
        let pools = pools.map_err(failure)?;
        let mut leases = client.leases().map_err(failure)?;
        leases.retain(|lease| only.is_none_or(|name| lease.pool == *name));
        Ok(Self {
            schema: SCHEMA,
            server: ServerRow {
                budget_bytes: server.budget_bytes,
                pools_bytes: server.pools_bytes,
                leases_total: server.leases_total,
                requests_total: server.requests_total,
                refused_total: server.refused_total,
                bad_messages_total: server.bad_messages_total,
                stray_descriptors_total: server.stray_descriptors_total,
                proves: server.owners_known,
                stored: server.stored,
                lacks: server.lacks,
            },
            pools: pools.into_iter().map(pool).collect(),
            leases: leases.into_iter().map(lease).collect(),
        })
    }

    /// The answer in one line: how much is ready.
    fn answer(&self) -> String {
        let ready: u64 = self.pools.iter().map(|pool| pool.ready_bytes).sum();
        let all: u64 = self.pools.iter().map(|pool| pool.bytes).sum();
        let budget = format_bytes(self.server.budget_bytes);
        match self.pools.len() {
            0 => format!("no pools of yours; budget {budget}\n"),
            count => {
                let (ready, all) = (format_bytes(ready), format_bytes(all));
                format!("{ready} of {all} ready in {}\n", format_count(count, "pool"))
            }
        }
    }

    pub(crate) fn list(&self) -> String {
        let mut text = self.answer();
        if self.pools.is_empty() {
            return text;
        }
        let head =
            ["pool", "size", "pages", "ready", "leased", "kept", "coming"].map(str::to_owned);
        let rows = self.pools.iter().map(|pool| {
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
        for pool in self.pools.iter().filter(|pool| !pool.trouble.is_empty()) {
            let _ = writeln!(text, "{}: {}", pool.name, pool.trouble);
        }
        text
    }

    pub(crate) fn stats(&self) -> String {
        let mut text = self.list();
        let server = &self.server;
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
        for pool in &self.pools {
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
        for lease in &self.leases {
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

    /// In the text format of Prometheus.
    pub(crate) fn metrics(&self) -> String {
        let mut text = String::new();
        let server = &self.server;
        for (name, kind, value) in [
            ("budget_bytes", "gauge", server.budget_bytes),
            ("leases_total", "counter", server.leases_total),
            ("requests_total", "counter", server.requests_total),
            ("refused_total", "counter", server.refused_total),
            ("bad_messages_total", "counter", server.bad_messages_total),
            ("stray_descriptors_total", "counter", server.stray_descriptors_total),
        ] {
            let name = format!("memwright_pool_server_{name}");
            let _ = writeln!(text, "# TYPE {name} {kind}\n{name} {value}");
        }
        let _ = writeln!(text, "# TYPE memwright_pool_bytes gauge");
        for pool in &self.pools {
            for (state, bytes) in [
                ("ready", pool.ready_bytes),
                ("leased", pool.leased_bytes),
                ("draining", pool.draining_bytes),
                ("scrubbing", pool.scrubbing_bytes),
                ("kept", pool.kept_bytes),
                ("missing", pool.missing_bytes),
            ] {
                let labels = format!("pool=\"{}\",state=\"{state}\"", pool.name);
                let _ = writeln!(text, "memwright_pool_bytes{{{labels}}} {bytes}");
            }
        }
        for (name, kind, value) in [
            ("leases", "gauge", (|pool| pool.leases.into()) as fn(&PoolRow) -> u64),
            ("leases_total", "counter", |pool| pool.leases_total),
            ("scrubbed_bytes_total", "counter", |pool| pool.scrubbed_bytes_total),
            ("in_trouble", "gauge", |pool| (!pool.trouble.is_empty()).into()),
        ] {
            let _ = writeln!(text, "# TYPE memwright_pool_{name} {kind}");
            for pool in &self.pools {
                let value = value(pool);
                let _ = writeln!(text, "memwright_pool_{name}{{pool=\"{}\"}} {value}", pool.name);
            }
        }
        text
    }
}

fn lease(state: LeaseStatus) -> LeaseRow {
    LeaseRow {
        id: state.id,
        pool: state.pool.to_string(),
        user: state.user,
        process: state.process,
        bytes: state.bytes,
        phase: match state.phase {
            LeasePhase::Active => "active",
            LeasePhase::Draining => "draining",
            LeasePhase::Kept => "kept",
        },
        keep: state.keep.map(|name| name.to_string()),
        segment: state.segment,
    }
}

fn pool(state: PoolStatus) -> PoolRow {
    let list = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    PoolRow {
        name: state.spec.name.to_string(),
        bytes: state.spec.bytes,
        pages: state.spec.pages.name(),
        nodes: match &state.spec.nodes {
            NumaPolicy::Default | NumaPolicy::Local => "local".to_owned(),
            NumaPolicy::Bind(nodes) => list(nodes),
            NumaPolicy::Interleave(nodes) => format!("interleave:{}", list(nodes)),
        },
        users: state.spec.owners.users,
        groups: state.spec.owners.groups,
        trusting: state.spec.trusting,
        stripe_bytes: state.stripe_bytes,
        ready_bytes: state.bytes.ready,
        leased_bytes: state.bytes.leased,
        draining_bytes: state.bytes.draining,
        scrubbing_bytes: state.bytes.zeroing,
        kept_bytes: state.bytes.kept,
        missing_bytes: state.bytes.missing,
        leases: state.leases,
        leases_total: state.leases_total,
        scrubbed_bytes_total: state.zeroed_bytes_total,
        locked: state.locked,
        trouble: state.trouble,
    }
}
