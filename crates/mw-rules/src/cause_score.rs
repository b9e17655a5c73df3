//! How well the evidence of a stall supports a cause.
//!
//! Every kind of evidence has a range of its own, and only evidence from *during* the stall counts:
//! the share of the stall that a task waited or was blocked (30 to 95), the increase of a kernel
//! function's CPU share (30 to 75), memory pressure or page-fault latency of the canary (30 to 65), the
//! rates of counters (30 to 60). The strongest kind decides; each further kind adds a little. Profile and
//! counters show what the kernel did, not that a task waited for it: if waits were recorded and there
//! were none, they do not make a cause plausible.

use crate::outlook;
use crate::path_words::named;
use crate::request::RequestTime;
use crate::stall_window::{CanaryVerdict, StallWindow, is_canary};
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::kernel::{self, FunctionSet};
use mw_model::{
    BlockedTask, Evidence, FailureKind, Finding, Missing, Quantity, Resource, Subject, TriggerKind,
    VmActivity, WaitKind,
};
use mw_proc::vmstat::Counter;

/// The lowest score of any evidence, and the highest score of each kind.
const LEAST: f64 = 30.0;
const MOST_OF_WAITS: f64 = 95.0;
const MOST_OF_PROFILE: f64 = 75.0;
const MOST_OF_PRESSURE: f64 = 65.0;
const MOST_OF_RATES: f64 = 60.0;

/// From which share of the stall, or of one CPU, on it is evidence.
const LEAST_SHARE_PERCENT: f64 = 10.0;

/// Smallest rate that counts, as a multiple of the rate before the stall.
const LEAST_GROWTH: f64 = 2.0;

/// The score for each doubling of a rate above its threshold.
const PER_DOUBLING: f64 = 10.0;

/// Weight of each further kind of evidence, and the score from which it counts.
const PER_FURTHER: f64 = 4.0;
const FURTHER_FROM: f64 = 35.0;

/// Nothing is certain.
const MOST: f64 = 97.0;

/// The highest score of the kernel's work if no task waited for it: waits were recorded, or the canary's
/// page faults were fast.
const MOST_IF_NOBODY_WAITED: f64 = 34.0;

/// The highest score of a condition that existed before the stall and did not change.
pub(crate) const LATENT_MOST: f64 = 60.0;

/// Causes with a lower score are not named.
pub(crate) const WORTH_NAMING: f64 = 20.0;

/// The evidence for a cause, and its score.
pub(crate) struct CauseScore<'a> {
    stall: &'a StallWindow<'a>,
    strengths: Vec<f64>,
    /// Scores of what the kernel did, whether or not a task waited for it.
    work: Vec<f64>,
    evidence: Vec<Evidence>,
    /// Waits were recorded, and there were none.
    nobody_waited: bool,
    looked: bool,
    missing: Option<Missing>,
    factor: f64,
    most: f64,
    longest_waiter: Option<String>,
}

impl<'a> CauseScore<'a> {
    pub(crate) fn new(stall: &'a StallWindow<'a>) -> Self {
        Self {
            stall,
            strengths: Vec::new(),
            work: Vec::new(),
            evidence: Vec::new(),
            nobody_waited: false,
            looked: !stall.incident.waits.is_empty(),
            missing: None,
            factor: 1.0,
            most: MOST,
            longest_waiter: None,
        }
    }

    /// Reclaim on the whole machine, by any task and for any reason.
    pub(crate) fn for_reclaim(stall: &'a StallWindow<'a>) -> Self {
        let everywhere = Self::new(stall)
            .profile(kernel::RECLAIM)
            .scans(10_000.0)
            .activity("allocstall", VmActivity::DirectReclaims, 10.0)
            .pressure();
        let everywhere = match stall.canary() {
            CanaryVerdict::Calm => everywhere.each_at_most(MOST_IF_NOBODY_WAITED),
            _ => everywhere,
        };
        everywhere
            .waits(&[WaitKind::DirectReclaim, WaitKind::ReclaimThrottle])
            .blocked_in(&[kernel::DIRECT_RECLAIM])
            .canary()
    }

    /// Compaction by any task that allocates a large block.
    pub(crate) fn for_compaction(stall: &'a StallWindow<'a>) -> Self {
        const STALLS_PER_S: f64 = 10.0;
        Self::new(stall)
            .waits(&[WaitKind::Compaction])
            .blocked_in(&[kernel::DIRECT_COMPACTION])
            .profile(kernel::COMPACTION)
            .activity("direct compactions", VmActivity::DirectCompactions, STALLS_PER_S)
    }

