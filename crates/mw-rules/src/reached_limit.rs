//! Limits of number that the service was at, by the kernel's own count.

use crate::rules::{service_failure, service_itself};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
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
    let share = request.percent_where(|spent, _| is_free(spent));
    Suspect::new(finding, OF_SLOWNESS).explaining(share)
}
