//! The data model that all parts of memwright share.
//!
//! Data goes one way: collectors fill a [`Snapshot`], consecutive samples make a [`Window`], rules
//! turn a window into [`Finding`]s, and a finding may carry a [`Remedy`]. Raw and derived stay
//! apart: a snapshot holds only what the kernel said; [`fragmentation`], [`derived`],
//! [`zones`] and [`Window`] compute from it, so that a live machine, a captured tree and a recording share one
//! path.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod account;
mod assessment;
mod bench_report;
mod blame;
pub mod bounded_json;
pub mod caller;
mod cgroup_owner;
pub mod contradiction;
pub mod derived;
pub mod fair;
mod finding;
pub mod folios;
pub mod fragmentation;
mod group_wait;
mod heartbeat;
mod incident;
mod journal_line;
mod killed;
mod machine;
pub mod map_count;
pub mod mapped_limit;
mod metric;
mod namespaces;
mod oom;
pub mod open_files;
mod page_blocks;
mod party_kind;
mod pool_report;
mod preflight;
mod profile;
mod reached_limit;
mod reading;
mod report;
mod room;
mod service;
mod service_connection;
mod service_view;
mod sizes;
mod snapshot;
mod stopped_device;
mod subject;
mod table;
mod tick;
mod trend;
mod units;
pub mod visible;
mod vm_activity;
mod waiters;
mod window;
pub mod zones;

pub use account::{
    ACCOUNT_SCHEMA, AccountEntry, GroupMemories, GroupMemory, HeldFile, HeldFiles, Holders,
    MemoryAccount, ProcessUse,
};
pub use assessment::{
    Assessment, Ceiling, Constraint, ConstraintEffect, ConstraintKind, MemorySources,
    UnreachableNode, UnreachableReason,
};
pub use bench_report::{
    BENCH_SCHEMA, BenchRatio, BenchReport, BenchSpread, Latency, MissingVariant, VariantResult,
};
pub use blame::{BLAME_SCHEMA, BlameList, BlameParty, BlameRow, BlameShare, BlamedVictim};
pub use caller::{Available, CallerLimit, LimitKind};
pub use cgroup_owner::{CgroupOwner, cgroup_name, cgroup_owner};
pub use finding::{Consent, Evidence, Finding, Remedy, Severity, Step};
pub use group_wait::{GroupWait, WaitOrigin};
pub use heartbeat::{HeartbeatKind, HeartbeatReport};
pub use incident::{
    BlockedTask, Cause, CpuUse, Delays, FailureKind, FloodShare, Host, INCIDENT_SCHEMA, Incident,
    IncidentRow, IncidentState, KernelWait, Role, RuledOut, TaskUse, Trigger, TriggerKind,
    WaitKind,
};
pub use journal_line::JournalLine;
pub use killed::{
    FatalSignal, KILLS_SCHEMA, KillList, KillParty, KillReason, KillSource, Killer, ProcessKill,
};
pub use machine::{
    Cgroup, CgroupVersion, Cgroups, Disk, GroupTasks, HugepagesWanted, HugetlbLimit, MemoryBlocks,
    MemoryFilesystem, Node, Process, Processes, Sysctl, Thp, ThpSize, Zram, is_cgroup_below,
    is_cgroup_within, is_person,
};
pub use map_count::{MapCount, MapCounts};
pub use metric::{
    Aggregation, CanaryMetric, DiskMetric, Layout, MeminfoLine, Metric, PressureKind,
    PressureMetric, ProbeMetric, RecorderMetric, Resource, Unit, ZoneId, ZoneMetric,
};
pub use mw_critical_path::PathSummary;
pub use mw_memory::{
    HugePool, PageSize, RAISE_COMMIT_LIMIT, RAISE_SHMALL, RAISE_SHMMAX, ResourceLimit,
    format_bytes, format_count, huge_pool_dir, shm_left_bytes,
};
pub use namespaces::{EVIDENCE, EvidenceFate, Namespace, NamespacedEvidence, namespaces_page};
pub use oom::{
    CacheDrop, MemoryHolder, OomHistory, OomKills, OomShortage, OomVictim, ServiceFate,
    WriterProcess,
};
pub use page_blocks::PageBlocks;
pub use party_kind::PartyKind;
pub use pool_report::{LeaseRow, POOL_SCHEMA, PoolReport, PoolRow, ServerRow};
pub use preflight::{
    Answer, Backing, Calibration, Confidence, FolioShare, FolioSupply, FreeLayer, NodeAccount,
    Obstacle, PoolGrowth, PoolRoom, Preflight, Request, RequestError, Share, TimeEstimate,
    UNBACKED_NS_PER_BYTE,
};
pub use profile::{Profile, Shift, Stack};
pub use reached_limit::{ReachedLimit, ReachedLimitKind};
pub use reading::{Absence, Missing, Reading};
pub use report::{
    HugePageExcess, LargestOther, LargestProgram, Report, SCHEMA_VERSION, SkippedRule,
};
pub use room::{
    ROOM_SCHEMA, RoomCost, RoomEnd, RoomOutcome, RoomReport, RoomStep, RoomStepKind, RoomStop,
};
pub use service::{
    Connection, EndKind, GroupIo, GroupUse, ListenQueue, Outage, ProcessEnd, SegmentDelivery,
    Service, ServiceProcess,
};
pub use service_connection::{PeerReply, ServiceConnection, Transport};
pub use service_view::{ServiceEvent, ServiceSession, ServiceValue, ServiceView};
pub use sizes::{HolderSize, SizeHistory, SizeSeries, SizedHolder};
pub use snapshot::{NodeSample, Origin, OriginKind, Pressures, Sample, Snapshot};
pub use stopped_device::StoppedDevice;
pub use subject::{Area, Subject};
pub use table::{Column, NO_VALUE, Table};
pub use tick::{CanaryTick, DiskTick, ProbeTick, RecorderTick, Tick};
pub use trend::{
    Decline, Estimate, Exhaustion, FullKind, Supply, SupplyTrend, TRENDS_SCHEMA, Trend, Trends,
};
pub use units::{Quantity, SizeError, format_duration_ms, parse_size};
pub use vm_activity::{CounterMeaning, CounterRise, MEANINGS, ReclaimScope, VmActivity};
pub use waiters::{Waiter, Waiters};
pub use window::Window;
