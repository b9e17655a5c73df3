//! The number of messages that a receiver gets in an hour: so many of each probe, and of each user, service or
//! container for what happened in its cgroups. Nobody uses up the budget of another. Pure: it is told the time.

use crate::Notice;
use std::collections::VecDeque;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Budget of all cgroups below one of the first level, as a multiple of that of one: a container's root makes as many as he
/// likes below his own.
const OF_BRANCH: usize = 4;

/// Messages of an hour that are remembered; beyond that only those are sent that no budget limits.
const MAX_REMEMBERED: usize = 4096;

#[derive(Debug)]
pub(crate) struct Budget {
    per_hour: usize,
    /// Times and sources of the messages of the last hour.
    sent: VecDeque<(Duration, String)>,
    /// Messages beyond the budget since that was last asked.
    pub(crate) refused: u64,
}

impl Budget {
    pub(crate) fn new(per_hour: usize) -> Self {
        Self { per_hour, sent: VecDeque::new(), refused: 0 }
    }

    /// True if a message may be sent, which is counted then.
    pub(crate) fn permits(&mut self, now: Duration, notice: &Notice) -> bool {
        while self.sent.front().is_some_and(|(sent, _)| now.saturating_sub(*sent) >= HOUR) {
            self.sent.pop_front();
        }
        let source = notice.source.as_str();
        let of_source = self.sent.iter().filter(|(_, sent)| sent == source).count();
        let branch = branch(source);
        let of_branch = self.sent.iter().filter(|(_, sent)| self::branch(sent) == branch).count();
        let is_within = of_source < self.per_hour
            && of_branch < self.per_hour.saturating_mul(OF_BRANCH)
            && self.sent.len() < MAX_REMEMBERED;
        if !is_within && !notice.is_of_service() {
            self.refused += 1;
            return false;
        }
        if self.sent.len() < MAX_REMEMBERED {
            self.sent.push_back((now, source.to_owned()));
        }
        true
    }
}

/// `oom_kill/user.slice` of `oom_kill/user.slice/user-1000.slice`.
fn branch(source: &str) -> &str {
    let end = source.match_indices('/').nth(1).map_or(source.len(), |(end, _)| end);
    source.get(..end).unwrap_or(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> Notice {
        Notice { source: source.to_owned(), ..Notice::test("db1", 0) }
    }

    fn sent(budget: &mut Budget, sources: impl Iterator<Item = String>) -> usize {
        sources.filter(|source| budget.permits(Duration::ZERO, &of(source))).count()
    }

    #[test]
    fn each_source_has_its_own() {
        let mut budget = Budget::new(4);
        let mine = "oom_kill/user.slice/user-1000.slice";
        assert_eq!(sent(&mut budget, (0..10).map(|_| mine.to_owned())), 4);
        assert_eq!(budget.refused, 6);
        assert!(budget.permits(Duration::ZERO, &of("oom_kill/system.slice/db.service")));
        assert!(budget.permits(Duration::ZERO, &of("canary")));
        assert!(budget.permits(HOUR, &of(mine)));
    }

    #[test]
    fn a_container_with_many_cgroups_has_a_bounded_one() {
        let mut budget = Budget::new(4);
        let many = (0..1000).map(|n| format!("oom_kill/lxc.x/{n}"));
        assert_eq!(sent(&mut budget, many), 4 * OF_BRANCH);
        assert!(budget.permits(Duration::ZERO, &of("oom_kill/system.slice/db.service")));
    }
}
