//! Waits of threads inside the kernel, put together from where they began and where they ended.

use mw_critical_path::outside_number;
use mw_model::{KernelWait, WaitKind};
use std::collections::{HashMap, VecDeque};

/// Waits under way that are remembered, and tasks whose wanted order is.
const MAX_OPEN: usize = 4096;
/// Different waits (thread, kind, order, node) that a stall's sum may have.
const MAX_SUMS: usize = 4096;
/// Waits that ended lately, kept for the stall that may be found to have begun before.
const MAX_RECENT: usize = 4096;

/// Record of a tracepoint about a thread's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitStep {
    Begin {
        kind: WaitKind,
        order: Option<u32>,
        node: Option<u32>,
    },
    End {
        kind: WaitKind,
    },
    /// The thread's compactions from here on are for a block of this order.
    Wants {
        order: u32,
    },
    /// One of this length; 0 where the kernel says that it was, not for how long.
    Whole {
        kind: WaitKind,
        node: Option<u32>,
        lasted_us: u64,
    },
    /// As `Whole`, of a thread that the record names.
    Of {
        tid: u32,
        kind: WaitKind,
    },
}

/// Key of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct WaitKey {
    tid: u32,
    kind: WaitKind,
    order: Option<u32>,
    node: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct WaitSum {
    count: u64,
    total_us: u64,
    max_us: u64,
}

#[derive(Debug, Clone, Copy)]
struct WaitBegin {
    began_ns: u64,
    order: Option<u32>,
    node: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct WaitEnd {
    ended_ns: u64,
    key: WaitKey,
    lasted_us: u64,
}

/// Waits under way, lately ended, and summed up since a stall began. Steps come in the order of
/// time.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    open: HashMap<(u32, WaitKind), WaitBegin>,
    wanted: HashMap<u32, u32>,
    recent: VecDeque<WaitEnd>,
    sums: HashMap<WaitKey, WaitSum>,
    /// Since when waits that end belong to a stall.
    stalled_ns: Option<u64>,
    dropped: u64,
}

impl Waits {
    /// Takes what a tracepoint said.
    pub(crate) fn take(&mut self, time_ns: u64, tid: u32, step: WaitStep) {
        match step {
            WaitStep::Begin { kind, order, node } => self.began(time_ns, tid, kind, order, node),
            WaitStep::End { kind } => self.ended(time_ns, tid, kind),
            WaitStep::Wants { order } => {
                if self.wanted.len() < MAX_OPEN || self.wanted.contains_key(&tid) {
                    self.wanted.insert(tid, order);
                }
            }
            WaitStep::Whole { kind, node, lasted_us } => {
                self.add(time_ns, WaitKey { tid, kind, order: None, node }, lasted_us);
            }
            WaitStep::Of { tid, kind } => {
                self.add(time_ns, WaitKey { tid, kind, order: None, node: None }, 0);
            }
        }
    }

    fn began(
        &mut self,
        began_ns: u64,
        tid: u32,
        kind: WaitKind,
        order: Option<u32>,
        node: Option<u32>,
    ) {
        let wanted = || self.wanted.get(&tid).copied().filter(|_| kind == WaitKind::Compaction);
        let order = order.or_else(wanted);
        if self.open.len() >= MAX_OPEN {
            self.dropped += 1;
            return;
        }
        self.open.insert((tid, kind), WaitBegin { began_ns, order, node });
    }

    fn ended(&mut self, time_ns: u64, tid: u32, kind: WaitKind) {
        // What ends without a beginning began before tracing; how long it took is not known.
        if let Some(open) = self.open.remove(&(tid, kind)) {
            let lasted_us = time_ns.saturating_sub(open.began_ns) / 1000;
            self.add(time_ns, WaitKey { tid, kind, order: open.order, node: open.node }, lasted_us);
        }
    }

    fn add(&mut self, ended_ns: u64, key: WaitKey, lasted_us: u64) {
        if let Some(since_ns) = self.stalled_ns {
            if ended_ns >= since_ns {
                self.sum(key, lasted_us);
            }
            return;
        }
        if self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(WaitEnd { ended_ns, key, lasted_us });
    }

    fn sum(&mut self, key: WaitKey, lasted_us: u64) {
        if self.sums.len() >= MAX_SUMS && !self.sums.contains_key(&key) {
            self.dropped += 1;
            return;
        }
        let sum = self.sums.entry(key).or_default();
        sum.count += 1;
        sum.total_us += lasted_us;
        sum.max_us = sum.max_us.max(lasted_us);
    }

    /// A stall began: what ended since `since_ns`, and all that ends from here on, belongs to it.
    pub(crate) fn stall(&mut self, since_ns: u64) {
        self.stalled_ns = Some(since_ns);
        while let Some(ended) = self.recent.pop_front() {
            if ended.ended_ns >= since_ns {
                self.sum(ended.key, ended.lasted_us);
            }
        }
    }

    /// The stall is over: its waits, the longest total first. What is still under way lasted
    /// until `now_ns`. `name` says a thread's name.
    pub(crate) fn finish(
        &mut self,
        now_ns: u64,
        mut name: impl FnMut(u32) -> String,
    ) -> Vec<KernelWait> {
        self.stalled_ns = None;
        let open: Vec<_> = self.open.iter().map(|(key, open)| (*key, *open)).collect();
        for ((tid, kind), open) in open {
            let lasted_us = now_ns.saturating_sub(open.began_ns) / 1000;
            self.sum(WaitKey { tid, kind, order: open.order, node: open.node }, lasted_us);
        }
        let mut waits: Vec<_> = self
            .sums
            .drain()
            .map(|(key, sum)| KernelWait {
                pid: if outside_number(key.tid).is_some() { 0 } else { key.tid },
                task: name(key.tid),
                kind: key.kind,
                order: key.order,
                node: key.node,
                count: sum.count,
                total_us: sum.total_us,
                max_us: sum.max_us,
            })
            .collect();
        waits.sort_by_key(|wait| {
            (std::cmp::Reverse((wait.total_us, wait.count)), wait.pid, wait.kind)
        });
        waits
    }

