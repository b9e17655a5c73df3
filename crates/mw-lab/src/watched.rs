//! What the recorder must say of a case's stall, `[watch]` in `case.toml`, and whether it did. Pure.

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use std::io::Read;

use crate::Outcome;
use crate::case::Kind;
use crate::qemu::Run;
use crate::verdict;

/// The most stalls of one play.
const MAX_STALLS: usize = 1000;

/// The most that one stall with its evidence may take.
const MAX_EVIDENCE_BYTES: u64 = 64 << 20;

/// The functions that somebody who looks at a stall sees at once.
const FIRST_FUNCTIONS: usize = 3;

/// How a case is watched, and what explains its stall.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// Probes as `memwright watch --probe` takes them; without any, canary and pressure tell.
    #[serde(default)]
    pub probes: Vec<String>,
    /// The limit of the probes.
    #[serde(default = "usual_limit")]
    pub limit: String,
    /// The rules of which one must be the first cause of the longest stall.
    pub cause: Vec<String>,
    /// Kernel functions of which one must be among the first three that grew during that stall.
    #[serde(default)]
    pub functions: Vec<String>,
}

fn usual_limit() -> String {
    "500ms".to_owned()
}

/// A stall that the recorder saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When it was over.
    pub ended_unix_ms: u64,
    /// The look that showed it.
    pub trigger_name: String,
    /// The answer in one line.
    pub verdict: String,
    /// The rule of the first cause.
    pub cause: Option<String>,
    /// How sure that cause is, 0 to 100.
    pub confidence_percent: Option<u8>,
    /// Of the longest stall: the kernel functions that grew the most, the first three.
    #[serde(default)]
    pub functions: Vec<String>,
}

/// What is looked at of a stall's evidence.
#[derive(Deserialize)]
struct Evidence {
    difference: Vec<Grown>,
}

#[derive(Deserialize)]
struct Grown {
    function: String,
}

impl Stall {
    /// How long it lasted, in milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.ended_unix_ms.saturating_sub(self.started_unix_ms)
    }
}

impl Watched {
    /// What is wrong with the description.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.cause.is_empty() {
            return Err("[watch] names no `cause`".to_owned());
        }
        let words = self.probes.iter().chain([&self.limit]);
        match words.into_iter().find(|word| word.contains(['\'', '\n'])) {
            Some(word) => Err(format!("[watch]: no quotes and no line ends in {word:?}")),
            None => Ok(()),
        }
    }
}

/// The outcome of a run that was watched, and the longest of the stalls.
pub fn judge(watched: &Watched, kind: Kind, run: &Run) -> (Outcome, Option<Stall>) {
    match verdict::of_run(run) {
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

fn verdict_of(watched: &Watched, kind: Kind, stalls: &[Stall], longest: Option<&Stall>) -> Outcome {
    let Some(longest) = longest else {
        return Outcome::Failed("the recorder saw no stall".to_owned());
    };
    let expected =
        |stall: &&Stall| stall.cause.as_ref().is_some_and(|cause| watched.cause.contains(cause));
    // Where memory is not to blame, no stall may be laid to it.
    let judged: Vec<&Stall> = match kind {
        Kind::Decoy => stalls.iter().collect(),
        _ => vec![longest],
    };
    if let Some(wrong) = judged.iter().find(|stall| !expected(stall)) {
        return Outcome::Failed(format!("the recorder said: {}", wrong.verdict));
    }
    let seen = |function: &String| longest.functions.contains(function);
    if !watched.functions.is_empty() && !watched.functions.iter().any(seen) {
        let first = longest.functions.join(", ");
        return Outcome::Failed(format!("the functions that grew the most were: {first}"));
    }
    Outcome::Passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::read::GzEncoder;

    fn stall(seconds: u64, cause: Option<&str>) -> Stall {
        Stall {
            started_unix_ms: 1000,
            ended_unix_ms: 1000 + seconds * 1000,
            trigger_name: "db".to_owned(),
            verdict: format!("it was {cause:?}"),
            cause: cause.map(str::to_owned),
            confidence_percent: Some(80),
            functions: Vec::new(),
        }
    }

    fn watched(functions: &[&str]) -> Watched {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Watched {
            probes: vec![],
            limit: usual_limit(),
            cause: owned(&["a"]),
            functions: owned(functions),
        }
    }

    fn check(kind: Kind, stalls: &[Stall], want: Outcome) {
        let watched = watched(&[]);
        let longest = stalls.iter().max_by_key(|stall| stall.duration_ms());
        assert_eq!(verdict_of(&watched, kind, stalls, longest), want);
    }

    #[test]
    fn the_longest_stall_has_the_cause() {
        check(Kind::Tale, &[stall(9, Some("a")), stall(1, Some("b"))], Outcome::Passed);
        let wrong = Outcome::Failed("the recorder said: it was Some(\"b\")".to_owned());
        check(Kind::Tale, &[stall(1, Some("a")), stall(9, Some("b"))], wrong.clone());
        check(Kind::Decoy, &[stall(9, Some("a")), stall(1, Some("b"))], wrong);
        let none = Outcome::Failed("the recorder said: it was None".to_owned());
        check(Kind::Tale, &[stall(9, None)], none);
        check(Kind::Tale, &[], Outcome::Failed("the recorder saw no stall".to_owned()));
    }

    #[test]
    fn a_guilty_function_is_among_the_first_three() {
        let json = r#"{"difference": [{"function": "b"}, {"function": "g"}, {"function": "c"},
            {"function": "d"}]}"#;
        let mut packed = Vec::new();
        GzEncoder::new(json.as_bytes(), Compression::fast()).read_to_end(&mut packed).unwrap();
        let functions = first_functions(&packed).unwrap();
        let stall = Stall { functions, ..stall(1, Some("a")) };
        let of = |names| verdict_of(&watched(names), Kind::Tale, &[], Some(&stall));
        assert_eq!(of(&["g", "x"]), Outcome::Passed);
        let want = Outcome::Failed("the functions that grew the most were: b, g, c".to_owned());
        assert_eq!(of(&["d"]), want);
        assert!(first_functions(&packed[..packed.len() / 2]).is_err());
    }

    #[test]
    fn what_would_break_the_guests_shell_is_refused() {
        let watched: Watched =
            toml::from_str("probes = [\"exec:echo 'x'\"]\ncause = ['a']").unwrap();
        assert!(watched.check().unwrap_err().contains("no quotes"));
        let watched: Watched = toml::from_str("cause = []").unwrap();
        assert!(watched.check().unwrap_err().contains("no `cause`"));
    }
}
