//! A server and its pools, as the server reports them.

use super::failure::failure;
use crate::Failure;
use mw_model::{LeaseRow, POOL_SCHEMA, PoolReport, PoolRow, ServerRow};
use mw_pool::protocol::{LeasePhase, LeaseStatus, PoolStatus};
use mw_pool::{Client, NumaPolicy, PoolName};

/// A server with all pools and leases, or with those of one pool.
pub(super) fn fetch(client: &Client, only: Option<&PoolName>) -> Result<PoolReport, Failure> {
    let server = client.server().map_err(failure)?;
    let pools = match only {
        Some(name) => client.pool(name).map(|pool| vec![pool]),
        None => client.pools(),
    };
    let pools = pools.map_err(failure)?;
    let mut leases = client.leases().map_err(failure)?;
    leases.retain(|lease| only.is_none_or(|name| lease.pool == *name));
    Ok(PoolReport {
        schema: POOL_SCHEMA,
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
