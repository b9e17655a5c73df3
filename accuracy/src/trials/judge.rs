//! Judges what the recorder said of a play by what was really injected: pure functions.

use super::boot::TrialService;
use super::condition::{CPUS, ExpectedCause, FAILURE, TrialCulprit, TrialProbe, Truth};
use super::play::Play;
use super::played::{ClientSample, LIMIT_MS, RunTimes};
use mw_model::{FailureKind, Incident, PartyKind, TriggerKind};
use mw_rules::{Rule, find};
use serde::{Deserialize, Serialize};

/// "Likely" and above.
pub(super) const LIKELY_PERCENT: u8 = 70;
/// The recorder asks once a second: it must see a stall that is longer than that and its limit.
const SURE_TO_BE_SEEN_MS: f64 = 1000.0 + LIMIT_MS + 200.0;
/// A stall is so many times as long as any request before it; otherwise something else disturbs the service.
const TIMES_CALM: f64 = 2.0;
/// The client's first requests open connections, and read what is not in memory.
const FIRST_SAMPLES: usize = 3;
/// Largest distance of the path's sum from the request.
const SUM_PERCENT: f64 = 5.0;
/// Incidents that begin this long before or after a play are not its own.
const BEFORE_MS: f64 = 300.0;
const AFTER_MS: f64 = 500.0;
/// Time for which the recorder's start is watched.
const START_MS: f64 = 5000.0;

/// Verdict on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PlayVerdict {
    Right,
    Partly,
    Wrong,
    /// The recorder said that it does not know the cause.
    Unknown,
    /// There was a stall, and no incident.
    Missed,
    /// Nothing was injected, nothing stalled, and nothing was reported.
    Quiet,
    /// Nothing stalled, and an incident was reported.
    Spurious,
    /// There was no stall: it is not counted.
    Void,
}

/// Diagnosis of the recorder, as it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RecordedDiagnosis {
    /// The trigger's kind and name.
    pub(super) trigger: String,
    /// True if it is the probe's own incident, and not one that swallowed it.
    pub(super) is_own: bool,
    pub(super) worst_ms: f64,
    /// Duration of the incident.
    pub(super) lasted_ms: f64,
    pub(super) failure: Option<FailureKind>,
    pub(super) verdict: String,
    pub(super) causes: Vec<NamedCause>,
    /// Sum and parts of the critical path, in milliseconds.
    pub(super) path_ms: Option<f64>,
    pub(super) parts: Vec<(String, f64)>,
    /// The culprit with most of the time that has one; older results do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) culprit: Option<NamedCulprit>,
}

/// A culprit as it is kept; of an unknown kind where none was named.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NamedCulprit {
    kind: PartyKind,
    name: String,
    /// Share of the stall.
    share_percent: u8,
}

/// Verdict on the culprit that was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CulpritVerdict {
    Right,
    Unnamed,
    Bystander,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NamedCause {
    pub(super) rule: String,
    pub(super) subject: String,
    pub(super) headline: String,
    pub(super) confidence_percent: u8,
    /// Before it was calibrated, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score_percent: Option<u8>,
    pub(super) explains_percent: Option<u8>,
}

/// A judged play.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlayJudgement {
    pub(super) verdict: PlayVerdict,
    /// The reason why it is void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// The longest request, as the client saw it.
    pub(super) stall_ms: f64,
    pub(super) failures: usize,
    pub(super) seen: Option<RecordedDiagnosis>,
}

impl RecordedDiagnosis {
    pub(super) fn new(incident: &Incident, is_own: bool) -> Self {
        let causes = incident.causes.iter().map(|cause| NamedCause {
            rule: cause.finding.rule.clone(),
            subject: cause.finding.subject.to_string(),
            headline: cause.finding.headline.clone(),
            confidence_percent: cause.confidence_percent,
            score_percent: cause.score_percent,
            explains_percent: cause.explains_percent,
        });
        let ms = |ns: u64| ns as f64 / 1e6;
        let path = incident.path.as_ref();
        let part = |part: &mw_critical_path::PathPart| {
            (format!("{:?} of {}", part.kind, part.task.name), ms(part.total_ns))
        };
        Self {
            trigger: format!("{:?} {}", incident.trigger.kind, incident.trigger.name),
            is_own,
            worst_ms: incident.trigger.worst_ms,
            lasted_ms: incident.duration_ms() as f64,
            failure: incident.trigger.failure_kind,
            verdict: incident.verdict.clone(),
            causes: causes.collect(),
            path_ms: path
                .map(|p| ms(p.rest_ns + p.parts.iter().map(|part| part.total_ns).sum::<u64>())),
            parts: path.map(|p| p.parts.iter().map(part).collect()).unwrap_or_default(),
            culprit: Some(NamedCulprit::most_blamed(incident)),
        }
    }