    /// Share of the stall that a task spent in waits of these kinds.
    #[must_use]
    pub(crate) fn waits(mut self, kinds: &[WaitKind]) -> Self {
        if let Some(request) = self.stall.request {
            return self.request_spent(request, kinds);
        }
        let Some(waited) = self.stall.longest_wait(kinds) else {
            self.nobody_waited = self.stall.waits_were_looked_for();
            return self;
        };
        let share = self.stall.share_percent(&waited);
        let ms = waited.total_us as f64 / 1000.0;
        let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        let times = waited.count.map_or(String::new(), |count| format!(", {count} times"));
        let what = format!("{} waited in {}{times}", waited.task, names.join(" or "));
        self.add(share, self.stall.weight_of(&waited.task), MOST_OF_WAITS);
        if share >= LEAST_SHARE_PERCENT {
            // That the canary waited is what showed the stall.
            let is_other = !is_canary(&waited.task);
            self.longest_waiter = is_other.then(|| waited.task.clone());
        } else {
            self.nobody_waited = self.stall.waits_were_looked_for();
        }
        let this = self.with_evidence(what, Quantity::Milliseconds(ms), waited.source);
        if waited.tasks < 2 {
            return this;
        }
        let what = format!("all {} tasks named {}", waited.tasks, waited.task);
        this.with_evidence(
            what,
            Quantity::Milliseconds(waited.all_us as f64 / 1000.0),
            waited.source,
        )
    }

    /// Share of the request that was spent on these, by its critical path. The waits of other tasks are no evidence
    /// beside it.
    fn request_spent(mut self, request: &RequestTime<'_>, kinds: &[WaitKind]) -> Self {
        let on = &spent_in(kinds);
        let share = request.percent(on);
        let Some(part) = request.largest(on).filter(|_| share >= LEAST_SHARE_PERCENT) else {
            self.nobody_waited = true;
            return self;
        };
        self.looked = true;
        self.add(share, 1.0, MOST_OF_WAITS);
        let waiter = named(self.stall, &part.task);
        self.longest_waiter = if self.stall.is_recorder(&part.task) {
            // What the recorder met others meet as well: one of them is named.
            self.stall.longest_wait(kinds).map(|other| other.task)
        } else {
            Some(waiter.clone())
        };
        let what = format!("share of the request, longest by {waiter}");
        self.with_evidence(what, Quantity::Percent(share), "critical path")
    }

    /// Number of times that a task was blocked in one of these functions.
    #[must_use]
    pub(crate) fn blocked_in(mut self, functions: &[FunctionSet]) -> Self {
        if let Some(request) = self.stall.request {
            if let Some((share, _)) = request.below(functions) {
                self.add(share, 1.0, MOST_OF_WAITS);
            }
            return self;
        }
        let Some(task) = self.stall.blocked_in(functions) else { return self };
        let inner = task.stack.iter().find(|function| kernel::is_of(functions, function));
        self.blocked(task, &format!("in {}", inner.map_or("", String::as_str)))
    }

    /// Number of times that a task was blocked on the lock of its address space.
    #[must_use]
    pub(crate) fn blocked_on_mmap_lock(mut self) -> Self {
        if let Some(request) = self.stall.request {
            let share = request.percent_where(|_, part| kernel::is_wait_for_mmap_lock(&part.stack));
            self.add(share, 1.0, MOST_OF_WAITS);
            return self;
        }
        match self.stall.blocked_where(kernel::is_wait_for_mmap_lock) {
            Some(task) => self.blocked(task, "on mmap_lock"),
            None => self,
        }
    }

    /// Number of times that this task was blocked on something.
    #[must_use]
    pub(crate) fn blocked(mut self, task: &BlockedTask, on: &str) -> Self {
        let share = f64::from(task.seen) * 100.0 / f64::from(task.looks.max(task.seen).max(1));
        let what = format!("{} blocked {on}", task.task);
        self.add(share, self.stall.weight_of(&task.task), MOST_OF_WAITS);
        self.looked = true;
        self.with_evidence(what, Quantity::Percent(share), format!("/proc/{}/stack", task.pid))
    }

    /// Share of the stall in which a writer was throttled for its dirty pages. A late answer may have waited for that, and
    /// so may a write fault on a shared mapping of a file, which the critical path shows. The canary's faults of private
    /// memory and a late wake-up do not, and the kernel does not count it as waiting for memory (balance_dirty_pages()
    /// has no psi_memstall_enter()).
    #[must_use]
    pub(crate) fn throttled_writers(self) -> Self {
        let kind = self.stall.incident.trigger.kind;
        let may_wait = matches!(kind, TriggerKind::Probe | TriggerKind::Requested);
        if !may_wait && self.stall.request.is_none() {
            return self;
        }
        self.waits(&[WaitKind::DirtyThrottle]).blocked_in(&[kernel::DIRTY_THROTTLING])
    }

