//! What a few dozen timings say.

/// Result of sorting timings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Samples {
    /// Of backed memory, in nanoseconds a byte.
    pub(super) ns_per_byte: f64,
    /// The same for a request far larger than the sample, of base pages: they are handed out from
    /// the smallest free blocks first, which costs more than the larger blocks that follow. The
    /// mean, averaged with that of memory that was populated again.
    pub(super) settled_ns_per_byte: f64,
    /// Of memory that the host had not backed.
    pub(super) unbacked_ns_per_byte: Option<f64>,
    /// Number of chunks of fresh memory.
    pub(super) sampled: usize,
    /// Number of chunks that were backed before the first that was not; 0 where all were.
    pub(super) backed_first: usize,
    /// The share of chunks that were not backed, from the first such on.
    pub(super) unbacked_share: f64,
    /// The ninth decile over the first.
    pub(super) spread: f64,
}

/// A chunk of base pages that took this many times as long as backed memory was not backed. Fragments
/// of the free lists cost up to 2 times as much as large blocks; unbacked memory costs 8 to 30 times as
/// much.
pub(super) const UNBACKED_FACTOR: f64 = 4.0;
/// The same of huge pages. What is populated again is in the cache of the CPU and takes a quarter of the
/// time of fresh memory.
pub(super) const UNBACKED_FACTOR_HUGE: f64 = 8.0;
/// A timing beyond this multiple of the median means that the thread lost its CPU.
const OUTLIER_FACTOR: f64 = 3.0;
/// Unbacked chunks that are enough to estimate all unbacked memory.
const ENOUGH_UNBACKED: usize = 3;
/// A smaller share of slow chunks is chance, not unbacked memory: the host took the CPU away, which
/// counts as CPU time here.
const CHANCE_SHARE: f64 = 0.15;

/// Sorts the timings of `fresh` memory out by comparing them with those of memory that was
/// populated `again`. In a virtual machine, those slower by `unbacked_factor` were not backed.
pub(super) fn sort_out(
    fresh: &[f64],
    again: &[f64],
    unbacked_factor: Option<f64>,
) -> Option<Samples> {
    let reference = median(if again.is_empty() { fresh } else { again })?;
    let limit = unbacked_factor.map_or(f64::INFINITY, |factor| reference * factor);
    let (backed, unbacked): (Vec<f64>, Vec<f64>) = fresh.iter().partition(|ns| **ns <= limit);
    let first_slow = fresh.iter().position(|ns| *ns > limit);
    let after_slow = first_slow.map_or(0, |first| fresh.len() - first);
    // Two or more at the end are the layer behind.
    let at_the_end = unbacked.len() >= 2 && unbacked.len() == after_slow;
    let chance = (unbacked.len() as f64) < CHANCE_SHARE * fresh.len() as f64 && !at_the_end;
    let backed_first = first_slow.filter(|_| !chance);
    let after = if chance { 0 } else { after_slow };
    // With too few backed chunks among the fresh ones, what was populated again stands for them.
    let backed = if backed.len() * 4 >= fresh.len() || again.is_empty() { &backed } else { again };
    let mean = mean_without_outliers(backed)?;
    Some(Samples {
        ns_per_byte: mean,
        settled_ns_per_byte: match mean_without_outliers(again) {
            Some(again) => f64::midpoint(mean, again),
            None => mean,
        },
        unbacked_ns_per_byte: if chance { None } else { unbacked_ns_per_byte(&unbacked) },
        sampled: fresh.len(),
        backed_first: backed_first.unwrap_or(0),
        unbacked_share: if chance { 0.0 } else { unbacked.len() as f64 / after.max(1) as f64 },
        spread: spread(backed),
    })
}

/// The first touches of memory may be far dearer than those that follow: the host has to find the
/// memory, the kernel to set up what describes it. Fewer than a few say nothing.
fn unbacked_ns_per_byte(unbacked: &[f64]) -> Option<f64> {
    if unbacked.len() < ENOUGH_UNBACKED { None } else { median(unbacked) }
}

fn sorted(times: &[f64]) -> Vec<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn median(times: &[f64]) -> Option<f64> {
    sorted(times).get(times.len() / 2).copied()
}

fn mean_without_outliers(times: &[f64]) -> Option<f64> {
    let limit = median(times)? * OUTLIER_FACTOR;
    let usual: Vec<f64> = times.iter().copied().filter(|ns| *ns <= limit).collect();
    Some(usual.iter().sum::<f64>() / usual.len() as f64)
}