    /// True if the path's parts add up to the request.
    pub(super) fn adds_up(&self) -> Option<bool> {
        let off = (self.path_ms? - self.worst_ms).abs();
        Some(off <= self.worst_ms * SUM_PERCENT / 100.0)
    }

    /// The culprit with its share, for the line of a result.
    pub(super) fn culprit_words(&self) -> String {
        let said = self.culprit.clone().unwrap_or_default();
        format!("{:?} {} {}%", said.kind, said.name, said.share_percent)
    }

    pub(super) fn blames_memory(&self) -> bool {
        let is_of_memory = |cause: &NamedCause| find(&cause.rule).is_none_or(Rule::is_of_memory);
        self.causes.first().is_some_and(is_of_memory)
    }
}

impl NamedCulprit {
    fn most_blamed(incident: &Incident) -> Self {
        let known = incident.blame.iter().filter(|share| share.culprit.kind != PartyKind::Unknown);
        let mut lost_ms: Vec<(&mw_model::BlameParty, u64)> = Vec::new();
        for share in known {
            match lost_ms.iter_mut().find(|(culprit, _)| *culprit == &share.culprit) {
                Some((_, ms)) => *ms += share.lost_ms,
                None => lost_ms.push((&share.culprit, share.lost_ms)),
            }
        }
        let all_ms: u64 = incident.blame.iter().map(|share| share.lost_ms).sum();
        let most = lost_ms.into_iter().max_by_key(|(_, ms)| *ms);
        most.map_or_else(Self::default, |(culprit, ms)| Self {
            kind: culprit.kind,
            name: culprit.name.clone(),
            share_percent: (ms * 100 / all_ms.max(1)) as u8,
        })
    }

    fn is_group(&self, names: &[&str]) -> bool {
        self.name.rsplit('/').next().is_some_and(|last| names.contains(&last))
    }

    /// True if it is one of these culprits of a play with this service.
    fn is(&self, expected: TrialCulprit, service: TrialService) -> bool {
        match expected {
            TrialCulprit::Groups(names) => self.is_group(names),
            TrialCulprit::Work if service == TrialService::Nginx => self.is_group(&["app"]),
            TrialCulprit::Work => self.is_group(&[service.name()]),
            TrialCulprit::Disk => self.kind == PartyKind::Device,
            TrialCulprit::Nobody => false,
        }
    }

    /// True if it has most of the stall to answer for.
    pub(super) fn is_likely(&self) -> bool {
        self.share_percent >= LIKELY_PERCENT
    }
}

impl NamedCause {
    /// Data that its confidence is calibrated from.
    pub(super) fn score(&self) -> u8 {
        self.score_percent.unwrap_or(self.confidence_percent)
    }
}

impl ExpectedCause {
    fn is(&self, said: &NamedCause) -> bool {
        self.0.contains(&said.rule.as_str())
    }
}

/// The incident of a play: the longest of the service's probe, or else the longest of all that fall into it. Of a
/// service that failed, its failure: it may be slow once more when it starts again, or have been slow before it failed.
pub(super) fn incident_of<'a>(
    play: &Play,
    times: &RunTimes,
    incidents: &'a [Incident],
) -> Option<(&'a Incident, bool)> {
    let (begin, end) = (times.begin_ms?, times.end_ms? + AFTER_MS);
    // One that is still open from an earlier play says nothing of this one.
    let began_in_it = |incident: &&Incident| {
        (first_ms(play, begin, incident)..end).contains(&(incident.started_unix_ms as f64))
    };
    let probe = probe_of(play);
    let own = |incident: &&Incident| is_of_probe(incident, &probe);
    let worst = |a: &&Incident, b: &&Incident| {
        let slower = a.trigger.worst_ms.total_cmp(&b.trigger.worst_ms);
        has_failed(play, a).cmp(&has_failed(play, b)).then(slower)
    };
    let inside = || incidents.iter().filter(began_in_it);
    let found = inside().filter(own).max_by(worst).map(|incident| (incident, true));
    // A service that is killed between two probes, and started again, is reported by the kill.
    let is_kill = |incident: &&Incident| {
        incident.trigger.kind == TriggerKind::OomKill && kills(incident, probe.as_str())
    };
    let found = found.or_else(|| inside().find(is_kill).map(|incident| (incident, true)));
    // A kill of another service's process is no stall.
    let stalls = inside().filter(|incident| incident.trigger.kind != TriggerKind::OomKill);
    found.or_else(|| Some((stalls.max_by_key(|incident| incident.duration_ms())?, false)))
}

