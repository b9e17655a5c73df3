//! Holds the recorder's verdict on a case's stall against `[watch]` in `case.toml`, in pure functions.

use flate2::read::GzDecoder;
use mw_model::IncidentState;
use serde::{Deserialize, Serialize};
use std::io::Read;

use crate::Outcome;
use crate::case::CaseKind;
use crate::case::watch::WatchSpec;
use crate::judge::run_outcome;
use crate::vm::qemu::GuestRun;

/// The limit of stalls in one run.
const MAX_STALLS: usize = 1000;

/// The limit of one stall with its evidence.
const MAX_EVIDENCE_BYTES: u64 = 64 << 20;

/// The functions that are compared with `functions` of `[watch]`.
const FIRST_FUNCTIONS: usize = 3;

/// A stall that the recorder saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    #[serde(default)]
    pub state: IncidentState,
    pub started_unix_ms: u64,
    pub ended_unix_ms: u64,
    /// The probe, canary or pressure threshold that started it.
    pub trigger_name: String,
    pub verdict: String,
    /// The rule that is the first cause.
    pub cause: Option<String>,
    pub confidence_percent: Option<u8>,
    /// Of the longest stall: the three kernel functions that grew most.
    #[serde(default)]
    pub functions: Vec<String>,
}

/// The part of a stall's evidence that is judged.
#[derive(Deserialize)]
struct Evidence {
    difference: Vec<Grown>,
}

#[derive(Deserialize)]
struct Grown {
    function: String,
}

impl Stall {
    pub fn duration_ms(&self) -> u64 {
        self.ended_unix_ms.saturating_sub(self.started_unix_ms)
    }
}

/// The outcome of a watched run, and its longest stall.
pub fn judge(watched: &WatchSpec, kind: CaseKind, run: &GuestRun) -> (Outcome, Option<Stall>) {
    match run_outcome::run_outcome(run) {
        Outcome::Passed => {}
        other => return (other, None),
    }
    let stalls: Vec<Stall> = match run.frames.text("incidents").map(|text| parse(&text)) {
        Some(Ok(stalls)) => stalls,
        Some(Err(why)) => return (Outcome::Failed(format!("incidents: {why}")), None),
        None => return (Outcome::Failed("the guest sent no incidents".to_owned()), None),
    };
    let mut longest = stalls.iter().max_by_key(|stall| stall.duration_ms()).cloned();
    if let (Some(stall), Some(packed)) = (&mut longest, run.frames.files.get("worst.json.gz")) {
        match first_functions(packed) {
            Ok(functions) => stall.functions = functions,
            Err(why) => return (Outcome::Failed(format!("the worst stall: {why}")), longest),
        }
    }
    (verdict_of(watched, kind, &stalls, longest.as_ref()), longest)
}

fn parse(text: &str) -> Result<Vec<Stall>, String> {
    let stalls: Vec<Stall> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if stalls.len() > MAX_STALLS { Err(format!("{} of them", stalls.len())) } else { Ok(stalls) }
}

fn first_functions(packed: &[u8]) -> Result<Vec<String>, String> {
    let text = GzDecoder::new(packed).take(MAX_EVIDENCE_BYTES);
    let evidence: Evidence = serde_json::from_reader(text).map_err(|error| error.to_string())?;
    let first = evidence.difference.into_iter().take(FIRST_FUNCTIONS);
    Ok(first.map(|grown| grown.function).collect())
}

fn verdict_of(
    watched: &WatchSpec,
    kind: CaseKind,
    stalls: &[Stall],
    longest: Option<&Stall>,
) -> Outcome {
    if watched.quiet {
        return quiet(stalls);
    }
    let Some(longest) = longest else {
        return Outcome::Failed("the recorder saw no stall".to_owned());
    };
    let expected =
        |stall: &&Stall| stall.cause.as_ref().is_some_and(|cause| watched.cause.contains(cause));
    // The recorder ended before it knew.
    let is_open =
        |stall: &&Stall| stall.state == IncidentState::Interrupted && stall.cause.is_none();
    // Where memory is not to blame, no stall may be laid to it.
    let judged: Vec<&Stall> = match kind {
        CaseKind::Decoy => stalls.iter().filter(|stall| !is_open(stall)).collect(),
        _ => vec![longest],
    };
    if let Some(wrong) = judged.iter().find(|stall| !expected(stall)) {
        return Outcome::Failed(format!("the recorder's verdict was: {}", wrong.verdict));
    }
    let seen = |function: &String| longest.functions.contains(function);
    if !watched.functions.is_empty() && !watched.functions.iter().any(seen) {
        let first = longest.functions.join(", ");
        return Outcome::Failed(format!("the functions that grew most were: {first}"));
    }
    Outcome::Passed
}

