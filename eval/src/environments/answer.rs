//! What `check` must answer in an environment, and what it answered.

use serde_json::Value;
use std::fmt;

/// Number of tries of an environment of the running machine: others may use it up meanwhile.
pub(super) const TRIES: usize = 3;

/// Expected first line.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// The available memory, of this total, with no other finding than those of these rules'.
    Checked {
        /// `23.5 GiB`, `this cgroup's 256 MiB`.
        of: String,
        /// Rules that may find something: what they report is true of this machine.
        may_find: Vec<String>,
        /// Further parts of the expected line.
        says: Vec<&'static str>,
        /// Files that are not there, for which rules may be skipped.
        absent: Vec<&'static str>,
    },
    /// That the environment could not be checked, and why.
    NotChecked(&'static str),
}

impl Expected {
    pub(super) fn checked(of: impl Into<String>) -> Self {
        let (may_find, says, absent) = (Vec::new(), Vec::new(), Vec::new());
        Self::Checked { of: of.into(), may_find, says, absent }
    }

    pub(super) fn without(mut self, file: &'static str) -> Self {
        if let Self::Checked { absent, .. } = &mut self {
            absent.push(file);
        }
        self
    }

    pub(super) fn says(mut self, what: &'static str) -> Self {
        if let Self::Checked { says, .. } = &mut self {
            says.push(what);
        }
        self
    }

    pub(super) fn may_find(mut self, rules: &[String]) -> Self {
        if let Self::Checked { may_find, .. } = &mut self {
            may_find.extend_from_slice(rules);
        }
        self
    }

    fn exit_code(&self) -> i32 {
        match self {
            Self::Checked { .. } => 0,
            Self::NotChecked(_) => 3,
        }
    }

    /// Errors of a line that is to be the verdict, whatever the format.
    fn judge_line(&self, line: &str) -> Result<(), String> {
        let parts: Vec<String> = match self {
            Self::Checked { of, says, .. } => {
                let unknown = "could not be determined";
                if line.contains(unknown) && !says.iter().any(|part| part.contains(unknown)) {
                    return Err(format!("says what {unknown}: {line}"));
                }
                let of = format!(" of {of} ");
                says.iter().map(|part| (*part).to_owned()).chain([of]).collect()
            }
            Self::NotChecked(why) => vec!["could not be checked: ".to_owned(), (*why).to_owned()],
        };
        match parts.iter().find(|part| !line.contains(part.as_str())) {
            Some(part) => Err(format!("lacks '{part}': {line}")),
            None => self.judge_start(line),
        }
    }

    fn judge_start(&self, line: &str) -> Result<(), String> {
        let starts: &[&str] = match self {
            Self::Checked { may_find, .. } if may_find.is_empty() => &["ready: "],
            Self::Checked { .. } => &["ready: ", "may stall under load: "],
            Self::NotChecked(_) => &["could not be checked: "],
        };
        match starts.iter().any(|start| line.starts_with(start)) {
            true => Ok(()),
            false => Err(format!("does not begin with {}: {line}", starts.join("or "))),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checked { of, may_find, says, absent } => {
                write!(f, "checked: … of {of}")?;
                says.iter().try_for_each(|part| write!(f, ", '{part}'"))?;
                absent.iter().try_for_each(|file| write!(f, ", without {file}"))?;
                if !may_find.is_empty() {
                    write!(f, "; may find {}", may_find.join(", "))?;
                }
                Ok(())
            }
            Self::NotChecked(why) => write!(f, "could not be checked: … {why}"),
        }
    }
}

/// Output of one run of `check`, and its exit code.
#[derive(Debug, Clone, Default)]
pub(super) struct Printed {
    pub(super) text: String,
    pub(super) code: i32,
}

impl Printed {
    pub(super) fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// The formats, as the command line calls them.
const FORMATS: [&str; 3] = ["text", "nagios", "json"];

/// Output of `check` in every format.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) text: Printed,
    nagios: Printed,
    pub(super) json: Printed,
}

impl Answer {
    pub(super) fn ask(
        mut check: impl FnMut(&str) -> anyhow::Result<Printed>,
    ) -> anyhow::Result<Self> {
        let [text, nagios, json] = FORMATS.map(&mut check);
        Ok(Self { text: text?, nagios: nagios?, json: json? })
    }

    /// Errors of it.
    fn judge(&self, expected: &Expected) -> Result<(), String> {
        expected.judge_line(self.text.first_line())?;
        let code = expected.exit_code();
        if self.text.code != code || self.json.code != code {
            let codes = (self.text.code, self.json.code);
            return Err(format!("exit codes {codes:?}, not {code}"));
        }
        self.judge_nagios(expected).map_err(|why| format!("nagios: {why}"))?;
        self.judge_json(expected).map_err(|why| format!("json: {why}"))
    }

    fn judge_nagios(&self, expected: &Expected) -> Result<(), String> {
        let states: &[(&str, i32)] = match expected {
            Expected::Checked { may_find, .. } if may_find.is_empty() => &[("OK", 0)],
            Expected::Checked { .. } => &[("OK", 0), ("WARNING", 1)],
            Expected::NotChecked(_) => &[("UNKNOWN", 3)],
        };
        let line = self.nagios.first_line();
        let answer = states.iter().find_map(|(word, code)| {
            let rest = line.strip_prefix(&format!("MEMWRIGHT {word} - "))?;
            (self.nagios.code == *code).then_some(rest)
        });
        let answer = answer.ok_or_else(|| format!("exit code {}: {line}", self.nagios.code))?;
        expected.judge_line(answer.split(" | ").next().unwrap_or_default())
    }