/// True if the incident says of this probe that its service lost a process.
fn kills(incident: &Incident, probe: &str) -> bool {
    incident.oom.iter().flat_map(|oom| &oom.services).any(|fate| fate.probe == probe)
}

/// The probe whose incident is judged, as lab/trials/services names it.
fn probe_of(play: &Play) -> String {
    let name = play.service.name();
    let logs_in = play.conditions().any(|condition| condition.probe == TrialProbe::Login);
    if logs_in { format!("{name}-login") } else { name.to_owned() }
}

/// The slowest request before the recorder's start, and in the seconds from then on.
pub(super) fn start((samples, at_ms): &(Vec<ClientSample>, f64)) -> Option<(f64, f64)> {
    let is_after = |sample: &&ClientSample| sample.start_ms + sample.took_ms > *at_ms;
    let (after, before): (Vec<&ClientSample>, Vec<&ClientSample>) =
        samples.iter().partition(is_after);
    let slowest =
        |of: &[&ClientSample]| of.iter().map(|sample| sample.took_ms).max_by(f64::total_cmp);
    let soon: Vec<&ClientSample> =
        after.into_iter().filter(|sample| sample.start_ms < at_ms + START_MS).collect();
    Some((slowest(&before)?, slowest(&soon)?))
}

/// Judges a play.
pub(super) fn judge(play: &Play, times: &RunTimes, incidents: &[Incident]) -> PlayJudgement {
    let seen = incident_of(play, times, incidents)
        .map(|(incident, own)| RecordedDiagnosis::new(incident, own));
    let mut judged = judge_seen(play, times, seen);
    if was_open(play, times, incidents) {
        judged.make_void("an incident of an earlier stall was still open".to_owned());
    }
    judged
}

/// True if an incident of the service that began before those of the play lasted beyond half of it.
fn was_open(play: &Play, times: &RunTimes, incidents: &[Incident]) -> bool {
    let (Some(begin), Some(end)) = (times.begin_ms, times.end_ms) else { return false };
    let probe = probe_of(play);
    incidents.iter().filter(|incident| is_of_probe(incident, &probe)).any(|incident| {
        let is_earlier = (incident.started_unix_ms as f64) < first_ms(play, begin, incident);
        is_earlier && incident.ended_unix_ms as f64 > f64::midpoint(begin, end)
    })
}

/// From when on an incident is one of the play. A failure of a play that makes the service fail may begin while it is quiet.
fn first_ms(play: &Play, begin: f64, incident: &Incident) -> f64 {
    let quiet_ms = if has_failed(play, incident) { play.quiet_s as f64 * 1000.0 } else { 0.0 };
    begin - BEFORE_MS - quiet_ms
}

/// True if the play makes the service fail, and the incident tells that it did.
fn has_failed(play: &Play, incident: &Incident) -> bool {
    let fails = play.conditions().any(|condition| matches!(condition.truth, Truth::Failure(_)));
    fails && incident.trigger.failure_kind.is_some()
}

fn is_of_probe(incident: &Incident, probe: &str) -> bool {
    incident.trigger.kind == TriggerKind::Probe && incident.trigger.name == probe
}

