//! How many kills are looked at and kept: a user kills his own processes as often as he likes. Pure.

use std::collections::BTreeMap;

/// Signals that are looked at within a second: of the kernel, of others, of one sender. A look reads two processes, some
/// 100 µs, so that a flood costs at most 2% of a core.
const MAX_OF_KERNEL: u32 = 50;
const MAX_OF_OTHERS: u32 = 100;
const MAX_OF_SENDER: u32 = 10;

/// Kills that are kept within a minute: of one source, of all.
const MAX_OF_SOURCE: u32 = 30;
const MAX_OF_ALL: u32 = 240;

#[derive(Debug, Default)]
pub(crate) struct KillBudget {
    second: u64,
    of_kernel: u32,
    of_others: u32,
    /// By sender; as many as are looked at.
    senders: BTreeMap<u32, u32>,
    minute: u64,
    of_all: u32,
    sources: BTreeMap<String, u32>,
}

impl KillBudget {
    /// True if a signal may be looked at now.
    pub(crate) fn permits_look(&mut self, now_ms: u64, sender: u32, is_of_kernel: bool) -> bool {
        let second = now_ms / 1_000;
        if self.second != second {
            (self.second, self.of_kernel, self.of_others) = (second, 0, 0);
            self.senders.clear();
        }
        if is_of_kernel {
            return take(&mut self.of_kernel, MAX_OF_KERNEL);
        }
        if self.of_others >= MAX_OF_OTHERS {
            return false;
        }
        let permits = take(self.senders.entry(sender).or_default(), MAX_OF_SENDER);
        self.of_others += u32::from(permits);
        permits
    }

    /// True if a kill of a source may be kept now.
    pub(crate) fn permits_kill(&mut self, now_ms: u64, source: &str) -> bool {
        let minute = now_ms / 60_000;
        if self.minute != minute {
            (self.minute, self.of_all) = (minute, 0);
            self.sources.clear();
        }
        if self.of_all >= MAX_OF_ALL {
            return false;
        }
        let permits = take(self.sources.entry(source.to_owned()).or_default(), MAX_OF_SOURCE);
        self.of_all += u32::from(permits);
        permits
    }
}

fn take(used: &mut u32, most: u32) -> bool {
    let permits = *used < most;
    *used += u32::from(permits);
    permits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (Kills): A user who kills his own processes all the time hides no kill of others, and costs little.
    #[test]
    fn a_flood_leaves_room_for_others() {
        let mut budget = KillBudget::default();
        let flood = |budget: &mut KillBudget, at| {
            (0..10_000).filter(|_| budget.permits_look(at, 7, false)).count()
        };
        assert_eq!(flood(&mut budget, 0), 10);
        assert!(budget.permits_look(0, 8, false) && budget.permits_look(0, 7, true));
        assert_eq!(flood(&mut budget, 1_000), 10, "a second later");
        let many = (0..10_000).filter(|sender| budget.permits_look(2_000, *sender, false)).count();
        assert_eq!(many, 100, "many senders");
        assert!(budget.permits_look(2_000, 7, true), "the kernel has its own");
        let mine =
            (0..10_000).filter(|_| budget.permits_kill(0, "/user.slice/user-1000.slice")).count();
        assert_eq!(mine, 30);
        assert!(budget.permits_kill(0, "/system.slice/db.service"));
        let all = (0..10_000).filter(|n| budget.permits_kill(60_000, &format!("/lxc/{n}"))).count();
        assert_eq!(all, 240);
        assert_eq!(budget.sources.len(), 240);
    }
}