    /// Memory work of the kernel is no cause unless a task waited for it.
    #[must_use]
    pub(crate) fn needing_a_wait(mut self) -> Self {
        self.nobody_waited = true;
        self
    }

    /// The increase of the CPU share of these functions.
    #[must_use]
    pub(crate) fn profile(mut self, functions: &[FunctionSet]) -> Self {
        self.looked |= !self.stall.incident.difference.is_empty();
        let Some((function, grown)) = self.stall.grown_percent(functions) else { return self };
        if grown < LEAST_SHARE_PERCENT {
            return self;
        }
        self.work.push(strength(grown, MOST_OF_PROFILE));
        let what = format!("{function}, share of one CPU, increase");
        self.with_evidence(what, Quantity::Percent(grown), "kernel profile")
    }

    /// The rate of counters, compared with a threshold and with the rate before the stall.
    #[must_use]
    pub(crate) fn rate(self, what: &str, counters: &[Counter], threshold_per_s: f64) -> Self {
        let (rate, calm) = (self.stall.rate(counters), self.stall.calm_rate(counters));
        self.grown(what, rate, calm, threshold_per_s)
    }

    /// The rate of an activity, compared with a threshold and with the rate before the stall.
    #[must_use]
    pub(crate) fn activity(self, what: &str, of: VmActivity, threshold_per_s: f64) -> Self {
        let (rate, calm) = (self.stall.activity(of), self.stall.calm_activity(of));
        self.grown(what, rate, calm, threshold_per_s)
    }

    /// The rate of scanned pages; of kswapd's where those of tasks are counted with those of cgroups.
    fn scans(self, threshold_per_s: f64) -> Self {
        match self.stall.activity(VmActivity::MachineScans) {
            Ok(_) => self.activity("pages scanned", VmActivity::MachineScans, threshold_per_s),
            Err(_) => {
                let what = "pages scanned by kswapd";
                self.activity(what, VmActivity::KswapdScans, threshold_per_s)
            }
        }
    }

    fn grown(
        mut self,
        what: &str,
        rate: Result<f64, Missing>,
        calm: f64,
        threshold_per_s: f64,
    ) -> Self {
        let rate = match rate {
            Ok(rate) => rate,
            Err(missing) => {
                self.missing.get_or_insert(missing);
                return self;
            }
        };
        self.looked = true;
        if rate < threshold_per_s || rate < calm * LEAST_GROWTH {
            return self;
        }
        let strength = LEAST + PER_DOUBLING * (rate / threshold_per_s).log2();
        self.work.push(strength.min(MOST_OF_RATES));
        let this = self.with_evidence(what, Quantity::PerSecond(rate), "/proc/vmstat");
        if this.stall.calm.is_none() {
            return this;
        }
        this.with_evidence(
            format!("{what}, before the stall"),
            Quantity::PerSecond(calm),
            "/proc/vmstat",
        )
    }

    /// Share of the stall in which some task waited for memory, by the kernel's pressure stall information, where
    /// counters show that one other than kswapd and kcompactd did.
    #[must_use]
    pub(crate) fn pressure(mut self) -> Self {
        let Some(share) = self.stall.pressure_percent(Resource::Memory) else { return self };
        self.looked = true;
        if share < LEAST_SHARE_PERCENT || !outlook::counts_waits(self.stall.window) {
            return self;
        }
        self.add(share, 1.0, MOST_OF_PRESSURE);
        self.with_evidence(
            "memory pressure, some",
            Quantity::Percent(share),
            "/proc/pressure/memory",
        )
    }

    /// The canary's page-fault latency beyond the same work without page faults. By itself it shows that
    /// memory was the cause, but not which condition.
    #[must_use]
    pub(crate) fn canary(mut self) -> Self {
        let CanaryVerdict::Memory(us) = self.stall.canary() else { return self };
        if self.strengths.is_empty() && self.work.is_empty() {
            return self;
        }
        self.add(self.stall.cover_percent(us).max(LEAST_SHARE_PERCENT), 1.0, MOST_OF_PRESSURE);
        let ms = us as f64 / 1000.0;
        self.with_evidence("page-fault latency of the canary", Quantity::Milliseconds(ms), "canary")
    }

