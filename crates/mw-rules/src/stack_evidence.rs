//! A condition that the stacks of tasks show, and how much of the stall they were in it.

use crate::cause_score::CauseScore;
use crate::path_words::named;
use crate::request::RequestTime;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{self, FunctionSet};
use mw_critical_path::{KernelWork, PathPart, PathTask, RunMode, TimeKind, WaitLink};
use mw_model::{BlockedTask, Finding, Missing, Quantity};

/// Confidence in a condition that takes a part of the critical path.
const CONFIRMED: u8 = 90;
/// The same where the path goes on in the task that was waited for, which may have a cause of its own.
const BEHIND: u8 = 75;

/// The task that was in a condition longest.
pub(crate) struct StackEvidence<'a> {
    stall: &'a StallWindow<'a>,
    found: FoundTask<'a>,
}

enum FoundTask<'a> {
    OnPath(FoundOnPath<'a>),
    Blocked(&'a BlockedTask),
}

/// A task on the critical path of the slowest request.
struct FoundOnPath<'a> {
    task: &'a PathTask,
    /// The task that it waited for, where the path goes on there.
    other: Option<&'a PathTask>,
    /// Share of the request, in percent.
    share_percent: f64,
    strength_percent: u8,
}

impl<'a> StackEvidence<'a> {
    /// Searches the critical path of the slowest request where it was traced, else the tasks that were found blocked, for
    /// stacks that fulfil a condition.
    pub(crate) fn find(
        stall: &'a StallWindow<'a>,
        is_one: impl Fn(&[String]) -> bool,
    ) -> Option<Self> {
        Self::find_part(stall, |part| is_one(&part.stack), &is_one)
    }

    /// Searches for tasks that wait for a lock which one of these functions takes.
    pub(crate) fn find_lock(stall: &'a StallWindow<'a>, takers: FunctionSet) -> Option<Self> {
        let is_one = |stack: &[String]| kernel::is_wait_for_lock_of(stack, takers);
        Self::find_part(stall, |part| waits(part) && is_one(&part.stack), is_one)
    }

    /// The like with a condition for parts of the request, of which more is known.
    pub(crate) fn find_part(
        stall: &'a StallWindow<'a>,
        is_part: impl Fn(&PathPart) -> bool,
        is_one: impl Fn(&[String]) -> bool,
    ) -> Option<Self> {
        let found = match stall.request {
            None => FoundTask::Blocked(stall.blocked_where(is_one)?),
            Some(request) => {
                FoundTask::OnPath(of_parts(request, is_part).or_else(|| of_chain(request, is_one))?)
            }
        };
        Some(Self { stall, found })
    }

    /// Name and number of the task.
    pub(crate) fn task(&self) -> String {
        match &self.found {
            FoundTask::OnPath(found) => named(self.stall, found.task),
            FoundTask::Blocked(task) => format!("{} ({})", task.task, task.pid),
        }
    }

    /// Name and number of the task that it waited for, where that is known.
    pub(crate) fn other(&self) -> Option<String> {
        match &self.found {
            FoundTask::OnPath(found) => found.other.map(|other| named(self.stall, other)),
            FoundTask::Blocked(_) => None,
        }
    }

    /// The cause: as strong as the share of the stall for which tasks were in the condition.
    ///
    /// # Errors
    /// None; the type is that of all causes.
    pub(crate) fn cause(self, finding: Finding) -> Result<Option<Suspect>, Missing> {
        let score = CauseScore::new(self.stall);
        match self.found {
            FoundTask::OnPath(FoundOnPath { share_percent, strength_percent, task, .. }) => {
                let what = format!("share of the request, by {}", named(self.stall, task));
                let share = Quantity::Percent(share_percent);
                let finding = finding.with_evidence(what, share, "critical path");
                Ok(Some(Suspect::new(finding, strength_percent).explaining(share_percent)))
            }
            FoundTask::Blocked(task) => {
                let inner = task.stack.first().map_or("", String::as_str);
                score.blocked(task, &format!("in {inner}")).cause(finding)
            }
        }
    }
}

/// The largest part that fulfils a condition, with the share of all that do.
fn of_parts<'a>(
    request: &RequestTime<'a>,
    is_part: impl Fn(&PathPart) -> bool,
) -> Option<FoundOnPath<'a>> {
    let parts = request.parts().iter().map(|(_, part)| *part);
    let largest = parts.filter(|part| is_part(part)).max_by_key(|part| part.total_ns)?;
    Some(FoundOnPath {
        task: &largest.task,
        other: None,
        share_percent: request.percent_where(|_, part| is_part(part)),
        strength_percent: CONFIRMED,
    })
}

/// The first wait for another task that fulfils a condition, with the share of what the request waited for beyond it.
fn of_chain<'a>(
    request: &RequestTime<'a>,
    is_one: impl Fn(&[String]) -> bool,
) -> Option<FoundOnPath<'a>> {
    let chain: &'a [WaitLink] = &request.path.chain;
    let first = chain.iter().position(|link| is_one(&link.stack))?;
    let beyond = chain.get(first..)?;
    let link = beyond.first()?;
    let is_beyond = |part: &PathPart| beyond.iter().any(|link| link.other.tid == part.task.tid);
    Some(FoundOnPath {
        task: &link.waiter,
        other: Some(&link.other),
        share_percent: request.percent_where(|_, part| is_beyond(part)),
        strength_percent: BEHIND,
    })
}

/// True if the part's task slept, or spun for a lock: the innermost function of one that works says nothing of a lock.
fn waits(part: &PathPart) -> bool {
    match part.kind {
        TimeKind::Running(mode) => mode == RunMode::Kernel(KernelWork::LockContention),
        _ => true,
    }
}
