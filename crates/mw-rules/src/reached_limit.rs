//! Limits of number that the service was at, by the kernel's own count.

use crate::rules::{service_failure, service_itself};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{PathPart, TimeClass};
use mw_model::{Finding, ReachedLimit, ReachedLimitKind};

/// Confidence where the service failed: it may have failed for another reason.
const OF_FAILURE: u8 = 85;
/// The same where it was slow, and its time went to nothing on the machine.
const OF_SLOWNESS: u8 = 75;
/// The same without a critical path.
const WITHOUT_PATH: f64 = 60.0;

/// A limit of one of these kinds that the service was at.
pub(crate) fn find<'a>(
    stall: &StallWindow<'a>,
    kinds: &[ReachedLimitKind],
) -> Option<&'a ReachedLimit> {
    stall.incident.reached_limits.iter().find(|limit| kinds.contains(&limit.kind))
}

/// The limit as the cause: of a failure, or of the time in which a request waits for nothing that the machine lacks.
pub(crate) fn suspect(stall: &StallWindow<'_>, finding: Finding) -> Suspect {
    if service_failure::kind(stall).is_some() {
        return Suspect::new(finding, OF_FAILURE);
    }
    let Some(request) = stall.request else { return Suspect::of_score(finding, WITHOUT_PATH) };
    let is_free = |spent: TimeClass| {
        service_itself::OWN.contains(&spent)
            || matches!(spent, TimeClass::Network | TimeClass::Unknown)
    };
    // A task that is only inferred need not have had the request: at its limit it tries again and again, and waits for CPUs.
    let is_of_limit = |spent: TimeClass, part: &PathPart| {
        is_free(spent) || (part.inferred && spent == TimeClass::CpuContention)
    };
    Suspect::new(finding, OF_SLOWNESS).explaining(request.percent_where(is_of_limit))
}
