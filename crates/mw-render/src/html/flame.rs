//! The stacks of a stall as one tree, each branch with its share before.

use super::safe::shown;
use mw_model::Profile;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Branches that are drawn; the thinnest are cut.
const MOST_BRANCHES: usize = 3000;
/// Depth of a tree; the kernel gives at most 127 frames.
const MOST_FRAMES: usize = 128;
/// A branch below this share of all samples cannot be seen.
const THINNEST: f64 = 0.0005;

/// A flame graph, branch by branch, each before what it called.
#[derive(Debug, Serialize)]
pub(super) struct Flame {
    /// Names of tasks and functions, each once.
    names: Vec<String>,
    branches: Vec<Branch>,
    /// Samples during the stall.
    pub(super) samples: u64,
    /// Share of the CPUs in percent of all stacks during the stall, and before.
    during: f64,
    before: f64,
    /// True if there is a baseline to compare with.
    pub(super) compared: bool,
    /// Branches too thin to draw.
    #[serde(skip)]
    pub(super) cut: usize,
}

/// Depth, name, samples, then the share of the CPUs in percent during and before the stall.
#[derive(Debug, Serialize)]
struct Branch(u32, u32, u64, f64, f64);

/// A tree of calls: a branch for every task, and below it one for every function.
#[derive(Default)]
struct Tree<'a> {
    below: BTreeMap<&'a str, Tree<'a>>,
    during: u64,
    before: u64,
}

/// Factor from samples to percent of all CPU time.
struct FlameScale {
    during: f64,
    before: f64,
}

impl Flame {
    /// The tree of a profile; nothing where there is no sample.
    pub(super) fn new(profile: &Profile, baseline: Option<&Profile>) -> Option<Self> {
        let mut tree = Tree::default();
        tree.grow(profile, |branch| &mut branch.during);
        if let Some(baseline) = baseline {
            tree.grow(baseline, |branch| &mut branch.before);
        }
        let samples = tree.during;
        if samples == 0 {
            return None;
        }
        let compared = baseline.is_some_and(|baseline| baseline.samples() > 0);
        let mut all = Vec::new();
        tree.list(0, &mut all);
        let thinnest = thinnest(&all, samples);
        let scale =
            FlameScale { during: percent_of(profile), before: baseline.map_or(0.0, percent_of) };
        let Branch(_, _, _, during, before) = scale.branch(0, 0, &tree);
        let (names, branches) = (Vec::new(), Vec::new());
        let mut flame = Self { names, branches, samples, during, before, compared, cut: 0 };
        let mut numbers = HashMap::new();
        for (depth, name, branch) in all {
            if branch.during < thinnest || flame.branches.len() == MOST_BRANCHES {
                flame.cut += 1;
                continue;
            }
            let name = *numbers.entry(name).or_insert_with(|| {
                flame.names.push(shown(name));
                flame.names.len() - 1
            });
            flame.branches.push(scale.branch(depth, name, branch));
        }
        Some(flame)
    }
}

impl<'a> Tree<'a> {
    fn grow(&mut self, profile: &'a Profile, counter: impl Fn(&mut Self) -> &mut u64) {
        for stack in &profile.stacks {
            let frames = profile.names(stack).take(MOST_FRAMES);
            let mut at = &mut *self;
            add(counter(at), stack.samples);
            for name in std::iter::once(stack.task.as_str()).chain(frames) {
                at = at.below.entry(name).or_default();
                add(counter(at), stack.samples);
            }
        }
    }

    /// All branches below, each before what is below it, the widest first.
    fn list<'t>(&'t self, depth: u32, all: &mut Vec<(u32, &'a str, &'t Self)>) {
        let mut below: Vec<_> = self.below.iter().filter(|(_, tree)| tree.during > 0).collect();
        below.sort_by_key(|(_, tree)| std::cmp::Reverse(tree.during));
        for (name, tree) in below {
            all.push((depth, name, tree));
            tree.list(depth + 1, all);
        }
    }
}

