//! Activity of the kernel's memory management, by what its counters mean.
//!
//! A counter of /proc/vmstat keeps its name when its meaning changes. Rules ask for a [`VmActivity`]; [`MEANINGS`] says
//! which counter counts what on which kernel. An activity that a kernel does not count is missing, with the reason.
//!
//! From 7.1 on the `pgscan_*` and `pgsteal_*` counters are statistics of nodes and cgroups (mm/vmscan.c,
//! `shrink_inactive_list()`: `mod_lruvec_state()` without a test of `cgroup_reclaim()`), so that those of direct reclaim
//! include what the limit of a cgroup reclaims. The counters of memory.stat cannot be subtracted: they are those of the
//! cgroup whose pages were scanned, whatever the reason. kswapd reclaims for no limit, and `allocstall` counts direct
//! reclaim for the machine alone on every kernel (`do_try_to_free_pages()`).

use crate::{Missing, Table, Window};
use ReclaimScope::{Machine, MachineAndCgroups};
use mw_proc::version::KernelVersion;
use mw_proc::vmstat::Counter;

/// The first kernel that counts scanned and reclaimed pages by node and cgroup.
const BY_NODE: KernelVersion = KernelVersion::new(7, 1, 0);

/// On whose behalf the events of a counter happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimScope {
    /// Memory of the machine or of a node was short.
    Machine,
    /// The same, or a cgroup met its limit, or somebody wrote to a file that forces reclaim.
    MachineAndCgroups,
}

/// Meaning of a counter on the kernels from `since` to before `until`.
#[derive(Debug, Clone, Copy)]
pub struct CounterMeaning {
    pub counter: Counter,
    pub since: Option<KernelVersion>,
    pub until: Option<KernelVersion>,
    pub scope: ReclaimScope,
    pub counts: &'static str,
}

/// The meanings of the counters that rules judge reclaim, compaction and swapping by.
pub const MEANINGS: &[CounterMeaning] = &[
    always(Counter::PgscanKswapd, Machine, "pages that kswapd scanned"),
    always(Counter::PgstealKswapd, Machine, "pages that kswapd reclaimed"),
    until_by_node(Counter::PgscanDirect, "pages that allocating tasks scanned"),
    since_by_node(Counter::PgscanDirect, "pages that tasks scanned, at limits of cgroups too"),
    until_by_node(Counter::PgstealDirect, "pages that allocating tasks reclaimed"),
    since_by_node(Counter::PgstealDirect, "pages that tasks reclaimed, at limits of cgroups too"),
    until_by_node(Counter::PgscanKhugepaged, "pages that khugepaged scanned"),
    since_by_node(Counter::PgscanKhugepaged, "pages that khugepaged scanned, also in cgroups"),
    until_by_node(Counter::PgstealKhugepaged, "pages that khugepaged reclaimed"),
    since_by_node(Counter::PgstealKhugepaged, "pages that khugepaged reclaimed, also in cgroups"),
    until_by_node(Counter::PgscanProactive, "pages scanned for a node's reclaim file"),
    since_by_node(Counter::PgscanProactive, "pages scanned for memory.reclaim too"),
    until_by_node(Counter::PgstealProactive, "pages reclaimed for a node's reclaim file"),
    since_by_node(Counter::PgstealProactive, "pages reclaimed for memory.reclaim too"),
    always(Counter::PgscanAnon, MachineAndCgroups, "anonymous pages scanned, by any reclaim"),
    always(Counter::PgscanFile, MachineAndCgroups, "file pages scanned, by any reclaim"),
    always(Counter::PgstealAnon, MachineAndCgroups, "anonymous pages reclaimed, by any reclaim"),
    always(Counter::PgstealFile, MachineAndCgroups, "file pages reclaimed, by any reclaim"),
    always(Counter::Allocstall, Machine, "direct reclaims of allocating tasks"),
    always(
        Counter::CompactStall,
        Machine,
        "allocations of a large block that asked for compaction; until 6.12 at least also those that were deferred, \
         for which nothing was done (mm/page_alloc.c, __alloc_pages_direct_compact())",
    ),
    always(Counter::Pswpin, MachineAndCgroups, "pages read from a swap device, not those in zswap"),
    always(Counter::Pswpout, MachineAndCgroups, "pages written to a swap device, zswap's too"),
    always(Counter::Zswpin, MachineAndCgroups, "pages that zswap decompressed"),
    always(Counter::Zswpout, MachineAndCgroups, "pages that zswap compressed"),
    always(Counter::Zswpwb, MachineAndCgroups, "pages that zswap wrote to the swap device"),
];

const fn always(counter: Counter, scope: ReclaimScope, counts: &'static str) -> CounterMeaning {
    CounterMeaning { counter, since: None, until: None, scope, counts }
}

