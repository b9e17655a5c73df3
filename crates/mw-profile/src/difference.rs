//! Two profiles compared: which kernel functions took more of the CPUs than before.
//!
//! A stack counts for every function on it, so the system call's entry grows as much as the
//! function that is to blame, and ties with it. What ranks is therefore not growth alone:
//! - **A function that only leads to another says little.** Where most of a function's growth is
//!   in one function that it calls, directly or not, that one explains it.
//! - **Entries say nothing**: system calls, faults, interrupts, the roots of threads.
//! - **Helpers explain nobody.** What a lock costs is the matter of who takes it; and where the
//!   clock's interrupt had to wait for interrupts to be on again, the unlocking has the sample of
//!   all that was done under the lock.

use hashbrown::{HashMap, HashSet};
use mw_model::{Profile, Shift};

pub const MAX_SHIFTS: usize = 200;
/// Functions whose callees are examined: the ones that grew the most.
const MAX_RANKED: usize = 256;
/// A function that has this share of its growth in one that it calls only leads there.
const LEADS: f64 = 0.8;
/// Weight of the growth of functions that only lead to another, and of helpers.
const LEADING_WEIGHT: f64 = 0.3;
/// Weight of the growth of entries.
const ENTRY_WEIGHT: f64 = 0.1;

/// Beginnings of the names of entries: every stack of a kind has them.
const ENTRIES: [&str; 49] = [
    "entry_",
    "do_syscall_",
    "x64_sys_call",
    "ia32_sys_call",
    "__x64_sys_",
    "__ia32_sys_",
    "__arm64_sys_",
    "__se_sys_",
    "__do_sys_",
    "ksys_",
    "vfs_read",
    "vfs_write",
    "new_sync_",
    "el0",
    "el1",
    "do_el0_",
    "invoke_syscall",
    "asm_",
    "exc_",
    "sysvec_",
    "__sysvec_",
    "common_interrupt",
    "handle_softirqs",
    "__do_softirq",
    "irq_exit",
    "__irq_exit",
    "exit_to_user_mode",
    "syscall_exit_to_user_mode",
    "do_user_addr_fault",
    "do_page_fault",
    "do_mem_abort",
    "do_translation_fault",
    "handle_mm_fault",
    "__handle_mm_fault",
    "handle_pte_fault",
    "do_anonymous_page",
    "do_fault",
    "__do_fault",
    "ret_from_fork",
    "kthread",
    "worker_thread",
    "process_one_work",
    "secondary_startup",
    "common_startup",
    "start_secondary",
    "start_kernel",
    "rest_init",
    "cpu_startup_entry",
    "do_idle",
];

/// Beginnings of the names of helpers: what they do, they do for somebody.
const HELPERS: [&str; 19] = [
    "_raw_",
    "finish_task_switch",
    "native_queued_spin_lock",
    "queued_",
    "__pv_queued_",
    "rcu_",
    "__rcu_",
    "clear_page",
    "clear_huge_page",
    "clear_subpage",
    "kernel_init_pages",
    "copy_",
    "_copy_",
    "memset",
    "memcpy",
    "rep_",
    "xas_",
    "__mod_",
    "mod_",
];

/// Functions by how much more of all CPU time they took during a stall than before: the
/// one to blame first, what took less last. At most [`MAX_SHIFTS`].
pub fn difference(baseline: &Profile, during: &Profile) -> Vec<Shift> {
    let mut functions = FunctionNumbers::default();
    let (baseline, during) = (functions.stacks(baseline), functions.stacks(during));
    let names = functions.names;
    let (before, after) = (Shares::new(&baseline, names.len()), Shares::new(&during, names.len()));
    let shift = |(number, name): (usize, &&str)| Shift {
        function: (*name).to_owned(),
        before_percent: before.total(number),
        during_percent: after.total(number),
        before_self_percent: before.own(number),
        during_self_percent: after.own(number),
    };
    let mut shifts: Vec<(usize, Shift)> =
        names.iter().enumerate().map(|at| (at.0, shift(at))).collect();
    shifts.retain(|(number, _)| before.has(*number) || after.has(*number));
    sort(&mut shifts, |(_, shift)| growth(shift));
    let leading = leading(&baseline, &during, &shifts);
    sort(&mut shifts, |(number, shift)| growth(shift) * weight(shift, leading.contains(number)));
    shifts.truncate(MAX_SHIFTS);
    shifts.into_iter().map(|(_, shift)| shift).collect()
}

