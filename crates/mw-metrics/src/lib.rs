//! The metrics of memwright, for `check --format prometheus` and for the listener of `watch`.
//!
//! `family` has the table of all metrics; docs/metrics.md is generated from it. `machine` fills it from a window
//! and its report, `stalls` from incidents, `pool_server` has those of a pool server. `page` writes it in the Prometheus text format 0.0.4 and in
//! OpenMetrics 1.0. Everything here is pure.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod allocatable;
mod family;
mod machine;
mod page;
mod pool_server;
mod stalls;

pub use allocatable::{allocatable, as_unlimited};
pub use family::{FAMILIES, Family, MetricKind};
pub use machine::{
    SETTINGS, machine, unseen, with_build, with_pool, with_preflight, with_recorder,
};
pub use page::{Exposition, MetricsPage};
pub use pool_server::pool_server;
pub use stalls::{BUCKETS_S, StallMetrics};