const fn until_by_node(counter: Counter, counts: &'static str) -> CounterMeaning {
    CounterMeaning { until: Some(BY_NODE), ..always(counter, Machine, counts) }
}

const fn since_by_node(counter: Counter, counts: &'static str) -> CounterMeaning {
    CounterMeaning { since: Some(BY_NODE), ..always(counter, MachineAndCgroups, counts) }
}

impl CounterMeaning {
    /// The meaning of a counter on a kernel.
    pub fn find(counter: Counter, kernel: KernelVersion) -> Option<&'static Self> {
        MEANINGS.iter().find(|meaning| {
            meaning.counter == counter
                && meaning.since.is_none_or(|since| kernel >= since)
                && meaning.until.is_none_or(|until| kernel < until)
        })
    }
}

/// Work that the kernel does to provide memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmActivity {
    /// Pages that kswapd scanned.
    KswapdScans,
    /// Pages that tasks scanned because the machine was short of memory.
    DirectScans,
    /// Pages scanned because the machine was short of memory.
    MachineScans,
    /// Of these, pages of files, at least.
    MachineFileScans,
    /// Pages reclaimed because the machine was short of memory.
    MachineSteals,
    /// Pages reclaimed at limits of cgroups or because somebody forced it.
    CgroupSteals,
    /// Allocations of tasks that reclaimed for the machine.
    DirectReclaims,
    /// Allocations of large blocks that compacted; those that were deferred do not count.
    DirectCompactions,
    /// Of these, those that failed.
    FailedCompactions,
    /// Pages that came back from swap, compressed or on a device.
    SwapIns,
    /// Pages that went to swap, compressed or on a device.
    SwapOuts,
}

/// The increase of a counter over some time.
pub type CounterRise<'a> = &'a dyn Fn(Counter) -> Result<u64, Missing>;

const OF_KSWAPD: &[Counter] = &[Counter::PgscanKswapd];
const SCANS: &[Counter] =
    &[Counter::PgscanDirect, Counter::PgscanKhugepaged, Counter::PgscanProactive];
const STEALS: &[Counter] =
    &[Counter::PgstealDirect, Counter::PgstealKhugepaged, Counter::PgstealProactive];

impl VmActivity {
    /// Amount of it, by the counters of a kernel.
    ///
    /// # Errors
    /// This kernel does not count it.
    pub fn increase(self, kernel: KernelVersion, rise: CounterRise<'_>) -> Result<u64, Missing> {
        let counters = CounterIncreases { kernel, rise };
        match self {
            Self::KswapdScans => counters.sum(OF_KSWAPD),
            Self::DirectScans => counters.of_machine(&[Counter::PgscanDirect]),
            Self::MachineScans => counters.with_kswapd(Counter::PgscanKswapd, SCANS),
            Self::MachineFileScans => counters.machine_file_scans(),
            Self::MachineSteals => counters.with_kswapd(Counter::PgstealKswapd, STEALS),
            Self::CgroupSteals => counters.cgroup_steals(),
            Self::DirectReclaims => rise(Counter::Allocstall),
            Self::DirectCompactions => counters.compactions(Counter::CompactStall),
            Self::FailedCompactions => counters.compactions(Counter::CompactFail),
            Self::SwapIns => counters.sum(&[Counter::Pswpin, Counter::Zswpin]),
            Self::SwapOuts => {
                let written_back = rise(Counter::Zswpwb).unwrap_or(0);
                let out = counters.sum(&[Counter::Pswpout, Counter::Zswpout])?;
                Ok(out.saturating_sub(written_back))
            }
        }
    }

    /// Amount of it in all rows of a recording.
    ///
    /// # Errors
    /// This kernel does not count it, or the rows lack the counters.
    pub fn increase_in(self, table: &Table, kernel: KernelVersion) -> Result<u64, Missing> {
        self.increase(kernel, &|counter| {
            let values = table.values(&crate::Metric::Vmstat(counter));
            let values: Vec<u64> = values.into_iter().flatten().flatten().collect();
            let ends = values.last().zip(values.first());
            ends.and_then(|(last, first)| last.checked_sub(*first)).ok_or_else(|| {
                Missing::absent(format!("/proc/vmstat {}", counter.name()), "not in the recording")
            })
        })
    }
}

/// Increases of counters, on a kernel.
struct CounterIncreases<'a> {
    kernel: KernelVersion,
    rise: CounterRise<'a>,
}