    /// The cause of a stall in which the service failed in this way, or with one of these words: the worst of these
    /// findings.
    pub(crate) fn refusal_cause(
        stall: &StallWindow<'_>,
        found: Vec<Finding>,
        headline: impl FnOnce(&Subject) -> String,
        kind: FailureKind,
        words: &[&str],
    ) -> Result<Option<Suspect>, Missing> {
        const OF_A_REFUSAL: f64 = 70.0;
        let worst = found.into_iter().max_by_key(|finding| finding.severity);
        let Some(mut finding) = worst.filter(|_| stall.failed_by(kind, words)) else {
            return Ok(None);
        };
        let said = stall.incident.trigger.failure.clone().unwrap_or_default();
        let score = CauseScore::new(stall).event(OF_A_REFUSAL).with_evidence(
            "error of the service",
            Quantity::Text(said),
            "probe",
        );
        finding.headline = headline(&finding.subject);
        score.cause(finding)
    }

    /// An event during the stall that has this score by itself.
    #[must_use]
    pub(crate) fn event(mut self, strength: f64) -> Self {
        self.looked = true;
        self.strengths.push(strength);
        self
    }

    /// Adds evidence that has no score of its own.
    #[must_use]
    pub(crate) fn with_evidence(
        mut self,
        what: impl Into<String>,
        quantity: Quantity,
        source: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence { what: what.into(), quantity, source: source.into() });
        self
    }

    /// Multiplies the score.
    #[must_use]
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.factor *= factor;
        self
    }

    /// Limits the score.
    #[must_use]
    pub(crate) fn at_most(mut self, most: f64) -> Self {
        self.most = self.most.min(most);
        self
    }

    fn each_at_most(mut self, most: f64) -> Self {
        for strength in self.strengths.iter_mut().chain(&mut self.work) {
            *strength = strength.min(most);
        }
        self
    }

    fn add(&mut self, share_percent: f64, weight: f64, most: f64) {
        if share_percent >= LEAST_SHARE_PERCENT {
            self.strengths.push(strength(share_percent.min(100.0) * weight, most));
        }
    }

    /// Strength of the evidence, 0 to 100.
    pub(crate) fn strength_percent(&self) -> f64 {
        let in_vain = self.nobody_waited && self.strengths.is_empty();
        let most_of_work = if in_vain { MOST_IF_NOBODY_WAITED } else { MOST };
        let work = self.work.iter().map(|strength| strength.min(most_of_work));
        let all: Vec<f64> = self.strengths.iter().copied().chain(work).collect();
        let best = all.iter().copied().fold(0.0, f64::max);
        let strong = all.iter().filter(|strength| **strength >= FURTHER_FROM).count();
        let further = strong.saturating_sub(1) as f64 * PER_FURTHER;
        let sum = if strong > 0 { best + further } else { best };
        // Many weak kinds of evidence do not make a strong one.
        let bound = if best > MOST_OF_PROFILE { MOST } else { best + 2.0 * PER_FURTHER };
        (sum.min(bound).min(MOST) * self.factor).min(self.most)
    }

    /// The task that waited longest.
    pub(crate) fn longest_waiter(&self) -> Option<&str> {
        self.longest_waiter.as_deref()
    }

    /// The cause, if its evidence is strong enough; this evidence precedes that of the finding.
    ///
    /// # Errors
    /// There is no evidence, because none could be read.
    pub(crate) fn cause(self, mut finding: Finding) -> Result<Option<Suspect>, Missing> {
        let strength = self.strength_percent();
        if strength < WORTH_NAMING {
            return self.no_cause();
        }
        let mut evidence = self.evidence;
        evidence.append(&mut finding.evidence);
        finding.evidence = evidence;
        Ok(Some(Suspect::new(finding, strength.round() as u8)))
    }

    /// No cause.
    ///
    /// # Errors
    /// No evidence could be read.
    pub(crate) fn no_cause(self) -> Result<Option<Suspect>, Missing> {
        match self.missing {
            Some(missing) if !self.looked => Err(missing),
            _ => Ok(None),
        }
    }
}

/// The parts of a request that waits of these kinds are.
fn spent_in(kinds: &[WaitKind]) -> Vec<TimeClass> {
    let spent = |kind: &WaitKind| -> &'static [TimeClass] {
        match kind {
            WaitKind::DirectReclaim | WaitKind::ReclaimThrottle | WaitKind::NodeReclaim => {
                &[TimeClass::Reclaim]
            }
            WaitKind::CgroupReclaim => {
                &[TimeClass::CgroupReclaim, TimeClass::MemoryHigh, TimeClass::GroupSwapIn]
            }
            WaitKind::Compaction => &[TimeClass::Compaction],
            WaitKind::DirtyThrottle => &[TimeClass::DirtyThrottling],
            WaitKind::Swap => &[TimeClass::SwapIn],
            WaitKind::Oom => &[],
        }
    };
    kinds.iter().flat_map(spent).copied().collect()
}

/// The strength of a share, where all of it has the strength `most`.
fn strength(share_percent: f64, most: f64) -> f64 {
    LEAST + (most - LEAST) * (share_percent / 100.0).min(1.0)
}
