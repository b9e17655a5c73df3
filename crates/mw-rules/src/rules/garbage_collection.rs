//! # garbage-collection
//!
//! A Java virtual machine stopped its threads, in most cases to collect garbage.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. For most of the request the virtual machine's own threads worked, and those of
//! the program waited for them. Memory of the machine was not the cause.
//!
//! ## Why it hurts
//! All threads of the program wait until the virtual machine lets them go on: a full collection of a large heap takes
//! seconds, however little the program does.
//!
//! ## What it looks like
//! Threads of the program wait for each other, as at a lock, and at the end of the chain stands `VM Thread`, `GC Thread#0` or
//! another of the virtual machine's threads.
//!
//! ## How to fix it
//! See how long collections take (`jstat -gcutil PID 1s`); give the heap more memory, choose a collector that works beside
//! the program, or make less garbage. Where other operations than collections stop the threads, log the safepoints:
//! `jcmd PID VM.log what=safepoint`.
//!
//! ## Threshold
//! The virtual machine's own threads worked for at least half of the request. They are known by the names that HotSpot
//! gives them. Whether the operation is a collection is told by the names of the collector's threads or by the functions in
//! which `VM Thread` was; if neither does, the headline says "probably".
//!
//! ## References
//! OpenJDK, src/hotspot/share/runtime/vmThread.cpp, gc/shared/workerThread.cpp; jstat(1); jcmd(1).

use crate::path_words::{manual, named};
use crate::rules::service_itself::own_time;
use crate::spent_time::{CONFIRMED, LIKELY};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::MachineOperation;
use mw_model::{Area, Finding, Missing, Quantity, Severity};

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(time) = own_time(stall) else { return Ok(None) };
    let path = stall.request.map(|request| request.path);
    let pause = path.and_then(|path| Some((path.main_pause()?, path.pause_operation()?)));
    let Some((pause, operation)) = pause else { return Ok(None) };
    let who = named(stall, &pause.process);
    let pid = pause.process.pid().map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let (headline, sure, remedy) = match operation {
        MachineOperation::Collection => (
            format!("{who} collected garbage"),
            CONFIRMED,
            manual(
                "see how long collections take; give the heap more memory, or make less garbage",
                &format!("jstat -gcutil {pid} 1s"),
            ),
        ),
        MachineOperation::Safepoint => (
            format!("{who} stopped its threads, probably to collect garbage"),
            LIKELY,
            manual(
                "see how long collections take; of other operations, log the safepoints",
                &format!("jstat -gcutil {pid} 1s; jcmd {pid} VM.log what=safepoint"),
            ),
        ),
    };
    let worked = Quantity::Milliseconds(pause.total_ns as f64 / 1e6);
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_evidence("work of the virtual machine's own threads", worked, "critical path")
        .with_impact("Threads of the program wait until the virtual machine lets them go on.")
        .with_remedy(remedy);
    Ok(Some(time.cause(finding, sure)))
}
