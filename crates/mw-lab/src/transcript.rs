//! What a guest that plays a case sent, read from its frames. A guest is not trusted: a frame that is
//! not what it should be is an error in words, and nothing more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::serial::Frames;

/// The parts of a play, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The condition was not made yet.
    Before,
    /// The condition is in force.
    During,
    /// `memwright fix` has mended it.
    Fixed,
    /// `memwright undo` has taken that back.
    Undone,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 4] = [Phase::Before, Phase::During, Phase::Fixed, Phase::Undone];

    /// As frames and case files call it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Before => "before",
            Phase::During => "during",
            Phase::Fixed => "fixed",
            Phase::Undone => "undone",
        }
    }
}

/// One line of a case's `measure.sh`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// How much it was.
    pub value: f64,
    /// In which unit.
    pub unit: String,
}

/// What `memwright check` said.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Check {
    /// What it found.
    pub findings: Vec<Found>,
    /// Rules that could not look.
    pub skipped: Vec<Skipped>,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The rule's id.
    pub rule: String,
    /// How bad it is.
    pub severity: String,
    /// What it concerns.
    pub subject: String,
    /// With the numbers that matter.
    pub headline: String,
}

/// A rule that could not look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The rule's id.
    pub rule: String,
}

/// A change that `memwright fix` has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The kernel's file.
    pub path: String,
    /// The former value; none for an action.
    pub before: Option<String>,
    /// What was written.
    pub value: String,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// What was measured.
    pub measured: BTreeMap<Phase, Vec<Measurement>>,
    /// What was found.
    pub checks: BTreeMap<Phase, Check>,
    /// What `fix` has changed.
    pub changes: Vec<Change>,
    /// What the changed files held after `undo`.
    pub settings: BTreeMap<String, String>,
}

/// Exit codes of memwright that say that it did its work, whatever came of it.
const HAS_LOOKED: &[&str] = &["0", "1"];
const FINE: &[&str] = &["0"];
/// More measurements than this are an error of the case.
const MAX_MEASUREMENTS: usize = 100;
const MAX_WORD_BYTES: usize = 40;
/// How much of something unreadable is shown.
const SHOWN_CHARS: usize = 200;

impl Transcript {
    /// Reads what the frames hold; what is not there was not played.
    pub fn read(frames: &Frames) -> Result<Transcript, String> {
        let mut transcript = Transcript::default();
        for phase in Phase::ALL {
            let measure = format!("{}/measure", phase.name());
            if let Some(text) = ended(frames, &measure, FINE)? {
                let measured = measurements(&text).map_err(|why| format!("{measure}: {why}"))?;
                transcript.measured.insert(phase, measured);
            }
            let check = format!("{}/check", phase.name());
            if let Some(text) = ended(frames, &check, HAS_LOOKED)? {
                transcript.checks.insert(phase, json(&check, &text)?);
            }
        }
        if let Some(text) = ended(frames, "fix", HAS_LOOKED)? {
            transcript.changes = json::<Fix>("fix", &text)?.applied.changes;
        }
        ended(frames, "undo", FINE)?;
        if let Some(text) = ended(frames, "undone/settings", FINE)? {
            let pairs = text.lines().filter_map(|line| line.split_once(' '));
            transcript.settings = pairs.map(|(p, v)| (p.to_owned(), v.to_owned())).collect();
        }
        Ok(transcript)
    }
}

#[derive(Deserialize)]
struct Fix {
    applied: Applied,
}

#[derive(Deserialize)]
struct Applied {
    changes: Vec<Change>,
}

/// What the step `name` printed, if it was taken and ended with one of `codes`.
fn ended(frames: &Frames, name: &str, codes: &[&str]) -> Result<Option<String>, String> {
    let Some(text) = frames.text(name) else { return Ok(None) };
    let code = frames.text(&format!("{name}.exit")).unwrap_or_default();
    if codes.contains(&code.as_str()) {
        return Ok(Some(text));
    }
    Err(format!("{name} ended with {code}: {}", shown(&text)))
}

fn json<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{name}: {error}: {}", shown(text)))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// Lines `NAME VALUE UNIT`.
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
    let bad = || format!("{:?} is no measurement: print NAME VALUE UNIT", shown(line));
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

    fn frames(files: &[(&str, &str)]) -> Frames {
        let mut frames = Frames::default();
        for (name, text) in files {
            frames.files.insert((*name).to_owned(), text.as_bytes().to_vec());
        }
        frames
    }

    #[test]
    fn a_play_is_read() {
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
            ("undone/settings", "/p 7\n"),
            ("undone/settings.exit", "0"),
        ]))
        .unwrap();
        assert_eq!(got.measured[&Phase::Before][1].value, 3.0);
        assert_eq!(got.checks[&Phase::During].findings[0].rule, "a");
        assert_eq!(got.checks[&Phase::During].skipped[0].rule, "b");
        assert_eq!(got.changes[0].before.as_deref(), Some("7"));
        assert_eq!(got.settings["/p"], "7");
    }

    fn check_error(files: &[(&str, &str)], want: &str) {
        let error = Transcript::read(&frames(files)).unwrap_err();
        assert!(error.starts_with(want), "{error}");
    }

    #[test]
    fn what_is_not_as_it_should_be_is_said() {
        check_error(
            &[("during/check", "x"), ("during/check.exit", "3")],
            "during/check ended with 3: x",
        );
        check_error(&[("during/check", "x")], "during/check ended with : x");
        check_error(
            &[("during/check", "x"), ("during/check.exit", "0")],
            "during/check: expected value",
        );
        check_error(&[("undo", ""), ("undo.exit", "5")], "undo ended with 5");
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