    fn judge_json(&self, expected: &Expected) -> Result<(), String> {
        let report: Value =
            serde_json::from_str(&self.json.text).map_err(|error| error.to_string())?;
        expected.judge_line(report["verdict"].as_str().unwrap_or_default())?;
        let Expected::Checked { may_find, absent, .. } = expected else { return Ok(()) };
        let findings = report["findings"].as_array().into_iter().flatten();
        let mut rules = findings.filter_map(|finding| finding["rule"].as_str());
        if let Some(rule) = rules.find(|rule| !may_find.iter().any(|may| may == rule)) {
            return Err(format!("finds {rule}"));
        }
        let mut skipped = report["skipped"].as_array().into_iter().flatten();
        match skipped.find(|skipped| !is_allowed(&skipped["missing"], absent)) {
            Some(skipped) => Err(format!("skips {}: {}", skipped["rule"], skipped["missing"])),
            None => Ok(()),
        }
    }
}

/// True if a rule may be skipped for this: a file that the environment lacks, or a look that ran out
/// of time, as in an emulated guest.
fn is_allowed(missing: &Value, absent: &[&str]) -> bool {
    let text = |name: &str| missing[name].as_str().unwrap_or_default();
    text("why").contains("the time allowed for looking")
        || absent.iter().any(|file| text("what").starts_with(file))
}

/// An environment, and what `check` said in it.
pub(super) struct Row {
    pub(super) name: String,
    /// Way to make it: a command, or words.
    pub(super) made: String,
    pub(super) expected: Expected,
    pub(super) answer: Answer,
    pub(super) verdict: Result<(), String>,
}

impl Row {
    /// An environment that cannot be made has no right answer.
    pub(super) fn new(
        name: &str,
        made: &str,
        expected: Expected,
        answer: anyhow::Result<Answer>,
    ) -> Self {
        let (answer, verdict) = match answer {
            Ok(answer) => (answer.clone(), answer.judge(&expected)),
            Err(error) => (Answer::default(), Err(format!("{error:#}"))),
        };
        Self { name: name.to_owned(), made: made.to_owned(), expected, answer, verdict }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(line: &str, code: i32, nagios: &str, nagios_code: i32, rules: &[&str]) -> Answer {
        let findings: Vec<Value> =
            rules.iter().map(|rule| serde_json::json!({ "rule": rule })).collect();
        let mut report = serde_json::json!({ "verdict": line, "findings": findings });
        if line.contains("rule could not be checked") {
            let missing = serde_json::json!({ "what": "/sys/fs/cgroup", "why": "not mounted" });
            report["skipped"] = serde_json::json!([{ "rule": "cgroup-limit", "missing": missing }]);
        }
        let printed = |text: String, code| Printed { text, code };
        Answer {
            text: printed(format!("{line}\nmore\n"), code),
            nagios: printed(format!("MEMWRIGHT {nagios} - {line} | critical=0\n"), nagios_code),
            json: printed(report.to_string(), code),
        }
    }

    #[test]
    fn the_right_answer_passes_and_every_wrong_one_does_not() {
        let ready = "ready: 1 GiB of 2 GiB available without writeback or swap";
        let healthy = Expected::checked("2 GiB");
        assert_eq!(answer(ready, 0, "OK", 0, &[]).judge(&healthy), Ok(()));
        let blind = format!("{ready}; 1 rule could not be checked");
        let unknown = format!("{ready}; a limit on this process could not be determined");
        for wrong in [
            answer(ready, 1, "OK", 0, &[]),
            answer(ready, 0, "OK", 3, &[]),
            answer(ready, 0, "UNKNOWN", 0, &[]),
            answer(ready, 0, "OK", 0, &["oom-kill"]),
            answer(&blind, 0, "OK", 0, &[]),
            answer(&unknown, 0, "OK", 0, &[]),
            answer("ready: 1 GiB of 3 GiB available without writeback or swap", 0, "OK", 0, &[]),
            answer("may stall under load: 1 GiB of 2 GiB ", 0, "OK", 0, &[]),
        ] {
            assert!(wrong.judge(&healthy).is_err(), "{wrong:?}");
        }
        let without = healthy.clone().without("/sys/fs/cgroup");
        assert_eq!(answer(&blind, 0, "OK", 0, &[]).judge(&without), Ok(()));
        let said = healthy.clone().says("could not be determined");
        assert_eq!(answer(&unknown, 0, "OK", 0, &[]).judge(&said), Ok(()));
        assert!(answer(ready, 0, "OK", 0, &[]).judge(&said).is_err());
        let warned =
            "may stall under load: 1 warning; 1 GiB of 2 GiB available without writeback or swap";
        let killed = healthy.may_find(&["oom-kill".to_owned()]);
        assert_eq!(answer(warned, 0, "WARNING", 1, &["oom-kill"]).judge(&killed), Ok(()));
    }

    #[test]
    fn what_is_hidden_is_not_healthy() {
        let hidden = Expected::NotChecked("over /sys");
        let line = "could not be checked: a tmpfs is mounted over /sys and hides it";
        assert_eq!(answer(line, 3, "UNKNOWN", 3, &[]).judge(&hidden), Ok(()));
        assert!(answer(line, 0, "OK", 0, &[]).judge(&hidden).is_err());
        assert!(answer(line, 3, "OK", 0, &[]).judge(&hidden).is_err());
        assert!(answer("ready: over /sys", 3, "UNKNOWN", 3, &[]).judge(&hidden).is_err());
    }
}
