//! One request: what was asked, what the answer was, and what happened.

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The shell's exit code of a process that was killed by SIGKILL.
const KILLED: i32 = 128 + 9;
/// The same for SIGBUS: a huge page that was promised is not there.
const BUS_ERROR: i32 = 128 + 7;
/// The same for SIGALRM: the patience of lab/preflight/take.c is at its end.
const ENDLESS: i32 = 128 + 14;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RequestRecord {
    pub(super) condition: String,
    /// The kernel, as in `uname -r`.
    pub(super) release: String,
    pub(super) seed: u32,
    /// As in `check --for`.
    pub(super) request: String,
    /// Choice of its size.
    pub(super) place: String,
    /// yes, slowly, no or unknown.
    pub(super) answer: Option<String>,
    /// The answer in one line; what was said instead where there is none.
    pub(super) said: String,
    /// Milliseconds, from and to.
    pub(super) range_ms: Option<(f64, f64)>,
    pub(super) taken: AllocationOutcome,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AllocationOutcome {
    AfterMs(f64),
    /// The step and what the kernel said.
    Refused(String),
    Killed,
    /// Neither taken nor refused while one waited.
    Endless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AnswerVerdict {
    Right,
    WrongYes,
    WrongSlowly,
    WrongNo,
    Unknown,
    /// It was neither taken nor refused, or could not be asked for.
    Void,
}

impl RequestRecord {
    pub(super) fn verdict(&self) -> AnswerVerdict {
        let is_taken = match &self.taken {
            AllocationOutcome::AfterMs(_) => true,
            AllocationOutcome::Refused(_) | AllocationOutcome::Killed => false,
            AllocationOutcome::Endless => return AnswerVerdict::Void,
        };
        match (self.answer.as_deref(), is_taken) {
            (Some("yes" | "slowly"), true) | (Some("no"), false) => AnswerVerdict::Right,
            (Some("yes"), false) => AnswerVerdict::WrongYes,
            (Some("slowly"), false) => AnswerVerdict::WrongSlowly,
            (Some("no"), true) => AnswerVerdict::WrongNo,
            (Some("unknown"), _) => AnswerVerdict::Unknown,
            _ => AnswerVerdict::Void,
        }
    }

    /// True if the time was inside the range that was stated; absent where there is no range or no time.
    pub(super) fn is_in_range(&self) -> Option<bool> {
        let ((low, high), AllocationOutcome::AfterMs(ms)) = (self.range_ms?, &self.taken) else {
            return None;
        };
        Some((low..=high).contains(ms))
    }

    pub(super) fn line(&self) -> String {
        let range = self.range_ms.map(|(low, high)| format!(" ({low:.0} to {high:.0} ms)"));
        let inside = if self.is_in_range() == Some(false) { " OUTSIDE" } else { "" };
        format!(
            "{:?}{inside}: {} {} {} {}: {}{}: {:?}",
            self.verdict(),
            self.condition,
            self.release,
            self.place,
            self.request,
            self.said,
            range.unwrap_or_default(),
            self.taken
        )
    }
}

/// The guest in which requests were made.
pub(super) struct GuestBoot<'a> {
    pub(super) condition: &'a str,
    pub(super) release: &'a str,
    pub(super) seed: u32,
}

#[derive(Deserialize)]
struct PreflightReport {
    preflight: PreflightOutput,
}

#[derive(Deserialize)]
struct PreflightOutput {
    answer: String,
    summary: String,
    time: Option<EstimateRange>,
}

#[derive(Deserialize)]
struct EstimateRange {
    low_ms: f64,
    high_ms: f64,
}

/// Reads a frame of lab/preflight/make.sh.
pub(super) fn read(text: &str, of: &GuestBoot<'_>) -> anyhow::Result<RequestRecord> {
    let (head, answer) = text.split_once("\nanswer\n").context("no answer in a frame")?;
    let field = |name: &str| {
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned)
    };
    let asked = field("request").context("no request in a frame")?;
    let (request, place) = asked.split_once(' ').context("no place of a request")?;
    let codes = field("exit").context("no exit codes in a frame")?;
    let taken_code: i32 = codes.rsplit(' ').next().unwrap_or_default().parse()?;
    let taken = match (field("taken"), field("refused"), taken_code) {
        (Some(ns), _, _) => AllocationOutcome::AfterMs(ns.parse::<f64>()? / 1e6),
        (None, Some(step), _) => AllocationOutcome::Refused(step),
        (None, None, KILLED | BUS_ERROR) => AllocationOutcome::Killed,
        (None, None, ENDLESS) => AllocationOutcome::Endless,
        (None, None, code) => anyhow::bail!("take {request} exited with {code}: {head}"),
    };
    let report: Option<PreflightReport> = serde_json::from_str(&format!("{{{answer}")).ok();
    let preflight = report.map(|report| report.preflight);
    let said = field("said").unwrap_or_default();
    Ok(RequestRecord {
        condition: of.condition.to_owned(),
        release: of.release.to_owned(),
        seed: of.seed,
        request: request.to_owned(),
        place: place.to_owned(),
        answer: preflight.as_ref().map(|preflight| preflight.answer.clone()),
        said: preflight.as_ref().map_or(said, |preflight| preflight.summary.clone()),
        range_ms: preflight
            .and_then(|preflight| Some((preflight.time.as_ref()?.low_ms, preflight.time?.high_ms))),
        taken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: GuestBoot<'static> = GuestBoot { condition: "pipes", release: "6.12", seed: 1 };

    fn record(answer: &str, taken: &str, code: i32) -> RequestRecord {
        let text = format!(
            "request 1048576,lock below-yes\nexit 0 {code}\n{taken}\nanswer\n  \"preflight\": {{ \"answer\": \
             \"{answer}\", \"summary\": \"so\", \"time\": {{ \"low_ms\": 1.0, \"high_ms\": 3.0 }} }}\n}}\n"
        );
        read(&text, &OF).unwrap()
    }

    #[test]
    fn an_answer_is_held_against_what_happened() {
        for (answer, taken, code, want) in [
            ("yes", "taken 2000000", 0, AnswerVerdict::Right),
            ("slowly", "taken 2000000", 0, AnswerVerdict::Right),
            ("no", "taken 2000000", 0, AnswerVerdict::WrongNo),
            ("no", "refused populate 12", 0, AnswerVerdict::Right),
            ("yes", "refused mmap 12", 0, AnswerVerdict::WrongYes),
            ("yes", "", KILLED, AnswerVerdict::WrongYes),
            ("slowly", "", KILLED, AnswerVerdict::WrongSlowly),
            ("slowly", "", ENDLESS, AnswerVerdict::Void),
            ("unknown", "", KILLED, AnswerVerdict::Unknown),
        ] {
            assert_eq!(record(answer, taken, code).verdict(), want, "{answer} {taken} {code}");
        }
    }

    #[test]
    fn a_time_is_inside_the_range_or_not() {
        assert_eq!(record("yes", "taken 2000000", 0).is_in_range(), Some(true));
        assert_eq!(record("yes", "taken 4000000", 0).is_in_range(), Some(false));
        assert_eq!(record("no", "refused mmap 12", 0).is_in_range(), None);
    }

    #[test]
    fn a_request_without_an_answer_is_void() {
        let text = "request 4096 below-yes\nexit 2 0\ntaken 1\nsaid memwright: no room\nanswer\n";
        let record = read(text, &OF).unwrap();
        assert_eq!(
            (record.verdict(), record.said.as_str()),
            (AnswerVerdict::Void, "memwright: no room")
        );
    }
}
