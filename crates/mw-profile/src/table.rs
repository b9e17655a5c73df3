//! Counts of stacks, by address; names come later.

use crate::names::Names;
use crate::symbols::Symbols;
use mw_model::{Profile, Stack};
use std::collections::HashMap;

/// Different stacks of a table; what comes then is counted together.
const MAX_STACKS: usize = 4096;
/// The one frame of the stacks that found no room.
const OTHERS: &str = "[others]";

/// Stacks with how often they were seen.
#[derive(Debug, Default)]
pub(crate) struct StackTable {
    /// Process, name ([`Names`]) and addresses, innermost first.
    stacks: HashMap<Box<[u64]>, u64>,
    others: u64,
    key: Vec<u64>,
}

/// Period and events over which a table was sampled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StackPeriod {
    pub(crate) hz: u32,
    pub(crate) cpus: u32,
    pub(crate) span_ms: u64,
    pub(crate) first_us: Option<u64>,
    pub(crate) lost: u64,
}

impl StackTable {
    /// Counts a stack, its addresses innermost first.
    pub(crate) fn add(&mut self, pid: u32, name: u32, addresses: impl Iterator<Item = u64>) {
        self.key.clear();
        self.key.extend([u64::from(pid), u64::from(name)]);
        self.key.extend(addresses);
        if let Some(samples) = self.stacks.get_mut(self.key.as_slice()) {
            *samples += 1;
        } else if self.stacks.len() < MAX_STACKS {
            self.stacks.insert(self.key.as_slice().into(), 1);
        } else {
            self.others += 1;
        }
    }

    /// Adds all of another table.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, samples) in &other.stacks {
            if let Some(sum) = self.stacks.get_mut(key) {
                *sum += samples;
            } else if self.stacks.len() < MAX_STACKS {
                self.stacks.insert(key.clone(), *samples);
            } else {
                self.others += samples;
            }
        }
        self.others += other.others;
    }

    /// Addresses of its functions, for looking up their names.
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> {
        self.stacks.keys().flat_map(|key| places(key))
    }

    /// The profile with names, the most frequent stack first; idle CPUs have no stack.
    pub(crate) fn profile(&self, symbols: &Symbols, names: &Names, span: StackPeriod) -> Profile {
        let mut functions = FunctionNames::default();
        let mut sums: HashMap<(u32, u32, Vec<u32>), u64> = HashMap::new();
        for (key, samples) in &self.stacks {
            let &[pid, name, ..] = key.as_ref() else { continue };
            let [pid, name] = [pid, name].map(|number| u32::try_from(number).unwrap_or(0));
            let innermost = places(key).next().map_or("", |place| symbols.name(place));
            if name == Names::IDLE && is_idle(innermost) {
                continue;
            }
            let mut frames: Vec<u32> =
                places(key).map(|place| functions.index(symbols.name(place))).collect();
            frames.reverse();
            *sums.entry((pid, name, frames)).or_default() += samples;
        }
        let mut stacks: Vec<Stack> = sums
            .into_iter()
            .map(|((pid, name, frames), samples)| Stack {
                task: names.text(name).to_owned(),
                pid,
                frames,
                samples,
            })
            .collect();
        if self.others > 0 {
            let frames = vec![functions.index(OTHERS)];
            let task = OTHERS.to_owned();
            stacks.push(Stack { task, pid: 0, frames, samples: self.others });
        }
        stacks.sort_by(|a, b| {
            b.samples.cmp(&a.samples).then_with(|| (&a.task, &a.frames).cmp(&(&b.task, &b.frames)))
        });
        let StackPeriod { hz, cpus, span_ms, first_us, lost } = span;
        Profile { hz, cpus, span_ms, first_us, functions: functions.names, stacks, lost }
    }
}

/// Addresses in the functions of a stack: callers are where the call was, an instruction before
/// where it returns to, which may be in the next function already.
fn places(key: &[u64]) -> impl Iterator<Item = u64> {
    let addresses = key.get(2..).unwrap_or_default();
    addresses.iter().enumerate().map(|(depth, address)| match depth {
        0 => *address,
        _ => address.saturating_sub(1),
    })
}

/// True if the innermost function of an idle task is where it idles, not an interrupt's.
fn is_idle(function: &str) -> bool {
    ["idle", "halt", "mwait", "wfi"].iter().any(|part| function.contains(part))
}

#[derive(Debug, Default)]
struct FunctionNames {
    names: Vec<String>,
    index: HashMap<String, u32>,
}

impl FunctionNames {
    fn index(&mut self, name: &str) -> u32 {
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_counted_and_bounded() {
        let mut table = StackTable::default();
        let names = Names::default();
        for _ in 0..2 {
            for address in 0..MAX_STACKS as u64 + 10 {
                table.add(1, Names::IDLE, [address, 7].into_iter());
            }
        }
        assert_eq!((table.stacks.len(), table.others), (MAX_STACKS, 20));
        let span = StackPeriod { hz: 7, cpus: 2, span_ms: 1000, first_us: None, lost: 3 };
        let profile = table.profile(&Symbols::default(), &names, span);
        assert_eq!(profile.samples(), 2 * MAX_STACKS as u64 + 20, "merged by name, none lost");
        assert_eq!((profile.hz, profile.cpus, profile.span_ms, profile.lost), (7, 2, 1000, 3));
        let mut sum = StackTable::default();
        sum.merge(&table);
        sum.merge(&table);
        assert_eq!((sum.stacks.len(), sum.others), (MAX_STACKS, 40));
    }

    #[test]
    fn callers_are_where_the_call_was() {
        assert_eq!(places(&[1, 1, 100, 200, 0]).collect::<Vec<_>>(), [100, 199, 0]);
        assert_eq!(places(&[]).count(), 0);
    }

    #[test]
    fn idle_is_where_it_idles() {
        for function in ["poll_idle", "pv_native_safe_halt", "mwait_idle_with_hints", "intel_idle"]
        {
            assert!(is_idle(function), "{function}");
        }
        assert!(!is_idle("handle_softirqs") && !is_idle(""));
    }
}