fn judge_seen(play: &Play, times: &RunTimes, seen: Option<RecordedDiagnosis>) -> PlayJudgement {
    let (begin, end) = (times.begin_ms.unwrap_or(f64::MAX), times.end_ms.unwrap_or(f64::MIN));
    let is_inside =
        |sample: &&ClientSample| sample.start_ms + sample.took_ms > begin && sample.start_ms < end;
    let inside: Vec<&ClientSample> = times.samples.iter().filter(is_inside).collect();
    let longest = |samples: &mut dyn Iterator<Item = &ClientSample>| {
        samples.map(|sample| sample.took_ms).fold(0.0, f64::max)
    };
    let warm = times.samples.iter().skip(FIRST_SAMPLES);
    let calm: Vec<&ClientSample> =
        warm.filter(|sample| sample.start_ms + sample.took_ms <= begin).collect();
    let before = longest(&mut calm.iter().copied());
    // One that was slow already says nothing of what was injected.
    let before = inside.iter().map(|sample| begin - sample.start_ms).fold(before, f64::max);
    let stall_ms = longest(&mut inside.iter().copied());
    let failures = inside.iter().filter(|sample| sample.failure.is_some()).count();
    let void = if times.begin_ms.is_none() || times.end_ms.is_none() || inside.is_empty() {
        Some("it was not played to its end".to_owned())
    } else if before > LIMIT_MS
        || (failures == 0 && stall_ms >= LIMIT_MS && stall_ms < before * TIMES_CALM)
    {
        Some(format!("a request took {before:.0} ms before anything was injected"))
    } else if calm.last().is_some_and(|sample| sample.failure.is_some()) {
        Some("the service failed before anything was injected".to_owned())
    } else {
        None
    };
    let void =
        void.or_else(|| times.is_lost.then(|| "the service did not answer again".to_owned()));
    let judged = |verdict, why, seen| PlayJudgement { verdict, why, stall_ms, failures, seen };
    if let Some(why) = void {
        return judged(PlayVerdict::Void, Some(why), seen);
    }
    let stalled = stall_ms >= LIMIT_MS || failures > 0;
    let truths: Vec<Truth> = play.conditions().map(|condition| condition.truth).collect();
    let is_nothing = truths.iter().all(|truth| matches!(truth, Truth::Nothing));
    match (stalled, seen) {
        (false, None) if is_nothing => judged(PlayVerdict::Quiet, None, None),
        (false, Some(seen)) if seen.is_own => judged(PlayVerdict::Spurious, None, Some(seen)),
        (false, seen) => judged(PlayVerdict::Void, Some("nothing stalled".to_owned()), seen),
        (true, None) if failures > 0 || stall_ms >= SURE_TO_BE_SEEN_MS => {
            judged(PlayVerdict::Missed, None, None)
        }
        (true, None) => {
            judged(PlayVerdict::Void, Some("too short for a probe a second".to_owned()), None)
        }
        (true, Some(seen)) => judged(verdict(play, &seen), None, Some(seen)),
    }
}

impl PlayJudgement {
    pub(super) fn make_void(&mut self, why: String) {
        (self.verdict, self.why) = (PlayVerdict::Void, Some(why));
    }

    /// The verdict by what is held to be right today.
    pub(super) fn renew(&mut self, play: &Play) {
        use PlayVerdict::{Partly, Right, Unknown, Wrong};
        if let Some(seen) =
            self.seen.as_ref().filter(|_| matches!(self.verdict, Right | Partly | Unknown | Wrong))
        {
            self.verdict = verdict(play, seen);
        }
    }
}

/// Verdict on the culprit, where the play has one.
pub(super) fn culprit_verdict(play: &Play, judged: &PlayJudgement) -> Option<CulpritVerdict> {
    let said = judged.seen.as_ref()?.culprit.as_ref()?;
    let expected: Vec<TrialCulprit> =
        play.conditions().map(|condition| condition.culprit).collect();
    if expected.contains(&TrialCulprit::Nobody) {
        return None;
    }
    Some(match said.kind {
        PartyKind::Unknown => CulpritVerdict::Unnamed,
        _ if expected.iter().any(|one| said.is(*one, play.service)) => CulpritVerdict::Right,
        _ => CulpritVerdict::Bystander,
    })
}

/// The best by any of the conditions.
fn verdict(play: &Play, seen: &RecordedDiagnosis) -> PlayVerdict {
    let best = play.conditions().map(|c| verdict_by(&c.truth, seen)).min();
    // Its priority counts only within its own cgroup: it does take CPU time from the service.
    let has_hog = play.decoys.iter().any(|decoy| decoy.name == "nice-hog");
    let names_hog = has_hog && seen.causes.first().is_some_and(|said| CPUS.is(said));
    match best.unwrap_or(PlayVerdict::Wrong) {
        PlayVerdict::Wrong if names_hog => PlayVerdict::Partly,
        best => best,
    }
}