impl FlameScale {
    fn branch(&self, depth: u32, name: usize, tree: &Tree) -> Branch {
        let round = |percent: f64| (percent * 1000.0).round() / 1000.0;
        let during = round(tree.during as f64 * self.during);
        let before = round(tree.before as f64 * self.before);
        Branch(depth, u32::try_from(name).unwrap_or(u32::MAX), tree.during, during, before)
    }
}

fn add(counter: &mut u64, samples: u64) {
    *counter = counter.saturating_add(samples);
}

/// Share of one sample of all CPU time, idle included, in percent; of all samples where the
/// profile does not say how it was taken.
fn percent_of(profile: &Profile) -> f64 {
    let asked = f64::from(profile.hz) * f64::from(profile.cpus) * profile.span_ms as f64 / 1000.0;
    let of = if asked > 0.0 { asked } else { profile.samples() as f64 };
    if of > 0.0 { 100.0 / of } else { 0.0 }
}

/// Samples below which a branch is cut. Whatever is below a branch has fewer, so that what is left
/// hangs together.
fn thinnest(all: &[(u32, &str, &Tree)], samples: u64) -> u64 {
    let seen = (samples as f64 * THINNEST).ceil() as u64;
    let mut sizes: Vec<u64> = all.iter().map(|(_, _, tree)| tree.during).collect();
    sizes.sort_unstable_by_key(|size| std::cmp::Reverse(*size));
    seen.max(sizes.get(MOST_BRANCHES).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Stack;

    fn profile(stacks: &[(&str, &[u32], u64)]) -> Profile {
        let functions = ["do_fault", "compact_zone", "isolate"].map(str::to_owned).to_vec();
        let stack = |(task, frames, samples): &(&str, &[u32], u64)| Stack {
            task: (*task).to_owned(),
            pid: 1,
            frames: frames.to_vec(),
            samples: *samples,
        };
        let stacks = stacks.iter().map(stack).collect();
        Profile { hz: 100, cpus: 2, span_ms: 1000, functions, stacks, ..Profile::default() }
    }

    #[test]
    fn branches_come_before_what_they_called_with_both_shares() {
        let during = profile(&[("pg", &[0, 1], 60), ("pg", &[0, 1, 2], 20), ("idle", &[], 20)]);
        let before = profile(&[("pg", &[0], 10), ("cron", &[0], 5)]);
        let flame = Flame::new(&during, Some(&before)).unwrap();
        let seen: Vec<_> = flame
            .branches
            .iter()
            .map(|Branch(depth, name, samples, during, before)| {
                (*depth, flame.names[*name as usize].as_str(), *samples, *during, *before)
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, "pg", 80, 40.0, 5.0),
                (1, "do_fault", 80, 40.0, 5.0),
                (2, "compact_zone", 80, 40.0, 0.0),
                (3, "isolate", 20, 10.0, 0.0),
                (0, "idle", 20, 10.0, 0.0),
            ]
        );
        assert_eq!((flame.during, flame.before), (50.0, 7.5), "also what is no more");
        assert!(flame.compared && flame.cut == 0);
    }

    #[test]
    fn a_tree_of_many_branches_is_cut_to_the_widest() {
        let tasks: Vec<String> = (0..9000).map(|at| format!("task{at}")).collect();
        let stacks: Vec<(&str, &[u32], u64)> =
            tasks.iter().enumerate().map(|(at, task)| (&**task, &[0][..], at as u64)).collect();
        let flame = Flame::new(&profile(&stacks), None).unwrap();
        assert!(flame.branches.len() <= MOST_BRANCHES && flame.cut > 10_000);
        assert!(!flame.compared);
    }

    #[test]
    fn nothing_sampled_is_no_tree() {
        assert!(Flame::new(&profile(&[]), None).is_none());
        let endless = vec![0; 100_000];
        let flame = Flame::new(&profile(&[("deep", &endless, u64::MAX)]), None).unwrap();
        assert_eq!(flame.branches.len(), MOST_FRAMES + 1);
    }
}
