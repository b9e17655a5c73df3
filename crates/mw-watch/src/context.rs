//! The parts of the recorder that the evidence thread uses.

use crate::cpu_budget::CpuBudget;
use crate::kernel_events::KernelEvents;
use crate::monitors::Monitors;
use crate::requests::EvidenceRequests;
use crate::ring::RowRing;
use crate::service_answers::ServiceAnswers;
use crate::signal_kills::SignalKills;
use crate::stall_queue::StallQueue;
use crate::tracing::SharedTrace;
use mw_model::{Host, Missing, Snapshot};
use mw_profile::TaskFiles;
use mw_record::Writer;
use mw_sys::HelperThread;
use std::sync::Arc;
use std::time::Duration;

/// Time that is recorded after a stall before its incident is closed.
pub const AFTER: Duration = Duration::from_secs(5);

/// Time before a stall that belongs to its incident.
pub const BEFORE: Duration = Duration::from_secs(45);

pub(crate) struct Context {
    pub(crate) monitors: Arc<Monitors>,
    pub(crate) ring: Arc<RowRing>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) stalls: Arc<StallQueue>,
    pub(crate) requests: Arc<EvidenceRequests>,
    pub(crate) tracing: Arc<SharedTrace>,
    pub(crate) kernel_events: Arc<KernelEvents>,
    pub(crate) signal_kills: Arc<SignalKills>,
    /// Looks at the whole machine: a mount or a device may not answer.
    pub(crate) snapshot: HelperThread<(), (Snapshot, Duration)>,
    pub(crate) files: TaskFiles,
    pub(crate) budget: Arc<CpuBudget>,
    pub(crate) answers: ServiceAnswers,
    pub(crate) host: Host,
    /// Evidence that cannot be read on this machine.
    pub(crate) unseen: Vec<Missing>,
}
