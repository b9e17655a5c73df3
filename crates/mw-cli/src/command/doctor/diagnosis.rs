//! What is printed, for people and programs.

use crate::{Exit, advice};
use serde::Serialize;
use std::fmt::Write;

/// The version of the JSON form of [`Diagnosis`]; it goes up when a consumer could break.
pub(crate) const SCHEMA: u32 = 1;

/// Width at which a line of names is folded.
const WIDTH: usize = 96;

/// Requirements of memwright on this machine.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Diagnosis {
    /// The version of this form.
    pub(super) schema: u32,
    /// The version of memwright that made it.
    pub(super) memwright: String,
    /// The answer in one sentence.
    pub(super) summary: String,
    pub(super) checks: Vec<Check>,
}

/// One thing that is needed.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Check {
    /// Its name, which does not change.
    pub(super) name: String,
    pub(super) state: State,
    /// The observation, and its meaning.
    pub(super) detail: String,
    /// The commands that need it.
    pub(super) needed_by: String,
    /// The command that turns it on; none for what works.
    pub(super) remedy: Option<String>,
    /// The last lines of the journal of a unit that fails.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) log: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Works,
    /// It is optional and not used.
    Off,
    Missing,
    /// It could not be determined.
    Unknown,
}

impl Check {
    /// A check that works so far; [`Self::missing`] and its like change that.
    pub(super) fn works(name: &str, needed_by: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Works,
            detail: detail.into(),
            needed_by: needed_by.to_owned(),
            remedy: None,
            log: Vec::new(),
        }
    }

    fn otherwise(self, state: State, detail: String, remedy: String) -> Self {
        Self { state, detail, remedy: Some(remedy), ..self }
    }

    pub(super) fn missing(self, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.otherwise(State::Missing, detail.into(), remedy.into())
    }

    /// With the journal of what fails.
    pub(super) fn with_log(self, log: &[String]) -> Self {
        Self { log: log.to_vec(), ..self }
    }

    pub(super) fn off(self, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.otherwise(State::Off, detail.into(), remedy.into())
    }

    /// The remedy of an ordinary user, where it is a command that needs root.
    pub(super) fn for_user(self, is_root: bool) -> Self {
        let needs_root = |command: &String| !command.contains("sudo");
        match &self.remedy {
            Some(command) if needs_root(command) => {
                Self { remedy: Some(advice::as_root(command, is_root)), ..self }
            }
            _ => self,
        }
    }

    pub(super) fn unknown(self, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.otherwise(State::Unknown, detail.into(), remedy.into())
    }
}

impl Diagnosis {
    pub(super) fn new(checks: Vec<Check>) -> Self {
        let memwright = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: SCHEMA, memwright, summary: summary(&checks), checks }
    }

    pub(super) fn exit(&self) -> Exit {
        let has = |state| self.checks.iter().any(|check| check.state == state);
        if has(State::Missing) {
            Exit::Findings
        } else if has(State::Unknown) {
            Exit::CouldNotCheck
        } else {
            Exit::Fine
        }
    }

    /// The answer, what to do, and what is in place.
    pub(super) fn text(&self, verbose: bool) -> String {
        let mut text = format!("{}\n", self.summary);
        let parts = [
            ("missing", State::Missing),
            ("undetermined", State::Unknown),
            ("optional, and off", State::Off),
        ];
        for (heading, state) in parts {
            list(&mut text, heading, &self.checks, state);
        }
        if verbose {
            list(&mut text, "in place", &self.checks, State::Works);
        } else {
            text += &folded("in place: ", &names(&self.checks, State::Works));
        }
        text
    }
}

fn names(checks: &[Check], state: State) -> Vec<&str> {
    let some = checks.iter().filter(|check| check.state == state);
    some.map(|check| check.name.as_str()).collect()
}

fn summary(checks: &[Check]) -> String {
    let (missing, unknown) = (names(checks, State::Missing), names(checks, State::Unknown));
    let untold = match unknown.len() {
        0 => String::new(),
        1 => format!("1 is undetermined: {}", unknown.join(", ")),
        count => format!("{count} are undetermined: {}", unknown.join(", ")),
    };
    let said = match missing.len() {
        0 if unknown.is_empty() => return "everything works".to_owned(),
        0 => return format!("nothing is missing, but {untold}"),
        1 => format!("1 requirement is missing: {}", missing.join(", ")),
        count => format!("{count} requirements are missing: {}", missing.join(", ")),
    };
    if untold.is_empty() { said } else { format!("{said}; {untold}") }
}

fn list(text: &mut String, heading: &str, checks: &[Check], state: State) {
    let mut some = checks.iter().filter(|check| check.state == state).peekable();
    if some.peek().is_some() {
        let _ = writeln!(text, "\n{heading}");
    }
    for Check { name, detail, needed_by, remedy, log, .. } in some {
        let _ = writeln!(text, "* {name}: {detail} ({needed_by})");
        for line in log {
            let _ = writeln!(text, "    | {line}");
        }
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "    {remedy}");
        }
    }
}

/// Names behind a heading, on as many lines as they need.
fn folded(heading: &str, names: &[&str]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let mut lines = vec![heading.trim_end().to_owned()];
    for (index, name) in names.iter().enumerate() {
        let comma = if index + 1 < names.len() { "," } else { "" };
        match lines.last_mut() {
            Some(line) if line.len() + name.len() < WIDTH => *line += &format!(" {name}{comma}"),
            _ => lines.push(format!("  {name}{comma}")),
        }
    }
    format!("\n{}\n", lines.join("\n"))
}