/// Nothing stalled, or not because of memory.
fn quiet(stalls: &[Stall]) -> Outcome {
    const NOT_MEMORY: &str = "not-memory";
    let of_memory = |stall: &&Stall| stall.cause.as_ref().is_some_and(|cause| cause != NOT_MEMORY);
    match stalls.iter().find(of_memory) {
        Some(wrong) => Outcome::Failed(format!("the recorder's verdict was: {}", wrong.verdict)),
        None => Outcome::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::GzEncoder;

    fn stall(seconds: u64, cause: Option<&str>) -> Stall {
        Stall {
            state: IncidentState::Closed,
            started_unix_ms: 1000,
            ended_unix_ms: 1000 + seconds * 1000,
            trigger_name: "db".to_owned(),
            verdict: format!("it was {cause:?}"),
            cause: cause.map(str::to_owned),
            confidence_percent: Some(80),
            functions: Vec::new(),
        }
    }

    fn watched(functions: &[&str]) -> WatchSpec {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WatchSpec {
            probes: vec![],
            limit: crate::case::watch::default_limit(),
            cause: owned(&["a"]),
            quiet: false,
            functions: owned(functions),
        }
    }

    fn check(kind: CaseKind, stalls: &[Stall], want: Outcome) {
        let watched = watched(&[]);
        let longest = stalls.iter().max_by_key(|stall| stall.duration_ms());
        assert_eq!(verdict_of(&watched, kind, stalls, longest), want);
    }

    #[test]
    fn the_longest_stall_has_the_cause() {
        check(CaseKind::FieldReport, &[stall(9, Some("a")), stall(1, Some("b"))], Outcome::Passed);
        let wrong = Outcome::Failed("the recorder's verdict was: it was Some(\"b\")".to_owned());
        check(CaseKind::FieldReport, &[stall(1, Some("a")), stall(9, Some("b"))], wrong.clone());
        check(CaseKind::Decoy, &[stall(9, Some("a")), stall(1, Some("b"))], wrong);
        let none = Outcome::Failed("the recorder's verdict was: it was None".to_owned());
        check(CaseKind::FieldReport, &[stall(9, None)], none);
        check(CaseKind::FieldReport, &[], Outcome::Failed("the recorder saw no stall".to_owned()));
    }

    #[test]
    fn a_stall_that_the_recorders_end_cut_off_needs_no_cause() {
        let open = |cause| Stall { state: IncidentState::Interrupted, ..stall(1, cause) };
        check(CaseKind::Decoy, &[stall(9, Some("a")), open(None)], Outcome::Passed);
        let wrong = Outcome::Failed("the recorder's verdict was: it was Some(\"b\")".to_owned());
        check(CaseKind::Decoy, &[stall(9, Some("a")), open(Some("b"))], wrong);
    }

    #[test]
    fn a_quiet_twin_is_not_put_down_to_memory() {
        let quiet = WatchSpec { cause: Vec::new(), quiet: true, ..watched(&[]) };
        let of = |stalls: &[Stall]| verdict_of(&quiet, CaseKind::Rule, stalls, stalls.first());
        assert_eq!(of(&[]), Outcome::Passed);
        assert_eq!(of(&[stall(2, None), stall(1, Some("not-memory"))]), Outcome::Passed);
        let wrong = Outcome::Failed("the recorder's verdict was: it was Some(\"a\")".to_owned());
        assert_eq!(of(&[stall(9, None), stall(1, Some("a"))]), wrong);
    }

    #[test]
    fn a_guilty_function_is_among_the_first_three() {
        let json = r#"{"difference": [{"function": "b"}, {"function": "g"}, {"function": "c"},
            {"function": "d"}]}"#;
        let mut packed = Vec::new();
        GzEncoder::new(json.as_bytes(), Compression::fast()).read_to_end(&mut packed).unwrap();
        let functions = first_functions(&packed).unwrap();
        let stall = Stall { functions, ..stall(1, Some("a")) };
        let of = |names| verdict_of(&watched(names), CaseKind::FieldReport, &[], Some(&stall));
        assert_eq!(of(&["g", "x"]), Outcome::Passed);
        let want = Outcome::Failed("the functions that grew most were: b, g, c".to_owned());
        assert_eq!(of(&["d"]), want);
        assert!(first_functions(&packed[..packed.len() / 2]).is_err());
    }

    #[test]
    fn what_would_break_the_guests_shell_is_refused() {
        let watched: WatchSpec =
            toml::from_str("probes = [\"exec:echo 'x'\"]\ncause = ['a']").unwrap();
        assert!(watched.check().unwrap_err().contains("quote or line end"));
        let watched: WatchSpec = toml::from_str("cause = []").unwrap();
        assert!(watched.check().unwrap_err().contains("`cause` is empty"));
        let watched: WatchSpec = toml::from_str("cause = ['a']\nquiet = true").unwrap();
        assert!(watched.check().unwrap_err().contains("has no `cause`"));
    }
}
