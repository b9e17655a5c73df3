//! What a request spent most of its time on, of the time that one cause explains.

use crate::request::RequestTime;
use crate::suspect::Suspect;
use mw_critical_path::{PathPart, TimeClass};
use mw_model::{Finding, Quantity};

/// The largest part is in the path itself; nothing beside it has to be confirmed.
pub(crate) const CONFIRMED: u8 = 90;
/// A packet ended the wait; what delayed it is not known.
pub(crate) const SEEN: u8 = 85;
/// Confidence where it is not known which of several programs or limits it was.
pub(crate) const LIKELY: u8 = 75;
/// Only an idle task was seen: it may not be what kept the request waiting.
pub(crate) const POSSIBLE: u8 = 40;

/// The time of a request that a cause explains, with its largest part.
pub(crate) struct SpentTime<'a> {
    request: &'a RequestTime<'a>,
    pub(crate) spent: TimeClass,
    pub(crate) part: &'a PathPart,
    percent: f64,
}

impl<'a> SpentTime<'a> {
    /// Time of these classes.
    pub(crate) fn on(request: &'a RequestTime<'a>, classes: &[TimeClass]) -> Option<Self> {
        Self::of(request, |spent, _| classes.contains(&spent))
    }

    /// Time of parts that fulfil a condition.
    pub(crate) fn of(
        request: &'a RequestTime<'a>,
        is_one: impl Fn(TimeClass, &PathPart) -> bool,
    ) -> Option<Self> {
        let parts = request.parts().iter().filter(|(spent, part)| is_one(*spent, part));
        let (spent, part) = parts.max_by_key(|(_, part)| part.total_ns)?;
        let percent = request.percent_where(&is_one);
        Some(Self { request, spent: *spent, part, percent })
    }

    /// Share of the request, in percent.
    pub(crate) fn percent(&self) -> f64 {
        self.percent
    }

    /// True if the request's own thread spent it, and not one that it waited for.
    pub(crate) fn is_of_asker(&self) -> bool {
        self.part.task.tid == self.request.path.task.tid
    }

    /// The cause that explains it.
    pub(crate) fn cause(&self, finding: Finding, strength_percent: u8) -> Suspect {
        let finding = finding.with_evidence(
            format!("share of the request's {} ms", self.request.path.total_ns / 1_000_000),
            Quantity::Percent(self.percent),
            "critical path",
        );
        Suspect::new(finding, strength_percent).explaining(self.percent)
    }
}
