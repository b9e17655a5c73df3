//! Traces a running program for a while.

use super::processes::{ProgramProcesses, with_cgroups};
use crate::args::WhyArgs;
use crate::{Exit, Failure, terminal};
use mw_critical_path::{
    CriticalPath, Cycle, PathSummary, ProgramTime, RequestSpan, Trace, TracedProgram, critical_path,
};
use mw_profile::{SchedTracer, TraceOptions};
use mw_render::text::{self, ProgramReport, SlowCycle};
use mw_unwind::{NamingLimits, mapped_code, name_functions};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Default duration of a trace.
const USUAL: Duration = Duration::from_secs(10);
/// Longest interval at which the rings are read.
const ROUND: Duration = Duration::from_millis(100);
/// Slow cycles that are explained; each takes a pass over the trace.
const EXPLAINED: usize = 3;

/// The trace, and the report of it.
pub(super) struct TraceReport {
    pub(super) page: String,
    trace: Trace,
    busy: CriticalPath,
    summary: PathSummary,
}

impl TraceReport {
    pub(super) fn json(&self) -> String {
        mw_render::trace_event::json(&self.trace, &self.busy, &self.summary)
    }
}

/// Traces until the time is over, the program has ended, or a signal comes.
pub(super) fn trace(processes: &ProgramProcesses, args: &WhyArgs) -> Result<TraceReport, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(Exit::CouldNotCheck, format!("sigaction: {error}")))?;
    }
    let mut tracer =
        SchedTracer::open(trace_options(args)).map_err(
            |missing| match rustix::process::geteuid().is_root() {
                true => Failure::new(Exit::CouldNotCheck, missing),
                false => {
                    Failure::new(Exit::PermissionDenied, crate::advice::with_sudo(&missing, true))
                }
            },
        )?;
    tracer.start(&processes.pids);
    let code = trace_options(args).user_stacks.map(|_| mapped_code(&processes.pids));
    let until = Instant::now() + args.duration.unwrap_or(USUAL);
    let mut has_ended = false;
    while !stop.load(Ordering::Relaxed) && !has_ended {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        tracer.wait(None, left.min(ROUND));
        has_ended = processes.have_ended();
    }
    let mut trace = tracer.finish();
    trace.add_code(code.unwrap_or_default());
    let listens = processes.listen;
    let program = TracedProgram { processes: processes.pids.clone(), listens };
    let ProgramTime { threads, idle, busy, cycle_count, cycles } = program.time(&trace);
    let explain = |cycle: &Cycle| SlowCycle {
        began_ns: cycle.from.saturating_sub(trace.from),
        path: with_cgroups(explained(&trace, cycle).summary(&trace)),
    };
    let mut slowest: Vec<SlowCycle> = cycles.iter().take(EXPLAINED).map(explain).collect();
    let mut summary = with_cgroups(busy.summary(&trace));
    let paths = slowest.iter_mut().map(|slow| &mut slow.path);
    let mut paths: Vec<&mut PathSummary> = paths.chain([&mut summary]).collect();
    name_functions(&mut paths, &trace, NamingLimits::COMMAND);
    let report = ProgramReport {
        name: processes.name.clone(),
        traced_ns: trace.to.saturating_sub(trace.from),
        has_ended,
        threads,
        idle_ns: idle,
        busy: summary.clone(),
        cycles: cycle_count,
        listens,
        slowest,
    };
    let page = text::program(&report, terminal::layout(false));
    Ok(TraceReport { page, trace, busy, summary })
}

fn explained(trace: &Trace, cycle: &Cycle) -> CriticalPath {
    let Cycle { task, from, to } = *cycle;
    critical_path(trace, RequestSpan { task, from, to, ..RequestSpan::default() })
}

/// Limits of a trace, without user stacks where they are not wanted.
pub(super) fn trace_options(args: &WhyArgs) -> TraceOptions {
    let user_stacks = TraceOptions::COMMAND.user_stacks.filter(|_| !args.no_user_stacks);
    TraceOptions { user_stacks, ..TraceOptions::COMMAND }
}