fn growth(shift: &Shift) -> f64 {
    shift.during_percent - shift.before_percent
}

/// The largest first; what a function did by itself breaks ties.
fn sort(shifts: &mut [(usize, Shift)], key: impl Fn(&(usize, Shift)) -> f64) {
    let own = |shift: &Shift| shift.during_self_percent - shift.before_self_percent;
    shifts.sort_by(|a, b| {
        let (by_key, by_own) = (key(b).total_cmp(&key(a)), own(&b.1).total_cmp(&own(&a.1)));
        by_key.then(by_own).then_with(|| a.1.function.cmp(&b.1.function))
    });
}

/// Weight of growth; a function that shrank is not to blame either way.
fn weight(shift: &Shift, is_leading: bool) -> f64 {
    let function = shift.function.as_str();
    if growth(shift) <= 0.0 {
        1.0
    } else if begins(function, &ENTRIES) {
        ENTRY_WEIGHT
    } else if is_leading || begins(function, &HELPERS) {
        LEADING_WEIGHT
    } else {
        1.0
    }
}

fn begins(function: &str, names: &[&str]) -> bool {
    names.iter().any(|name| function.starts_with(name))
}

/// Functions of both profiles, each with a number: stacks are compared by numbers, of which they have hundreds of thousands.
#[derive(Debug, Default)]
struct FunctionNumbers<'a> {
    names: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

/// A stack by numbers of functions, outermost first, and its share of all CPU time in percent.
struct NumberedStack {
    percent: f64,
    functions: Vec<usize>,
}

impl<'a> FunctionNumbers<'a> {
    fn stacks(&mut self, profile: &'a Profile) -> Vec<NumberedStack> {
        #[allow(clippy::cast_precision_loss, reason = "a share in percent")]
        let all = f64::from(profile.hz) * f64::from(profile.cpus) * profile.span_ms as f64 / 1000.0;
        if all <= 0.0 {
            return Vec::new();
        }
        let numbers: Vec<usize> =
            profile.functions.iter().map(|name| self.number(name.as_str())).collect();
        let number = |frame: &u32| numbers.get(usize::try_from(*frame).ok()?).copied();
        let stacks = profile.stacks.iter().map(|stack| NumberedStack {
            #[allow(clippy::cast_precision_loss, reason = "a share in percent")]
            percent: 100.0 * stack.samples as f64 / all,
            functions: stack.frames.iter().filter_map(number).collect(),
        });
        stacks.collect()
    }

    fn number(&mut self, name: &'a str) -> usize {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }
}

/// Shares of all CPU time by the number of the function, in percent.
#[derive(Debug, Default)]
struct Shares {
    total: Vec<f64>,
    own: Vec<f64>,
    seen: Vec<bool>,
}

impl Shares {
    fn new(stacks: &[NumberedStack], functions: usize) -> Self {
        let (total, own) = (vec![0.0; functions], vec![0.0; functions]);
        let mut shares = Self { total, own, seen: vec![false; functions] };
        for NumberedStack { percent, functions } in stacks {
            for (depth, function) in functions.iter().enumerate() {
                if !functions.iter().take(depth).any(|outer| outer == function) {
                    add(&mut shares.total, *function, *percent);
                }
                if let Some(seen) = shares.seen.get_mut(*function) {
                    *seen = true;
                }
            }
            if let Some(innermost) = functions.last() {
                add(&mut shares.own, *innermost, *percent);
            }
        }
        shares
    }

    fn has(&self, function: usize) -> bool {
        self.seen.get(function).copied().unwrap_or(false)
    }

    fn total(&self, function: usize) -> f64 {
        self.total.get(function).copied().unwrap_or(0.0)
    }

