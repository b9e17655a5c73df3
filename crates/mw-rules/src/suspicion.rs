//! Weighs what speaks for a cause.
//!
//! Every kind of evidence has a range of its own, and only what was seen *during* the stall has
//! any: how much of the stall a task waited, or was found stuck (30 to 95), how much of a processor
//! the kernel's functions took more than before (30 to 75), how long memory pressure or the canary
//! says that programs waited (30 to 65), how fast counters went up (30 to 60). The surest counts;
//! each further kind adds a little. Profile and counters say what the kernel did, not that anybody
//! waited for it: where waits were looked for and there were none, they do not make a cause plausible.

use crate::stall::{Canary, Resource, Stall};
use mw_model::{Cause, Evidence, Finding, Missing, Quantity, WaitKind, format_duration_ms};
use mw_proc::vmstat::Counter;

/// What any evidence is worth at least, and what each kind is worth at most.
const LEAST: f64 = 30.0;
const MOST_OF_WAITS: f64 = 95.0;
const MOST_OF_PROFILE: f64 = 75.0;
const MOST_OF_PRESSURE: f64 = 65.0;
const MOST_OF_RATES: f64 = 60.0;

/// Share of the stall, or of one processor, from which it is evidence.
const LEAST_SHARE_PERCENT: f64 = 10.0;

/// A rate counts when it is this many times what it was before the stall.
const LEAST_GROWTH: f64 = 2.0;

/// What a rate is worth for each doubling above its threshold.
const PER_DOUBLING: f64 = 10.0;

/// What a further kind of evidence adds, and from which strength on.
const PER_FURTHER: f64 = 4.0;
const FURTHER_FROM: f64 = 35.0;

/// Nothing is certain.
const MOST: f64 = 97.0;

/// What the kernel's work is worth where nobody is known to have waited for it: waits were looked for,
/// or the canary got its memory at once.
const MOST_IF_NOBODY_WAITED: f64 = 34.0;

/// What a condition is worth at most that was there before the stall and has not changed.
pub(crate) const LATENT_MOST: f64 = 60.0;

/// Causes below this are not worth naming.
pub(crate) const WORTH_NAMING: f64 = 20.0;

/// What speaks for a cause.
pub(crate) struct Suspicion<'a> {
    stall: &'a Stall<'a>,
    strengths: Vec<f64>,
    /// Of what the kernel did, whether or not somebody waited for it.
    work: Vec<f64>,
    evidence: Vec<Evidence>,
    /// Waits were looked for, and there were none.
    nobody_waited: bool,
    looked: bool,
    missing: Option<Missing>,
    factor: f64,
    most: f64,
    whom: Option<String>,
}