impl CounterIncreases<'_> {
    /// The sum of what this kernel has of the counters.
    fn sum(&self, counters: &[Counter]) -> Result<u64, Missing> {
        let rises = counters.iter().map(|counter| (self.rise)(*counter));
        rises
            .reduce(|sum, rise| match (sum, rise) {
                (Ok(sum), Ok(rise)) => Ok(sum.saturating_add(rise)),
                (Ok(sum), Err(_)) | (Err(_), Ok(sum)) => Ok(sum),
                (Err(missing), Err(_)) => Err(missing),
            })
            .unwrap_or(Ok(0))
    }

    /// The part of the counters that is the machine's own.
    fn of_machine(&self, counters: &[Counter]) -> Result<u64, Missing> {
        let is_shared = |counter: &Counter| {
            let meaning = CounterMeaning::find(*counter, self.kernel);
            meaning.is_none_or(|meaning| meaning.scope == MachineAndCgroups)
        };
        let Some(shared) = counters.iter().find(|counter| is_shared(counter)) else {
            return self.sum(counters);
        };
        if self.is_without_direct_reclaim()? {
            return Ok(0);
        }
        Err(Missing::absent(
            format!("/proc/vmstat {}", shared.name()),
            "from Linux 7.1 on it counts reclaim at limits of cgroups too, and tasks reclaimed for the machine as well",
        ))
    }

    /// True if no task reclaimed for the machine or for a node.
    fn is_without_direct_reclaim(&self) -> Result<bool, Missing> {
        let of_nodes = [Counter::ZoneReclaimSuccess, Counter::ZoneReclaimFailed];
        let of_nodes = self.sum(&of_nodes).unwrap_or(0);
        Ok((self.rise)(Counter::Allocstall)? == 0 && of_nodes == 0)
    }

    fn with_kswapd(&self, of_kswapd: Counter, of_others: &[Counter]) -> Result<u64, Missing> {
        let (kswapd, others) = ((self.rise)(of_kswapd), self.of_machine(of_others));
        match (kswapd, others) {
            (Ok(kswapd), Ok(others)) => Ok(kswapd.saturating_add(others)),
            // A kernel without the other counters; where they have another meaning, the sum is unknown.
            (Ok(kswapd), Err(_)) if self.kernel < BY_NODE => Ok(kswapd),
            (_, Err(missing)) | (Err(missing), _) => Err(missing),
        }
    }

    /// Any reclaim may have scanned the anonymous pages.
    fn machine_file_scans(&self) -> Result<u64, Missing> {
        // kswapd's part alone is a lower bound, too.
        let all = self.with_kswapd(Counter::PgscanKswapd, SCANS);
        let all = all.or_else(|_| (self.rise)(Counter::PgscanKswapd))?;
        let files = (self.rise)(Counter::PgscanFile)?;
        let anonymous = (self.rise)(Counter::PgscanAnon)?;
        Ok(all.saturating_sub(anonymous).min(files))
    }

    fn cgroup_steals(&self) -> Result<u64, Missing> {
        if self.kernel >= BY_NODE {
            self.of_machine(STEALS)?;
            return self.sum(STEALS);
        }
        let files = (self.rise)(Counter::PgstealFile)?;
        let all = files.saturating_add((self.rise)(Counter::PgstealAnon)?);
        Ok(all.saturating_sub(self.with_kswapd(Counter::PgstealKswapd, STEALS)?))
    }

    /// Whoever compacts scans a page at least. Kernels before 3.9 do not count that.
    fn compactions(&self, counter: Counter) -> Result<u64, Missing> {
        let asked = (self.rise)(counter)?;
        let Ok(scanned) = (self.rise)(Counter::CompactMigrateScanned) else { return Ok(asked) };
        let by_daemon = (self.rise)(Counter::CompactDaemonMigrateScanned).unwrap_or(0);
        Ok(asked.min(scanned.saturating_sub(by_daemon)))
    }
}

impl Window {
    /// The kernel whose meanings the counters have: the running one, or a later one whose change it carries.
    pub fn counting_kernel(&self) -> KernelVersion {
        let kernel = self.now.origin.kernel.unwrap_or_default();
        let zoneinfo = self.now.sample.zoneinfo.value();
        match zoneinfo.is_some_and(|zoneinfo| zoneinfo.counts_scans_by_node) {
            true => kernel.max(BY_NODE),
            false => kernel,
        }
    }