    /// Forgets threads that are gone: their waits never end.
    pub(crate) fn forget(&mut self, gone: impl Fn(u32) -> bool) {
        self.open.retain(|(tid, _), _| !gone(*tid));
        self.wanted.clear();
    }

    /// Waits that found no room since the last call.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn begin(kind: WaitKind) -> WaitStep {
        WaitStep::Begin { kind, order: None, node: None }
    }

    fn end(kind: WaitKind) -> WaitStep {
        WaitStep::End { kind }
    }

    fn finish(waits: &mut Waits, now_ns: u64) -> Vec<KernelWait> {
        waits.finish(now_ns, |tid| format!("t{tid}"))
    }

    #[test]
    fn waits_are_paired_by_thread_and_kind() {
        let mut waits = Waits::default();
        waits.stall(0);
        let (reclaim, cgroup) = (WaitKind::DirectReclaim, WaitKind::CgroupReclaim);
        waits.take(MS, 1, WaitStep::Begin { kind: reclaim, order: Some(2), node: None });
        waits.take(2 * MS, 2, begin(reclaim));
        waits.take(3 * MS, 1, begin(cgroup));
        waits.take(4 * MS, 1, end(reclaim));
        waits.take(5 * MS, 1, end(cgroup));
        waits.take(9 * MS, 2, end(reclaim));
        waits.take(10 * MS, 1, WaitStep::Begin { kind: reclaim, order: Some(2), node: None });
        waits.take(11 * MS, 1, end(reclaim));
        let found = finish(&mut waits, 20 * MS);
        let of = |pid, kind| found.iter().find(|w| (w.pid, w.kind) == (pid, kind)).unwrap();
        assert_eq!(of(2, reclaim).total_us, 7000);
        let both = of(1, reclaim);
        assert_eq!((both.count, both.total_us, both.max_us, both.order), (2, 4000, 3000, Some(2)));
        assert_eq!(of(1, cgroup).total_us, 2000);
        assert_eq!((found.len(), found[0].pid, found[0].task.as_str()), (3, 2, "t2"));
    }

    #[test]
    fn what_began_and_did_not_end_lasts_until_now() {
        let mut waits = Waits::default();
        waits.take(MS, 1, begin(WaitKind::NodeReclaim));
        waits.stall(5 * MS);
        let found = finish(&mut waits, 101 * MS);
        assert_eq!((found[0].count, found[0].total_us), (1, 100_000));
        waits.take(200 * MS, 1, end(WaitKind::NodeReclaim));
        waits.stall(150 * MS);
        assert_eq!(finish(&mut waits, 300 * MS)[0].total_us, 199_000, "and its end is seen");
    }

    #[test]
    fn what_ended_shortly_before_belongs_to_the_stall() {
        let mut waits = Waits::default();
        for at in [1, 10] {
            waits.take(at * MS, 1, begin(WaitKind::Compaction));
            waits.take((at + 1) * MS, 1, end(WaitKind::Compaction));
        }
        waits.stall(5 * MS);
        assert_eq!(finish(&mut waits, 20 * MS)[0].count, 1, "the first was too early");
        waits.stall(0);
        assert_eq!(finish(&mut waits, 30 * MS), [], "and is counted once");
    }

    #[test]
    fn compaction_is_for_the_order_that_was_wanted_last() {
        let mut waits = Waits::default();
        waits.stall(0);
        waits.take(MS, 1, WaitStep::Wants { order: 9 });
        waits.take(2 * MS, 1, begin(WaitKind::Compaction));
        waits.take(3 * MS, 1, end(WaitKind::Compaction));
        waits.take(4 * MS, 1, begin(WaitKind::NodeReclaim));
        waits.take(5 * MS, 1, end(WaitKind::NodeReclaim));
        let orders: Vec<_> =
            finish(&mut waits, 9 * MS).iter().map(|wait| (wait.kind, wait.order)).collect();
        assert!(orders.contains(&(WaitKind::Compaction, Some(9))), "{orders:?}");
        assert!(orders.contains(&(WaitKind::NodeReclaim, None)), "{orders:?}");
    }

    #[test]
    fn an_end_alone_is_no_wait() {
        let mut waits = Waits::default();
        waits.stall(0);
        waits.take(MS, 1, end(WaitKind::DirectReclaim));
        assert_eq!(finish(&mut waits, MS), []);
    }

    #[test]
    fn everything_is_bounded_and_what_is_dropped_is_counted() {
        let mut waits = Waits::default();
        waits.stall(0);
        let threads = u32::try_from(2 * MAX_OPEN).unwrap();
        for tid in 0..threads {
            waits.take(MS, tid, WaitStep::Wants { order: 1 });
            waits.take(MS, tid, begin(WaitKind::DirectReclaim));
            waits.take(MS, tid, WaitStep::Of { tid, kind: WaitKind::Oom });
        }
        assert!(waits.open.len() <= MAX_OPEN && waits.wanted.len() <= MAX_OPEN);
        assert!(waits.sums.len() <= MAX_SUMS);
        assert_eq!(waits.take_dropped(), u64::from(threads), "half of each");
        waits.forget(|_| true);
        assert!(waits.open.is_empty());
    }
}