impl<'a> Suspicion<'a> {
    /// Nothing yet.
    pub(crate) fn of(stall: &'a Stall<'a>) -> Self {
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
            whom: None,
        }
    }

    /// Reclaim of the whole machine, whoever does it and whyever.
    pub(crate) fn of_reclaim(stall: &'a Stall<'a>) -> Self {
        let everywhere = Self::of(stall)
            .profile(crate::kernel::RECLAIM)
            .rate("pages scanned", &[Counter::PgscanKswapd, Counter::PgscanDirect], 10_000.0)
            .rate("allocstall", &[Counter::Allocstall], 10.0)
            .pressure();
        let everywhere = match stall.canary() {
            Canary::Calm => everywhere.each_at_most(MOST_IF_NOBODY_WAITED),
            _ => everywhere,
        };
        everywhere
            .waits(&[WaitKind::DirectReclaim, WaitKind::ReclaimThrottle])
            .stuck(crate::kernel::DIRECT_RECLAIM)
            .canary()
    }

    /// Compaction by whoever wants a large block.
    pub(crate) fn of_compaction(stall: &'a Stall<'a>) -> Self {
        const STALLS_PER_S: f64 = 10.0;
        Self::of(stall)
            .waits(&[WaitKind::Compaction])
            .stuck(crate::kernel::DIRECT_COMPACTION)
            .profile(crate::kernel::COMPACTION)
            .rate("compact_stall", &[Counter::CompactStall], STALLS_PER_S)
    }

    /// How much of the stall a task waited in one of these ways.
    #[must_use]
    pub(crate) fn waits(mut self, kinds: &[WaitKind]) -> Self {
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
            self.whom = Some(format!("{} waited {}", waited.task, format_duration_ms(ms)));
        } else {
            self.nobody_waited = self.stall.waits_were_looked_for();
        }
        let this = self.see(what, Quantity::Milliseconds(ms), waited.source);
        if waited.tasks < 2 {
            return this;
        }
        let what = format!("all {} tasks named {}", waited.tasks, waited.task);
        this.see(what, Quantity::Milliseconds(waited.all_us as f64 / 1000.0), waited.source)
    }

    /// How often a task was found stuck in one of these functions.
    #[must_use]
    pub(crate) fn stuck(mut self, functions: &[&str]) -> Self {
        let Some(task) = self.stall.stuck_in(functions) else { return self };
        let share = f64::from(task.seen) * 100.0 / f64::from(task.looks.max(task.seen).max(1));
        let inner = task.stack.iter().find(|f| crate::stall::is_in(&[(*f).clone()], functions));
        let what = format!("{} blocked in {}", task.task, inner.map_or("", String::as_str));
        self.add(share, self.stall.weight_of(&task.task), MOST_OF_WAITS);
        self.looked = true;
        self.see(what, Quantity::Percent(share), format!("/proc/{}/stack", task.pid))
    }

    /// How much of a processor these functions took more than before.
    #[must_use]
    pub(crate) fn profile(mut self, functions: &[&str]) -> Self {
        self.looked |= !self.stall.incident.difference.is_empty();
        let Some((function, grown)) = self.stall.grown_percent(functions) else { return self };
        if grown < LEAST_SHARE_PERCENT {
            return self;
        }
        self.work.push(strength(grown, MOST_OF_PROFILE));
        let what = format!("{function}, share of one CPU, increase");
        self.see(what, Quantity::Percent(grown), "kernel profile")
    }

    /// How fast counters went up, against what is usual and against before.
    #[must_use]
    pub(crate) fn rate(mut self, what: &str, counters: &[Counter], threshold_per_s: f64) -> Self {
        let rate = match self.stall.rate(counters) {
            Ok(rate) => rate,
            Err(missing) => {
                self.missing.get_or_insert(missing);
                return self;
            }
        };
        self.looked = true;
        let calm = self.stall.calm_rate(counters);
        if rate < threshold_per_s || rate < calm * LEAST_GROWTH {
            return self;
        }
        let strength = LEAST + PER_DOUBLING * (rate / threshold_per_s).log2();
        self.work.push(strength.min(MOST_OF_RATES));
        let this = self.see(what, Quantity::PerSecond(rate), "/proc/vmstat");
        if this.stall.calm.is_none() {
            return this;
        }
        this.see(format!("{what}, before the stall"), Quantity::PerSecond(calm), "/proc/vmstat")
    }

    /// How much of the stall the kernel says that some task waited for memory.
    #[must_use]
    pub(crate) fn pressure(mut self) -> Self {
        let Some(share) = self.stall.pressure_percent(Resource::Memory) else { return self };
        self.looked = true;
        if share < LEAST_SHARE_PERCENT {
            return self;
        }
        self.add(share, 1.0, MOST_OF_PRESSURE);
        self.see("memory pressure, some", Quantity::Percent(share), "/proc/pressure/memory")
    }

    /// How long fresh memory took the canary beyond the same work without. By itself that says that it
    /// was memory, and not what about it.
    #[must_use]
    pub(crate) fn canary(mut self) -> Self {
        let Canary::Memory(us) = self.stall.canary() else { return self };
        if self.strengths.is_empty() && self.work.is_empty() {
            return self;
        }
        self.add(self.stall.cover_percent(us).max(LEAST_SHARE_PERCENT), 1.0, MOST_OF_PRESSURE);
        let ms = us as f64 / 1000.0;
        self.see("page-fault latency of the canary", Quantity::Milliseconds(ms), "canary")
    }

    /// The cause of a stall in which the service says in one of these words that it was refused,
    /// where the worst of these findings is why.
    pub(crate) fn of_refusal(
        stall: &Stall<'_>,
        found: Vec<Finding>,
        words: &[&str],
    ) -> Result<Option<Cause>, Missing> {
        const OF_A_REFUSAL: f64 = 70.0;
        let worst = found.into_iter().max_by_key(|finding| finding.severity);
        let Some(mut finding) = worst.filter(|_| stall.failure_says(words)) else {
            return Ok(None);
        };
        let said = stall.incident.trigger.failure.clone().unwrap_or_default();
        let suspicion = Suspicion::of(stall).event(OF_A_REFUSAL).see(
            "error of the service",
            Quantity::Text(said),
            "probe",
        );
        finding.headline = format!("the service was refused memory: {}", finding.headline);
        suspicion.cause(finding)
    }

    /// Something that happened during the stall and that is worth so much by itself.
    #[must_use]
    pub(crate) fn event(mut self, strength: f64) -> Self {
        self.looked = true;
        self.strengths.push(strength);
        self
    }

    /// Adds a line that says more, without being worth anything by itself.
    #[must_use]
    pub(crate) fn see(
        mut self,
        what: impl Into<String>,
        quantity: Quantity,
        source: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence { what: what.into(), quantity, source: source.into() });
        self
    }

    /// Makes it worth only a part.
    #[must_use]
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.factor *= factor;
        self
    }

    /// Bounds what it is worth.
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

    /// How sure it is, 0 to 100.
    pub(crate) fn confidence_percent(&self) -> f64 {
        let in_vain = self.nobody_waited && self.strengths.is_empty();
        let most_of_work = if in_vain { MOST_IF_NOBODY_WAITED } else { MOST };
        let work = self.work.iter().map(|strength| strength.min(most_of_work));
        let all: Vec<f64> = self.strengths.iter().copied().chain(work).collect();
        let best = all.iter().copied().fold(0.0, f64::max);
        let strong = all.iter().filter(|strength| **strength >= FURTHER_FROM).count();
        let further = strong.saturating_sub(1) as f64 * PER_FURTHER;
        let sum = if strong > 0 { best + further } else { best };
        // The weakest kind of evidence cannot become the surest by number.
        let bound = if best > MOST_OF_PROFILE { MOST } else { best + 2.0 * PER_FURTHER };
        (sum.min(bound).min(MOST) * self.factor).min(self.most)
    }

    /// Who waited longest and how long, for a headline: `postgres waited 7.9 s`.
    pub(crate) fn whom(&self) -> Option<&str> {
        self.whom.as_deref()
    }

    /// A headline with who waited longest.
    pub(crate) fn said(&self, headline: &str) -> String {
        self.whom().map_or_else(|| headline.to_owned(), |whom| format!("{headline}; {whom}"))
    }

    /// The cause, where enough speaks for it; what was seen stands before what the finding has.
    ///
    /// # Errors
    /// Nothing speaks for it, and nothing could be looked at.
    pub(crate) fn cause(self, mut finding: Finding) -> Result<Option<Cause>, Missing> {
        let confidence = self.confidence_percent();
        if confidence < WORTH_NAMING {
            return self.nothing();
        }
        let mut evidence = self.evidence;
        evidence.append(&mut finding.evidence);
        finding.evidence = evidence;
        Ok(Some(Cause { finding, confidence_percent: confidence.round() as u8 }))
    }

    /// No cause.
    ///
    /// # Errors
    /// Nothing could be looked at.
    pub(crate) fn nothing(self) -> Result<Option<Cause>, Missing> {
        match self.missing {
            Some(missing) if !self.looked => Err(missing),
            _ => Ok(None),
        }
    }
}

/// What a share is worth of something that is worth `most` in full.
fn strength(share_percent: f64, most: f64) -> f64 {
    LEAST + (most - LEAST) * (share_percent / 100.0).min(1.0)
}
