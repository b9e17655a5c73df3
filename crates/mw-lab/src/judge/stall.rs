//! Holds the recorder's verdict on a case's stall against `[watch]` in `case.toml`, in pure functions.

use flate2::read::GzDecoder;
use mw_model::{IncidentRow, IncidentState, Shift};
use mw_rules::Rule;
use serde::Deserialize;
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

/// The part of an incident that is judged.
#[derive(Deserialize)]
struct IncidentExcerpt {
    difference: Vec<Shift>,
}

/// The outcome of a watched run, and its longest stall.
pub fn judge(
    watched: &WatchSpec,
    kind: CaseKind,
    run: &GuestRun,
) -> (Outcome, Option<IncidentRow>) {
    match run_outcome::run_outcome(run) {
        Outcome::Passed => {}
        other => return (other, None),
    }
    let stalls: Vec<IncidentRow> = match run.frames.text("incidents").map(|text| parse(&text)) {
        Some(Ok(stalls)) => stalls,
        Some(Err(why)) => return (Outcome::Failed(format!("incidents: {why}")), None),
        None => return (Outcome::Failed("the guest sent no incidents".to_owned()), None),
    };
    let longest = stalls.iter().max_by_key(|stall| stall.duration_ms());
    if watched.silent {
        let sent = run.frames.text("notifications");
        return (silent(&stalls, sent.as_deref()), longest.cloned());
    }
    let packed = longest.and_then(|_| run.frames.files.get("worst.json.gz"));
    let outcome = match packed.map(|packed| first_functions(packed)).transpose() {
        Ok(functions) => {
            verdict_of(watched, kind, &stalls, longest, &functions.unwrap_or_default())
        }
        Err(why) => Outcome::Failed(format!("the worst stall: {why}")),
    };
    (outcome, longest.cloned())
}

fn parse(text: &str) -> Result<Vec<IncidentRow>, String> {
    let stalls: Vec<IncidentRow> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if stalls.len() > MAX_STALLS { Err(format!("{} of them", stalls.len())) } else { Ok(stalls) }
}

fn first_functions(packed: &[u8]) -> Result<Vec<String>, String> {
    let text = GzDecoder::new(packed).take(MAX_EVIDENCE_BYTES);
    let incident: IncidentExcerpt =
        serde_json::from_reader(text).map_err(|error| error.to_string())?;
    let first = incident.difference.into_iter().take(FIRST_FUNCTIONS);
    Ok(first.map(|shift| shift.function).collect())
}

/// `functions` are those that grew most during the longest stall.
fn verdict_of(
    watched: &WatchSpec,
    kind: CaseKind,
    stalls: &[IncidentRow],
    longest: Option<&IncidentRow>,
    functions: &[String],
) -> Outcome {
    if watched.quiet {
        return quiet(stalls);
    }
    let Some(longest) = longest else {
        return Outcome::Failed("the recorder saw no stall".to_owned());
    };
    let expected = |stall: &&IncidentRow| {
        stall.cause.as_ref().is_some_and(|cause| watched.cause.contains(cause))
    };
    // The recorder ended before it knew.
    let is_open =
        |stall: &&IncidentRow| stall.state == IncidentState::Interrupted && stall.cause.is_none();
    // Where memory is not to blame, no stall may be laid to it.
    let judged: Vec<&IncidentRow> = match kind {
        CaseKind::Decoy => stalls.iter().filter(|stall| !is_open(stall)).collect(),
        _ => vec![longest],
    };
    if let Some(wrong) = judged.iter().find(|stall| !expected(stall)) {
        return Outcome::Failed(format!("the recorder's verdict was: {}", wrong.verdict));
    }
    let seen = |function: &String| functions.contains(function);
    if !watched.functions.is_empty() && !watched.functions.iter().any(seen) {
        let first = functions.join(", ");
        return Outcome::Failed(format!("the functions that grew most were: {first}"));
    }
    Outcome::Passed
}

/// Nothing stalled, or not because of memory.
fn quiet(stalls: &[IncidentRow]) -> Outcome {
    let is_of_memory = |cause: &String| mw_rules::find(cause).is_none_or(Rule::is_of_memory);
    let of_memory = |stall: &&IncidentRow| stall.cause.as_ref().is_some_and(is_of_memory);
    match stalls.iter().find(of_memory) {
        Some(wrong) => Outcome::Failed(format!("the recorder's verdict was: {}", wrong.verdict)),
        None => Outcome::Passed,
    }
}

