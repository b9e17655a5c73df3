//! The cgroups of tasks, which may end with a stall, and the counters of all cgroups from its alarm on.

use mw_collect::{CpuSample, GroupSample, GroupSampler, Source};
use mw_model::{CpuUse, GroupUse, Missing};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Samples of cgroups that are kept, and the time from one to the next: what begins within it has the same.
const MAX_SAMPLES: usize = 8;
const SAMPLES_APART_MS: u64 = 2000;

/// Cgroups of former stalls that are read first.
const MAX_CONCERNED: usize = 8;

/// CPU time that reading the counters of all cgroups may take: of 500 cgroups, or of 25 on an emulated CPU.
const GROUPS_LIMIT: Duration = Duration::from_millis(25);

/// Tasks whose cgroups are remembered, and those whose cgroups are read in a round.
const MAX_KNOWN: usize = 1024;
const MAX_NEW_TASKS: usize = 16;

#[derive(Debug)]
pub(crate) struct TaskGroups {
    samples: Mutex<Option<GroupSamples>>,
    /// Cgroups of the tasks of the stalls that are traced.
    known: Mutex<BTreeMap<u32, Vec<String>>>,
    /// Tasks that had a CPU lately.
    running: Mutex<BTreeSet<u32>>,
}

/// Counters of cgroups, from the alarm on.
#[derive(Debug)]
struct GroupSamples {
    sampler: GroupSampler,
    /// At the latest alarms and beginnings of stalls, in milliseconds since 1970.
    samples: VecDeque<(u64, GroupSample)>,
    /// CPU time until then.
    cpus: VecDeque<(u64, CpuSample)>,
    /// Cgroups of the latest stalls, which are read first at the next: those of a service behind a command are known by no
    /// connection.
    concerned: VecDeque<String>,
}

impl TaskGroups {
    /// Finds the hierarchies; says what is missing where there are none.
    pub(crate) fn open(source: &Source, unseen: &mut Vec<Missing>) -> Self {
        let sampler = GroupSampler::find(source).map_err(|missing| unseen.push(missing)).ok();
        let (samples, cpus, concerned) = Default::default();
        let samples = sampler.map(|sampler| GroupSamples { sampler, samples, cpus, concerned });
        Self { samples: Mutex::new(samples), known: Mutex::default(), running: Mutex::default() }
    }

    /// The cgroups of a process or thread, or those that it had earlier in the stall: who had the CPU may end with it.
    pub(crate) fn cgroups_of(&self, tid: u32) -> Option<Vec<String>> {
        let groups = locked(&self.samples).as_ref()?.sampler.cgroups_of(tid);
        let mut known = locked(&self.known);
        if groups.is_empty() {
            return known.get(&tid).cloned();
        }
        if known.len() < MAX_KNOWN {
            known.insert(tid, groups.clone());
        }
        Some(groups)
    }

    /// These tasks had a CPU lately.
    pub(crate) fn note_running(&self, tids: BTreeSet<u32>) {
        *locked(&self.running) = tids;
    }

    /// Reads the cgroups of tasks that had a CPU lately, where these are not known.
    pub(crate) fn find_those_of_running(&self) {
        let mut running = std::mem::take(&mut *locked(&self.running));
        let known = locked(&self.known);
        running.retain(|tid| !known.contains_key(tid));
        drop(known);
        for tid in running.into_iter().take(MAX_NEW_TASKS) {
            self.cgroups_of(tid);
        }
    }

    /// The stalls are over.
    pub(crate) fn forget_tasks(&self) {
        locked(&self.known).clear();
    }

    /// Reads the counters of all cgroups, `first` before others; where that was done shortly before, the limits of `first` alone.
    pub(crate) fn sample(&self, first: &[String]) {
        let mut groups = locked(&self.samples);
        let Some(GroupSamples { sampler, samples, cpus, concerned }) = groups.as_mut() else {
            return;
        };
        let others = concerned.iter().filter(|group| !first.contains(group));
        let first: Vec<String> = first.iter().chain(others).cloned().collect();
        let first = first.as_slice();
        let now = mw_sys::unix_ms();
        if let Some((at, sample)) = samples.back_mut()
            && at.saturating_add(SAMPLES_APART_MS) > now
        {
            return sampler.add_limits(sample, first);
        }
        if cpus.len() >= MAX_SAMPLES {
            cpus.pop_front();
        }
        cpus.extend(CpuSample::take().map(|sample| (mw_sys::unix_ms(), sample)));
        let sample = sampler.sample(GROUPS_LIMIT, first);
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back((mw_sys::unix_ms(), sample));
    }

    /// A stall was one of this cgroup.
    pub(crate) fn concern(&self, cgroup: &str) {
        let mut groups = locked(&self.samples);
        let Some(GroupSamples { concerned, .. }) = groups.as_mut() else { return };
        if cgroup != "/" && !concerned.iter().any(|known| known == cgroup) {
            concerned.truncate(MAX_CONCERNED - 1);
            concerned.push_front(cgroup.to_owned());
        }
    }

    /// Use and waits of cgroups since the last sample shortly before this time, in milliseconds since 1970, or the first
    /// after it. `cgroups` are read first; those of `of_service` and above them are the service's.
    pub(crate) fn since(
        &self,
        seen_unix_ms: u64,
        of_service: &BTreeSet<String>,
        cgroups: &[String],
    ) -> Vec<GroupUse> {
        let mut groups = locked(&self.samples);
        let Some(GroupSamples { sampler, samples, .. }) = groups.as_mut() else {
            return Vec::new();
        };
        let earlier = samples.partition_point(|(at, _)| *at <= seen_unix_ms);
        let last = earlier.checked_sub(1).and_then(|last| samples.get(last));
        let recent = last.filter(|(at, _)| at.saturating_add(SAMPLES_APART_MS) >= seen_unix_ms);
        let Some((begun, before)) = recent.or_else(|| samples.get(earlier)).or(last) else {
            return Vec::new();
        };
        let between = samples.iter().filter(|(at, _)| at > begun).map(|(_, sample)| sample);
        let now = sampler.sample(GROUPS_LIMIT, cgroups);
        let mut uses = sampler.difference(before, &between.collect::<Vec<_>>(), &now);
        for group in &mut uses {
            // The groups of all probed services were sampled as such.
            let is_above = |path: &String| Path::new(path).starts_with(&group.path);
            group.of_service = group.path != "/" && of_service.iter().any(is_above);
        }
        uses
    }

    /// CPU time since the last sample before this time, or the first one after it.
    pub(crate) fn cpus_since(&self, seen_unix_ms: u64) -> Option<CpuUse> {
        let groups = locked(&self.samples);
        let cpus = &groups.as_ref()?.cpus;
        let earlier = cpus.partition_point(|(at, _)| *at <= seen_unix_ms);
        let last = earlier.checked_sub(1).and_then(|last| cpus.get(last));
        let (_, before) = last.or_else(|| cpus.get(earlier))?;
        Some(CpuSample::take()?.since(*before))
    }
}

/// What a thread that panicked left is still used.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
