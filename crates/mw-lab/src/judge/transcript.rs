//! The transcript of a run, read from its frames. A guest is not trusted: a malformed frame is an error
//! message, and nothing more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::vm::frames::GuestFrames;

/// The phases of a run, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunPhase {
    /// Without the condition.
    Before,
    /// The condition is in force.
    During,
    /// After `memwright fix`.
    Fixed,
    /// After `memwright undo`.
    Reverted,
}

impl RunPhase {
    pub const ALL: [RunPhase; 4] =
        [RunPhase::Before, RunPhase::During, RunPhase::Fixed, RunPhase::Reverted];

    /// As in frames and case files.
    pub fn name(self) -> &'static str {
        match self {
            RunPhase::Before => "before",
            RunPhase::During => "during",
            RunPhase::Fixed => "fixed",
            RunPhase::Reverted => "reverted",
        }
    }
}

/// One line of a case's `measure.sh`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CheckReport {
    pub findings: Vec<ReportedFinding>,
    pub skipped: Vec<TranscriptSkip>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedFinding {
    pub rule: String,
    pub severity: String,
    pub subject: String,
    pub headline: String,
}

/// A rule that could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptSkip {
    pub rule: String,
}

/// A change by `memwright fix`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TranscriptChange {
    pub path: String,
    /// `None` for an action.
    pub before: Option<String>,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    pub measured: BTreeMap<RunPhase, Vec<Measurement>>,
    pub checks: BTreeMap<RunPhase, CheckReport>,
    pub changes: Vec<TranscriptChange>,
    /// The contents of the changed files after `undo`.
    pub settings: BTreeMap<String, String>,
}

/// Exit codes of memwright without an error.
const CHECKED: &[&str] = &["0", "1"];
const FINE: &[&str] = &["0"];
const MAX_MEASUREMENTS: usize = 100;
const MAX_WORD_BYTES: usize = 40;
/// Length of malformed text that an error shows.
const SHOWN_CHARS: usize = 200;

impl Transcript {
    /// Steps that did not run have no frames.
    pub fn read(frames: &GuestFrames) -> Result<Transcript, String> {
        let mut transcript = Transcript::default();
        for phase in RunPhase::ALL {
            let measure = format!("{}/measure", phase.name());
            if let Some(text) = ended(frames, &measure, FINE)? {
                let measured = measurements(&text).map_err(|why| format!("{measure}: {why}"))?;
                transcript.measured.insert(phase, measured);
            }
            let check = format!("{}/check", phase.name());
            if let Some(text) = ended(frames, &check, CHECKED)? {
                transcript.checks.insert(phase, json(&check, &text)?);
            }
        }
        if let Some(text) = ended(frames, "fix", CHECKED)? {
            transcript.changes = json::<FixOutput>("fix", &text)?.applied.changes;
        }
        ended(frames, "undo", FINE)?;
        if let Some(text) = ended(frames, "reverted/settings", FINE)? {
            let pairs = text.lines().filter_map(|line| line.split_once(' '));
            transcript.settings = pairs.map(|(p, v)| (p.to_owned(), v.to_owned())).collect();
        }
        Ok(transcript)
    }
}

#[derive(Deserialize)]
struct FixOutput {
    applied: FixChanges,
}

#[derive(Deserialize)]
struct FixChanges {
    changes: Vec<TranscriptChange>,
}

/// The output of the step `name`, if it ran and exited with one of `codes`.
fn ended(frames: &GuestFrames, name: &str, codes: &[&str]) -> Result<Option<String>, String> {
    let Some(text) = frames.text(name) else { return Ok(None) };
    let code = frames.text(&format!("{name}.exit")).unwrap_or_default();
    if codes.contains(&code.as_str()) {
        return Ok(Some(text));
    }
    Err(format!("{name} exited with {code}: {}", shown(&text)))
}

fn json<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{name}: {error}: {}", shown(text)))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

fn measurements(text: &str) -> Result<Vec<Measurement>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let all: Vec<Measurement> =
        lines.take(MAX_MEASUREMENTS + 1).map(measurement).collect::<Result<_, _>>()?;
    if all.len() > MAX_MEASUREMENTS {
        return Err(format!("more than {MAX_MEASUREMENTS} measurements"));
    }
    Ok(all)
}

fn measurement(line: &str) -> Result<Measurement, String> {
    let bad = || format!("{:?} is not a measurement (print NAME VALUE UNIT)", shown(line));
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[name, value, unit] = words.as_slice() else { return Err(bad()) };
    let value = value.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(bad)?;
    if name.len() > MAX_WORD_BYTES || unit.len() > MAX_WORD_BYTES {
        return Err(bad());
    }
    Ok(Measurement { name: name.to_owned(), value, unit: unit.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(files: &[(&str, &str)]) -> GuestFrames {
        let mut frames = GuestFrames::default();
        for (name, text) in files {
            frames.files.insert((*name).to_owned(), text.as_bytes().to_vec());
        }
        frames
    }

    #[test]
    fn a_transcript_is_read() {
        let check = r#"{"schema":1,"findings":[{"rule":"a","severity":"note","subject":"s",
            "headline":"h","evidence":[]}],"skipped":[{"rule":"b","missing":{}}]}"#;
        let fix = r#"{"applied":{"changes":[{"id":1,"path":"/p","before":"7","value":"0"}]}}"#;
        let got = Transcript::read(&frames(&[
            ("before/measure", "create 2.5 s\n\nfree 3 MiB\n"),
            ("before/measure.exit", "0\n"),
            ("during/check", check),
            ("during/check.exit", "1\n"),
            ("fix", fix),
            ("fix.exit", "0"),
            ("reverted/settings", "/p 7\n"),
            ("reverted/settings.exit", "0"),
        ]))
        .unwrap();
        assert_eq!(got.measured[&RunPhase::Before][1].value, 3.0);
        assert_eq!(got.checks[&RunPhase::During].findings[0].rule, "a");
        assert_eq!(got.checks[&RunPhase::During].skipped[0].rule, "b");
        assert_eq!(got.changes[0].before.as_deref(), Some("7"));
        assert_eq!(got.settings["/p"], "7");
    }

    fn check_error(files: &[(&str, &str)], want: &str) {
        let error = Transcript::read(&frames(files)).unwrap_err();
        assert!(error.starts_with(want), "{error}");
    }

    #[test]
    fn malformed_frames_are_errors() {
        check_error(
            &[("during/check", "x"), ("during/check.exit", "3")],
            "during/check exited with 3: x",
        );
        check_error(&[("during/check", "x")], "during/check exited with : x");
        check_error(
            &[("during/check", "x"), ("during/check.exit", "0")],
            "during/check: expected value",
        );
        check_error(&[("undo", ""), ("undo.exit", "5")], "undo exited with 5");
        for line in ["create", "create x s", "create inf s", "create 1 s more", "create NaN s"] {
            let files = [("before/measure", line), ("before/measure.exit", "0")];
            check_error(&files, "before/measure: \"create");
        }
        let many = "a 1 s\n".repeat(MAX_MEASUREMENTS + 1);
        let files = [("before/measure", many.as_str()), ("before/measure.exit", "0")];
        check_error(&files, "before/measure: more than 100");
        let deep = r#"{"findings":[],"skipped":[],"x":"#.to_owned() + &"[".repeat(10_000);
        let files = [("during/check", deep.as_str()), ("during/check.exit", "0")];
        check_error(&files, "during/check: EOF while parsing");
    }
}