fn verdict_by(truth: &Truth, seen: &RecordedDiagnosis) -> PlayVerdict {
    let failed = seen.failure.is_some_and(|kind| kind != FailureKind::TimedOut);
    let first = seen.causes.first();
    let is_one_of =
        |answers: &[ExpectedCause]| first.is_some_and(|said| answers.iter().any(|a| a.is(said)));
    match truth {
        Truth::Cause(right, _) if is_one_of(right) => PlayVerdict::Right,
        Truth::Cause(_, partly) if is_one_of(partly) => PlayVerdict::Partly,
        Truth::Failure(kinds) if failed && (first.is_none() || is_one_of(&[FAILURE])) => {
            let is_right = seen.failure.is_some_and(|kind| kinds.contains(&kind));
            if is_right { PlayVerdict::Right } else { PlayVerdict::Partly }
        }
        _ if first.is_none() => PlayVerdict::Unknown,
        _ => PlayVerdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::play::Injection;

    fn play(condition: &str) -> Play {
        Play {
            seed: 1,
            index: 0,
            service: TrialService::App,
            quiet_s: 3,
            hold_s: 4,
            conditions: vec![Injection { name: condition.to_owned(), arguments: Vec::new() }],
            decoys: Vec::new(),
        }
    }

    fn sample(start_ms: f64, took_ms: f64) -> ClientSample {
        ClientSample { start_ms, took_ms, failure: None }
    }

    fn times(samples: &[ClientSample]) -> RunTimes {
        RunTimes {
            begin_ms: Some(10_000.0),
            end_ms: Some(16_000.0),
            is_lost: false,
            samples: samples.to_vec(),
        }
    }

    fn seen(rule: &str, subject: &str) -> RecordedDiagnosis {
        let (rule, subject) = (rule.to_owned(), subject.to_owned());
        let said = NamedCause { rule, subject, confidence_percent: 80, ..NamedCause::default() };
        RecordedDiagnosis {
            is_own: true,
            worst_ms: 2000.0,
            causes: vec![said],
            ..RecordedDiagnosis::default()
        }
    }

    fn check(
        condition: &str,
        samples: &[ClientSample],
        seen: Option<RecordedDiagnosis>,
        want: PlayVerdict,
    ) {
        let judged = judge_seen(&play(condition), &times(samples), seen);
        assert_eq!(judged.verdict, want, "{judged:?}");
    }

    const CALM: f64 = 9_000.0;
    const IN_PLAY: f64 = 11_000.0;

    #[test]
    fn the_first_cause_is_right_or_partly_or_wrong() {
        let stalled = [sample(CALM, 20.0), sample(IN_PLAY, 2000.0)];
        let of = |condition, rule, subject, want| {
            check(condition, &stalled, Some(seen(rule, subject)), want);
        };
        of("file-limit", "working-set-thrash", "cgroup /app", PlayVerdict::Right);
        of("file-limit", "swap-thrash", "swap", PlayVerdict::Partly);
        of("file-limit", "slow-disk", "disk", PlayVerdict::Wrong);
        of("cpu-hogs", "cpu-contention", "CPUs", PlayVerdict::Right);
        of("cpu-hogs", "slow-disk", "disk", PlayVerdict::Wrong);
        of("stop", "stopped-process", "stopped process", PlayVerdict::Right);
        of("none", "cpu-contention", "CPUs", PlayVerdict::Wrong);
        let mut beside_hog = play("file-limit");
        beside_hog.decoys = vec![Injection { name: "nice-hog".to_owned(), arguments: Vec::new() }];
        let said = |rule| verdict(&beside_hog, &seen(rule, ""));
        assert_eq!(
            (said("cpu-contention"), said("slow-disk")),
            (PlayVerdict::Partly, PlayVerdict::Wrong)
        );
    }

    #[test]
    fn the_culprit_is_who_was_blamed_for_most() {
        let share = |kind, name: &str, lost_ms| mw_model::BlameShare {
            culprit: mw_model::BlameParty::named(kind, name),
            lost_ms,
            ..Default::default()
        };
        let of = |condition: &str, blame: Vec<mw_model::BlameShare>| {
            let culprit = NamedCulprit::most_blamed(&Incident { blame, ..Incident::default() });
            let diagnosis =
                RecordedDiagnosis { culprit: Some(culprit), ..seen("cpu-contention", "CPUs") };
            let stalled = [sample(CALM, 20.0), sample(IN_PLAY, 2000.0)];
            let judged = judge_seen(&play(condition), &times(&stalled), Some(diagnosis));
            culprit_verdict(&play(condition), &judged)
        };
        let hogs = || share(PartyKind::Cgroup, "/services/hogs", 500);
        let redis = || share(PartyKind::Cgroup, "/services/redis", 400);
        let unknown = || share(PartyKind::Unknown, "", 900);
        assert_eq!(of("cpu-hogs", vec![unknown(), hogs(), redis()]), Some(CulpritVerdict::Right));
        assert_eq!(of("cpu-hogs", vec![redis(), redis(), hogs()]), Some(CulpritVerdict::Bystander));
        assert_eq!(of("cpu-hogs", vec![unknown()]), Some(CulpritVerdict::Unnamed));
        let itself = share(PartyKind::Cgroup, "/services/app", 400);
        assert_eq!(of("cpu-quota", vec![itself]), Some(CulpritVerdict::Right));
        let disk = || share(PartyKind::Device, "dm-0", 400);
        assert_eq!(of("slow-read", vec![disk()]), Some(CulpritVerdict::Right));
        assert_eq!(of("stop", vec![disk()]), None);
    }

    #[test]
    fn no_cause_is_unknown_but_right_for_a_failure() {
        let stalled = [sample(CALM, 20.0), sample(IN_PLAY, 2000.0)];
        check("file-limit", &stalled, Some(RecordedDiagnosis::default()), PlayVerdict::Unknown);
        let refused = ClientSample { failure: Some("refused".to_owned()), ..sample(IN_PLAY, 1.0) };
        let failed = RecordedDiagnosis {
            failure: Some(FailureKind::Refused),
            ..RecordedDiagnosis::default()
        };
        check("kill", std::slice::from_ref(&refused), Some(failed.clone()), PlayVerdict::Right);
        let itself =
            RecordedDiagnosis { causes: seen("service-failure", "service").causes, ..failed };
        check("kill", std::slice::from_ref(&refused), Some(itself), PlayVerdict::Right);
        check(
            "kill",
            std::slice::from_ref(&refused),
            Some(seen("cpu-contention", "CPUs")),
            PlayVerdict::Wrong,
        );
        check("kill", &[refused], None, PlayVerdict::Missed);
    }

    #[test]
    fn the_kind_of_failure_is_compared() {
        let failed = ClientSample { failure: Some("closed".to_owned()), ..sample(IN_PLAY, 1.0) };
        let of = |condition: &str, kind, want| {
            let seen =
                RecordedDiagnosis { failure: Some(kind), ..seen("service-failure", "service") };
            check(condition, std::slice::from_ref(&failed), Some(seen), want);
        };
        of("wrong-password", FailureKind::Authentication, PlayVerdict::Right);
        of("wrong-password", FailureKind::Refused, PlayVerdict::Partly);
        of("kill", FailureKind::Refused, PlayVerdict::Right);
        of("kill", FailureKind::Authentication, PlayVerdict::Partly);
        of("fail", FailureKind::HttpStatus, PlayVerdict::Right);
        of("fail", FailureKind::TimedOut, PlayVerdict::Wrong);
    }

    /// A service that the run before has killed does not answer in the next one either.
    #[test]
    fn a_service_that_failed_before_the_play_is_void() {
        let failed = |start_ms| ClientSample {
            failure: Some("refused".to_owned()),
            ..sample(start_ms, 1.0)
        };
        let mut samples = vec![sample(CALM - 500.0, 20.0); FIRST_SAMPLES];
        samples.extend([failed(CALM), failed(IN_PLAY)]);
        check("kill", &samples, None, PlayVerdict::Void);
    }

    #[test]
    fn a_condition_is_judged_by_the_probe_that_sees_it() {
        assert_eq!(probe_of(&play("wrong-password")), "app-login");
        assert_eq!(probe_of(&play("stop")), "app");
    }

    #[test]
    fn what_did_not_stall_is_void() {
        check("stop", &[sample(IN_PLAY, 100.0)], None, PlayVerdict::Void);
        check("none", &[sample(IN_PLAY, 100.0)], None, PlayVerdict::Quiet);
        check(
            "none",
            &[sample(IN_PLAY, 100.0)],
            Some(seen("cpu-contention", "CPUs")),
            PlayVerdict::Spurious,
        );
        check("stop", &[sample(IN_PLAY, 800.0)], None, PlayVerdict::Void);
        check("stop", &[sample(IN_PLAY, 2800.0)], None, PlayVerdict::Missed);
        check("stop", &[], None, PlayVerdict::Void);
        let slow_already = [sample(9000.0, 5000.0)];
        check("stop", &slow_already, Some(seen("slow-disk", "disk")), PlayVerdict::Void);
        let of = |before: f64, stall: f64, want| {
            let first = std::iter::repeat_n(sample(CALM - 1000.0, 900.0), FIRST_SAMPLES);
            let samples: Vec<ClientSample> =
                first.chain([sample(CALM, before), sample(IN_PLAY, stall)]).collect();
            check("stop", &samples, Some(seen("stopped-process", "stopped process")), want);
        };
        of(400.0, 900.0, PlayVerdict::Right);
        of(400.0, 700.0, PlayVerdict::Void);
        of(600.0, 2000.0, PlayVerdict::Void);
    }

    #[test]
    fn the_paths_sum_is_compared_with_the_request() {
        let of = |path_ms| {
            RecordedDiagnosis { worst_ms: 1000.0, path_ms, ..RecordedDiagnosis::default() }
                .adds_up()
        };
        assert_eq!(of(None), None);
        assert_eq!(
            (of(Some(960.0)), of(Some(940.0)), of(Some(1060.0))),
            (Some(true), Some(false), Some(false))
        );
    }

    #[test]
    fn an_incident_belongs_to_the_play_in_which_it_began() {
        let incident = |name: &str, from: u64, until: u64, worst_ms: f64| Incident {
            trigger: mw_model::Trigger { name: name.to_owned(), worst_ms, ..Default::default() },
            started_unix_ms: from,
            ended_unix_ms: until,
            ..Incident::default()
        };
        let (play, times) = (play("stop"), times(&[]));
        let of = |incidents: &[Incident]| {
            incident_of(&play, &times, incidents).map(|(found, own)| (found.started_unix_ms, own))
        };
        let all = [
            incident("app", 8_000, 11_000, 3000.0),
            incident("redis", 10_100, 15_000, 4000.0),
            incident("app", 11_000, 13_000, 900.0),
            incident("app", 13_000, 14_000, 1000.0),
            incident("app", 17_000, 18_000, 5000.0),
        ];
        assert_eq!(of(&all), Some((13_000, true)));
        assert_eq!(of(&all[..2]), Some((10_100, false)));
        assert_eq!(of(&all[4..]), None);
        let earlier = |until| was_open(&play, &times, &[incident("app", 8_000, until, 3000.0)]);
        assert_eq!((earlier(11_000), earlier(14_000)), (false, true));
        let own = incident("app", 9_900, 14_000, 3000.0);
        assert!(!was_open(&play, &times, std::slice::from_ref(&own)), "it is that of the play");
        assert_eq!(of(&[own]), Some((9_900, true)));
    }

    #[test]
    fn the_start_is_compared_with_the_time_before() {
        let samples =
            vec![sample(0.0, 10.0), sample(100.0, 30.0), sample(190.0, 50.0), sample(9000.0, 90.0)];
        assert_eq!(start(&(samples.clone(), 200.0)), Some((30.0, 50.0)));
        assert_eq!(start(&(samples, 0.0)), None);
    }

    #[test]
    fn samples_are_parsed() {
        assert_eq!(ClientSample::parse("12 3.5 ok"), Some(sample(12.0, 3.5)));
        let failed = ClientSample::parse("12 3.5 refused").unwrap();
        assert_eq!(failed.failure.as_deref(), Some("refused"));
        assert_eq!(ClientSample::parse("12 3.5 unanswered"), Some(sample(12.0, 3.5)));
        assert!(["", "x 1 ok", "1"].iter().all(|line| ClientSample::parse(line).is_none()));
    }
}
