//! What a service itself says of its sessions, at the moment of a stall.

use serde::{Deserialize, Serialize};

/// Taken over the probe's login on a connection of its own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceView {
    /// The query: `pg_stat_activity and pg_locks`.
    pub source: String,
    /// Time of the query, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// Duration of the query.
    pub took_ms: f64,
    /// Sessions that do something or hold a lock that another waits for, the oldest first.
    pub sessions: Vec<ServiceSession>,
    /// Counters of the service: `blocked_clients`.
    pub values: Vec<ServiceValue>,
    /// Lines of its logs, the latest first.
    pub events: Vec<ServiceEvent>,
}

/// A session of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSession {
    /// The service's number of it; for PostgreSQL this is the process.
    pub session: u64,
    /// The user: `user application`.
    pub who: String,
    /// `active`, `idle in transaction`, `Query`.
    pub state: String,
    /// `Lock: relation (AccessShareLock on orders)`, `Waiting for table metadata lock`.
    pub waits_in: Option<String>,
    /// The sessions that hold what it waits for.
    pub blocked_by: Vec<u64>,
    /// Time for which its statement has run, or it has been idle in its transaction.
    pub for_ms: Option<u64>,
    /// Its statement, only where the configuration allows it.
    pub query: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceValue {
    pub name: String,
    pub value: String,
}

/// An entry of a log that a service keeps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceEvent {
    /// `SLOWLOG`, `LATENCY fork`, `GC log`.
    pub source: String,
    pub at_unix_ms: Option<u64>,
    pub took_ms: Option<f64>,
    /// The command without its arguments, or a line of a log.
    pub text: String,
}