    /// Amount of an activity in a second, from the oldest sample to the latest.
    ///
    /// # Errors
    /// There is only one sample, or this kernel does not count it.
    pub fn activity(&self, activity: VmActivity) -> Result<f64, Missing> {
        let amount = activity.increase(self.counting_kernel(), &|counter| self.rise(counter))?;
        // Without a span there is no increase either.
        Ok(self.span_ms().map_or(0.0, |span_ms| amount as f64 * 1000.0 / span_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: KernelVersion = KernelVersion::new(6, 12, 117);

    fn increase(
        activity: VmActivity,
        kernel: KernelVersion,
        rises: &[(Counter, u64)],
    ) -> Option<u64> {
        let rise = |counter: Counter| {
            let found = rises.iter().find(|(of, _)| *of == counter);
            found.map(|(_, rise)| *rise).ok_or_else(|| Missing::absent(counter.name(), "no"))
        };
        activity.increase(kernel, &rise).ok()
    }

    #[test]
    fn a_counter_has_one_meaning_on_each_kernel() {
        for meaning in MEANINGS {
            for kernel in [KernelVersion::new(5, 10, 0), OLD, BY_NODE, KernelVersion::new(7, 3, 4)]
            {
                let of = MEANINGS.iter().filter(|other| {
                    other.counter == meaning.counter
                        && other.since.is_none_or(|since| kernel >= since)
                        && other.until.is_none_or(|until| kernel < until)
                });
                assert_eq!(of.count(), 1, "{:?} on {kernel}", meaning.counter);
            }
        }
    }

    /// Promise (Findings): Pages that are reclaimed at the limit of a cgroup never count as reclaim of the machine,
    /// whichever kernel counts them.
    #[test]
    fn reclaim_at_the_limit_of_a_cgroup_is_not_the_machines() {
        let at_limit =
            [(Counter::PgscanKswapd, 0), (Counter::PgscanDirect, 90_000), (Counter::Allocstall, 0)];
        assert_eq!(increase(VmActivity::MachineScans, BY_NODE, &at_limit), Some(0));
        assert_eq!(increase(VmActivity::MachineScans, OLD, &at_limit), Some(90_000));
        let both =
            [(Counter::PgscanKswapd, 7), (Counter::PgscanDirect, 90_000), (Counter::Allocstall, 3)];
        assert_eq!(increase(VmActivity::MachineScans, BY_NODE, &both), None);
        assert_eq!(increase(VmActivity::DirectScans, BY_NODE, &both), None);
        assert_eq!(increase(VmActivity::KswapdScans, BY_NODE, &both), Some(7));
        let of_node = [at_limit.as_slice(), &[(Counter::ZoneReclaimFailed, 5)]].concat();
        assert_eq!(increase(VmActivity::MachineScans, BY_NODE, &of_node), None);
    }

    #[test]
    fn file_pages_are_the_machines_as_far_as_its_own_scans_go() {
        let scans = |kswapd, file, anon| {
            let rises = [
                (Counter::PgscanKswapd, kswapd),
                (Counter::PgscanDirect, 0),
                (Counter::PgscanFile, file),
                (Counter::PgscanAnon, anon),
            ];
            increase(VmActivity::MachineFileScans, OLD, &rises)
        };
        assert_eq!(scans(0, 50_000, 0), Some(0), "of a cgroup");
        assert_eq!(scans(50_000, 50_000, 0), Some(50_000));
        assert_eq!(scans(50_000, 40_000, 30_000), Some(20_000));
    }

    #[test]
    fn reclaim_by_hand_is_that_of_cgroups() {
        let steals = |kernel, direct, by_hand, stalls| {
            let rises = [
                (Counter::PgstealFile, 900),
                (Counter::PgstealAnon, 0),
                (Counter::PgstealKswapd, 100),
                (Counter::PgstealDirect, direct),
                (Counter::PgstealProactive, by_hand),
                (Counter::Allocstall, stalls),
            ];
            increase(VmActivity::CgroupSteals, kernel, &rises)
        };
        assert_eq!(steals(OLD, 0, 0, 0), Some(800));
        assert_eq!(steals(BY_NODE, 300, 500, 0), Some(800));
        assert_eq!(steals(BY_NODE, 300, 500, 1), None);
    }

    #[test]
    fn a_deferred_compaction_is_none() {
        let compactions = |scanned, by_daemon| {
            let rises = [
                (Counter::CompactStall, 100),
                (Counter::CompactMigrateScanned, scanned),
                (Counter::CompactDaemonMigrateScanned, by_daemon),
            ];
            increase(VmActivity::DirectCompactions, OLD, &rises)
        };
        assert_eq!(compactions(0, 0), Some(0));
        assert_eq!(compactions(9000, 9000), Some(0), "by kcompactd");
        assert_eq!(compactions(9000, 0), Some(100));
        assert_eq!(
            increase(VmActivity::DirectCompactions, OLD, &[(Counter::CompactStall, 9)]),
            Some(9)
        );
    }

    #[test]
    fn swap_is_compressed_or_on_a_device() {
        let rises = [
            (Counter::Pswpin, 1),
            (Counter::Zswpin, 500),
            (Counter::Pswpout, 20),
            (Counter::Zswpout, 600),
            (Counter::Zswpwb, 20),
        ];
        assert_eq!(increase(VmActivity::SwapIns, OLD, &rises), Some(501));
        assert_eq!(increase(VmActivity::SwapOuts, OLD, &rises), Some(600));
        assert_eq!(increase(VmActivity::SwapIns, OLD, &rises[..1]), Some(1));
    }
}