fn spread(times: &[f64]) -> f64 {
    let sorted = sorted(times);
    let tenth = sorted.len() / 10;
    match (sorted.get(tenth), sorted.get(sorted.len().saturating_sub(1 + tenth))) {
        (Some(low), Some(high)) if *low > 0.0 => (high / low).max(1.0),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backed_and_unbacked_memory_are_distinguished() {
        let fresh = [0.3, 0.32, 0.31, 2.8, 2.6, 3.0, 2.7];
        let samples = sort_out(&fresh, &[0.25, 0.26, 0.25], Some(UNBACKED_FACTOR)).unwrap();
        assert!((samples.ns_per_byte - 0.31).abs() < 1e-9);
        assert!((samples.settled_ns_per_byte - (0.31 + 0.76 / 3.0) / 2.0).abs() < 1e-9);
        assert!((samples.unbacked_ns_per_byte.unwrap() - 2.8).abs() < 1e-9);
        assert_eq!(samples.backed_first, 3);
        assert!((samples.unbacked_share - 1.0).abs() < 1e-9);
    }

    /// Promise (Checking): A calibration does not mistake the memory that an earlier one touched for the state of all
    /// memory.
    #[test]
    fn a_measurement_does_not_take_its_own_traces_for_the_state_of_memory() {
        // What the last measurement touched is handed out again first, and it is backed by now.
        for backed_first in [0, 1, 2, 4, 8, 12] {
            let mut fresh = vec![0.04; backed_first];
            fresh.extend([2.5, 2.6]);
            let samples = sort_out(&fresh, &[0.04; 2], Some(UNBACKED_FACTOR)).unwrap();
            assert_eq!(samples.backed_first, backed_first);
            assert!((samples.unbacked_share - 1.0).abs() < 1e-9, "{samples:?}");
        }
        let mixed = [0.04, 2.5, 0.04, 2.6, 0.04];
        assert!(
            (sort_out(&mixed, &[0.04; 2], Some(UNBACKED_FACTOR)).unwrap().unbacked_share - 0.5)
                .abs()
                < 1e-9
        );
    }

    #[test]
    fn one_dear_first_touch_says_nothing_of_the_rest() {
        let factor = Some(UNBACKED_FACTOR);
        let unbacked =
            |first: &[f64]| sort_out(first, &[0.04], factor).unwrap().unbacked_ns_per_byte;
        assert_eq!(unbacked(&[13.0]), None);
        assert_eq!(unbacked(&[13.0, 2.5, 2.6, 2.4]), Some(2.6));
    }

    #[test]
    fn memory_that_is_all_unbacked_is_judged_by_what_was_populated_again() {
        let samples =
            sort_out(&[2.8, 2.9, 2.7], &[0.25, 0.27, 0.26], Some(UNBACKED_FACTOR)).unwrap();
        assert!((samples.ns_per_byte - 0.26).abs() < 1e-9);
        assert!((samples.unbacked_share - 1.0).abs() < 1e-9);
    }

    #[test]
    fn huge_pages_that_are_in_the_cache_do_not_make_fresh_ones_look_unbacked() {
        let samples =
            sort_out(&[0.085, 0.09, 0.12, 0.085], &[0.021; 4], Some(UNBACKED_FACTOR_HUGE)).unwrap();
        assert_eq!(samples.unbacked_share, 0.0);
        let samples = sort_out(&[2.1, 2.3], &[0.085; 2], Some(UNBACKED_FACTOR_HUGE)).unwrap();
        assert_eq!(samples.unbacked_share, 1.0);
    }

    #[test]
    fn one_slow_chunk_of_many_is_chance_and_on_hardware_all_are() {
        let mut fresh = vec![0.3; 40];
        fresh.push(12.0);
        let samples = sort_out(&fresh, &[0.3; 4], Some(UNBACKED_FACTOR)).unwrap();
        assert_eq!((samples.unbacked_share, samples.unbacked_ns_per_byte), (0.0, None));
        assert!((samples.ns_per_byte - 0.3).abs() < 1e-9);
        assert!((samples.spread - 1.0).abs() < 1e-9);
        assert_eq!(sort_out(&[0.3, 3.0, 0.3], &[], None).unwrap().unbacked_share, 0.0);
        assert_eq!(sort_out(&[], &[], None), None);
    }
}