    fn own(&self, function: usize) -> f64 {
        self.own.get(function).copied().unwrap_or(0.0)
    }
}

fn add(sums: &mut [f64], at: usize, percent: f64) {
    if let Some(sum) = sums.get_mut(at) {
        *sum += percent;
    }
}

/// Functions with most of their growth in one function that they call, which is no helper.
/// `shifts` come with the largest growth first.
fn leading(
    baseline: &[NumberedStack],
    during: &[NumberedStack],
    shifts: &[(usize, Shift)],
) -> HashSet<usize> {
    let grown = shifts.iter().take(MAX_RANKED).filter(|(_, shift)| growth(shift) > 0.0);
    let grown: Vec<&(usize, Shift)> = grown.collect();
    let ranks: HashMap<usize, usize> =
        grown.iter().enumerate().map(|(rank, (number, _))| (*number, rank)).collect();
    // Of each pair of ranks the growth of the second below the first, and the last stack that had both.
    let pairs = grown.len() * grown.len();
    let (mut below, mut last_stack) = (vec![0.0; pairs], vec![usize::MAX; pairs]);
    let signed = during.iter().map(|stack| (stack, 1.0));
    let signed = signed.chain(baseline.iter().map(|stack| (stack, -1.0)));
    for (at, (NumberedStack { percent, functions }, sign)) in signed.enumerate() {
        let ranked: Vec<usize> =
            functions.iter().filter_map(|number| ranks.get(number)).copied().collect();
        for (depth, caller) in ranked.iter().enumerate() {
            for callee in ranked.iter().skip(depth + 1).filter(|callee| *callee != caller) {
                let pair = caller * grown.len() + callee;
                if let Some(last) = last_stack.get_mut(pair).filter(|last| **last != at) {
                    *last = at;
                    add(&mut below, pair, sign * percent);
                }
            }
        }
    }
    let leads = |pair: usize, below: f64| {
        let (caller, all) =
            grown.get(pair / grown.len()).map(|(at, shift)| (*at, growth(shift)))?;
        let (_, callee) = grown.get(pair % grown.len())?;
        let is_helper = begins(&callee.function, &HELPERS);
        (last_stack.get(pair) != Some(&usize::MAX) && below >= LEADS * all && !is_helper)
            .then_some(caller)
    };
    below.iter().enumerate().filter_map(|(pair, below)| leads(pair, *below)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Stack;

    /// A profile of one CPU over 10 s at 100 Hz: 1,000 samples are all of its time.
    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile { hz: 100, cpus: 1, span_ms: 10_000, ..Profile::default() };
        for (names, samples) in stacks {
            let frames = names
                .split(' ')
                .map(|name| {
                    let known = profile.functions.iter().position(|known| known == name);
                    let index = known.unwrap_or_else(|| {
                        profile.functions.push(name.to_owned());
                        profile.functions.len() - 1
                    });
                    u32::try_from(index).unwrap()
                })
                .collect();
            profile.stacks.push(Stack { frames, samples: *samples, ..Stack::default() });
        }
        profile
    }

    fn check(before: &[(&str, u64)], during: &[(&str, u64)], first: &[&str]) -> Vec<Shift> {
        let shifts = difference(&profile(before), &profile(during));
        let names: Vec<_> = shifts.iter().map(|shift| shift.function.as_str()).collect();
        assert_eq!(&names[..first.len()], first, "{names:?}");
        shifts
    }

    const FAULT: &str = "asm_exc_page_fault exc_page_fault do_user_addr_fault handle_mm_fault \
                         __handle_mm_fault do_huge_pmd_anonymous_page vma_alloc_folio_noprof \
                         __alloc_pages_noprof __alloc_pages_slowpath";

    /// The tale's figures: compaction_alloc 17.13% against next to nothing, poll_idle 78.9%
    /// against 99.1%.
    ///
    /// Promise (The recorder): The function of the field report comes first in the profile's difference.
    #[test]
    fn the_tale_names_its_function() {
        let shifts = check(
            &[("poll_idle", 991), ("clear_page_c", 1)],
            &[
                ("poll_idle", 789),
                ("compact_zone migrate_pages compaction_alloc", 171),
                ("compact_zone", 5),
                ("spin_lock", 4),
                ("flush_tlb_others_ipi", 3),
            ],
            &["compaction_alloc"],
        );
        let shift = &shifts[0];
        assert!((shift.during_self_percent - 17.1).abs() < 1e-9 && shift.before_percent == 0.0);
        assert_eq!(shifts.last().unwrap().function, "poll_idle", "what shrank comes last");
        assert!((shifts.last().unwrap().before_percent - 99.1).abs() < 1e-9);
    }

    #[test]
    fn a_fault_that_compacts_is_a_matter_of_compaction() {
        let path = format!("{FAULT} __alloc_pages_direct_compact try_to_compact_pages");
        let compacts = format!("{path} compact_zone_order compact_zone");
        let during = [
            (format!("{compacts} isolate_migratepages_block"), 300),
            (format!("{compacts} migrate_pages migrate_pages_batch compaction_alloc"), 250),
            (format!("{compacts} migrate_pages migrate_pages_batch move_to_new_folio"), 60),
            (format!("{compacts} lru_add_drain_cpu_zone"), 40),
            (format!("{FAULT} clear_huge_page clear_page_erms"), 90),
        ];
        let during: Vec<_> =
            during.iter().map(|(names, samples)| (names.as_str(), *samples)).collect();
        check(
            &[(&format!("{FAULT} clear_huge_page clear_page_erms"), 5)],
            &during,
            &["compact_zone", "isolate_migratepages_block"],
        );
    }

    #[test]
    fn reclaim_from_many_sides_is_a_matter_of_reclaim() {
        let reclaim = "try_to_free_pages do_try_to_free_pages shrink_node shrink_lruvec";
        let read = "entry_SYSCALL_64_after_hwframe do_syscall_64 ksys_read vfs_read filemap_read \
                    page_cache_ra_order __alloc_pages_noprof __alloc_pages_slowpath";
        let kswapd = "ret_from_fork_asm ret_from_fork kthread kswapd balance_pgdat shrink_node \
                      shrink_lruvec";
        let leaves =
            ["shrink_inactive_list shrink_folio_list", "evict_folios", "isolate_lru_folios"];
        let mut during = Vec::new();
        for root in [format!("{FAULT} {reclaim}"), format!("{read} {reclaim}"), kswapd.to_owned()] {
            during.extend(leaves.iter().map(|leaf| (format!("{root} {leaf}"), 80)));
        }
        during.push((format!("{FAULT} {}", reclaim.replace("shrink_lruvec", "shrink_slab")), 30));
        let during: Vec<_> =
            during.iter().map(|(names, samples)| (names.as_str(), *samples)).collect();
        let shifts = check(&[], &during, &["shrink_lruvec"]);
        let place = |name| shifts.iter().position(|shift| shift.function == name).unwrap();
        assert!(place("shrink_folio_list") < place("handle_mm_fault"));
        assert!(place("shrink_node") < place("asm_exc_page_fault"));
    }

    #[test]
    fn a_lock_does_not_hide_who_takes_it() {
        let taken = "do_syscall_64 __x64_sys_mmap do_mmap guilty native_queued_spin_lock_slowpath";
        let unlocked = "do_syscall_64 __x64_sys_munmap shrink_lruvec _raw_spin_unlock_irqrestore";
        let during = [(taken, 500), ("do_syscall_64 guilty", 20), (unlocked, 400)];
        let shifts = check(&[], &during, &["guilty", "shrink_lruvec"]);
        assert!(shifts.iter().any(|s| s.function == "native_queued_spin_lock_slowpath"));
    }

    #[test]
    fn recursion_counts_once() {
        let shifts = check(&[], &[("a b a b a", 100)], &[]);
        assert!(
            shifts.iter().all(|shift| (shift.during_percent - 10.0).abs() < 1e-9),
            "{shifts:?}"
        );
    }

    #[test]
    fn nothing_compared_with_nothing_is_nothing() {
        assert_eq!(difference(&Profile::default(), &Profile::default()), []);
        let unsampled = Profile { span_ms: 0, ..profile(&[("a", 1)]) };
        assert_eq!(difference(&unsampled, &unsampled), []);
    }
}