/// The recorder records no incident, whatever its cause, and sends no notification; `sent` are those of the guest.
fn silent(stalls: &[IncidentRow], sent: Option<&str>) -> Outcome {
    match (stalls.first(), sent.map(str::trim)) {
        (Some(stall), _) => Outcome::Failed(format!(
            "the recorder recorded {} incidents, the first with the verdict: {}",
            stalls.len(),
            stall.verdict
        )),
        (None, None) => Outcome::Failed("the guest sent no list of notifications".to_owned()),
        (None, Some("")) => Outcome::Passed,
        (None, Some(sent)) => Outcome::Failed(format!("the recorder notified: {sent}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::GzEncoder;
    use mw_model::Incident;

    fn stall(seconds: u64, cause: Option<&str>) -> IncidentRow {
        IncidentRow {
            started_unix_ms: 1000,
            ended_unix_ms: 1000 + seconds * 1000,
            verdict: format!("it was {cause:?}"),
            cause: cause.map(str::to_owned),
            ..IncidentRow::default()
        }
    }

    fn watched(functions: &[&str]) -> WatchSpec {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WatchSpec {
            probes: vec![],
            limit: crate::case::watch::default_limit(),
            cause: owned(&["a"]),
            quiet: false,
            silent: false,
            functions: owned(functions),
        }
    }

    fn check(kind: CaseKind, stalls: &[IncidentRow], want: Outcome) {
        let watched = watched(&[]);
        let longest = stalls.iter().max_by_key(|stall| stall.duration_ms());
        assert_eq!(verdict_of(&watched, kind, stalls, longest, &[]), want);
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
        let open = |cause| IncidentRow { state: IncidentState::Interrupted, ..stall(1, cause) };
        check(CaseKind::Decoy, &[stall(9, Some("a")), open(None)], Outcome::Passed);
        let wrong = Outcome::Failed("the recorder's verdict was: it was Some(\"b\")".to_owned());
        check(CaseKind::Decoy, &[stall(9, Some("a")), open(Some("b"))], wrong);
    }

    #[test]
    fn a_quiet_twin_is_not_put_down_to_memory() {
        let quiet = WatchSpec { cause: Vec::new(), quiet: true, ..watched(&[]) };
        let of = |stalls: &[IncidentRow]| {
            verdict_of(&quiet, CaseKind::Rule, stalls, stalls.first(), &[])
        };
        assert_eq!(of(&[]), Outcome::Passed);
        assert_eq!(of(&[stall(2, None), stall(1, Some("slow-disk"))]), Outcome::Passed);
        assert_eq!(of(&[stall(2, Some("cpu-throttled"))]), Outcome::Passed);
        let wrong = Outcome::Failed("the recorder's verdict was: it was Some(\"a\")".to_owned());
        assert_eq!(of(&[stall(9, None), stall(1, Some("a"))]), wrong);
    }

    #[test]
    fn a_silent_recorder_has_no_incident_and_no_notification() {
        let failed = |why: &str| Outcome::Failed(why.to_owned());
        assert_eq!(silent(&[], Some("")), Outcome::Passed);
        assert_eq!(silent(&[], None), failed("the guest sent no list of notifications"));
        assert_eq!(silent(&[], Some("{}\n")), failed("the recorder notified: {}"));
        let stalls = [stall(2, Some("slow-disk")), stall(1, None)];
        let want = "the recorder recorded 2 incidents, the first with the verdict: \
                    it was Some(\"slow-disk\")";
        assert_eq!(silent(&stalls, Some("")), failed(want));
    }

    #[test]
    fn a_guilty_function_is_among_the_first_three() {
        let shift = |name: &str| Shift { function: name.to_owned(), ..Shift::default() };
        let difference = ["b", "g", "c", "d"].map(shift).to_vec();
        let json = serde_json::to_vec(&Incident { difference, ..Incident::default() }).unwrap();
        let mut packed = Vec::new();
        GzEncoder::new(json.as_slice(), Compression::fast()).read_to_end(&mut packed).unwrap();
        let functions = first_functions(&packed).unwrap();
        let stall = stall(1, Some("a"));
        let of = |names| {
            verdict_of(&watched(names), CaseKind::FieldReport, &[], Some(&stall), &functions)
        };
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
        assert!(watched.check().unwrap_err().contains("`quiet` has no `cause`"));
        let watched: WatchSpec = toml::from_str("cause = ['a']\nsilent = true").unwrap();
        assert!(watched.check().unwrap_err().contains("`silent` has no `cause`"));
        let watched: WatchSpec = toml::from_str("quiet = true\nsilent = true").unwrap();
        assert!(watched.check().unwrap_err().contains("not both"));
    }
}
