//! Limits of a container of OpenVZ or Virtuozzo at which its requests were refused.

use crate::share::{LIMIT_PERCENT, percent};
use mw_model::{
    Area, Finding, Quantity, Remedy, Severity, Snapshot, Step, format_bytes, format_count,
};
use mw_proc::user_beancounters::Beancounter;

const FILE: &str = "/proc/user_beancounters";

/// Resources that are reported: on a host each container has two dozen.
const MAX_SHOWN: usize = 3;

/// A finding for each resource that was refused since the container started, those that were refused most often first. What
/// is refused and not near its limit any more is a note: it may have been long ago.
pub(crate) fn refused(snapshot: &Snapshot) -> Vec<Finding> {
    let counters = snapshot.beancounters.value().map_or(&[][..], Vec::as_slice);
    let mut refused: Vec<&Beancounter> =
        counters.iter().filter(|counter| counter.refused > 0).collect();
    refused.sort_by_key(|counter| std::cmp::Reverse(counter.refused));
    refused.truncate(MAX_SHOWN);
    refused.into_iter().map(|counter| finding(counter, snapshot.origin.page_bytes)).collect()
}

fn finding(counter: &Beancounter, page_bytes: u64) -> Finding {
    let Beancounter { container, resource, held, barrier, limit, refused } = counter;
    // Below the barrier every request is granted, above the limit none.
    let bound = if *barrier > 0 { *barrier.min(limit) } else { *limit };
    let is_near = percent(*held, bound) >= LIMIT_PERCENT;
    let severity = if is_near { Severity::Warning } else { Severity::Note };
    let amount = |count: u64| match resource.ends_with("pages") {
        true => format_bytes(count.saturating_mul(page_bytes)),
        false => count.to_string(),
    };
    let headline = format!(
        "OpenVZ refused container {container} {}: {resource} has {} of {}",
        format_count(*refused, "request"),
        amount(*held),
        amount(bound),
    );
    let raised = bound.saturating_mul(2);
    let set = format!("vzctl set {container} --{resource} {raised}:{raised} --save");
    Finding::new(severity, Area::KernelMemory, headline)
        .with_evidence("held", Quantity::Count(*held), FILE)
        .with_evidence("barrier", Quantity::Count(*barrier), FILE)
        .with_evidence("limit", Quantity::Count(*limit), FILE)
        .with_evidence("refused since the start", Quantity::Count(*refused), FILE)
        .with_impact(
            "Programs see ENOMEM, EAGAIN or ENOBUFS although memory is free: of privvmpages all private memory that is \
             mapped counts, used or not.",
        )
        .with_remedy(Remedy::named(
            "have the host raise the limit, or remove it where physpages and swappages limit the container",
            vec![Step::manual(set)],
        ))
}
