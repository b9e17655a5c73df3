//! The report, for people and programs.

use mw_model::visible::shell_word;
use serde::Serialize;
use std::fmt::Write;

/// The version of the JSON form of [`DoctorReport`]; it goes up when a consumer could break.
pub const DOCTOR_SCHEMA: u32 = 1;

/// Width at which a line of names is folded.
const WIDTH: usize = 96;

/// Requirements of memwright on this machine.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct DoctorReport {
    /// The version of this form.
    pub schema: u32,
    /// The version of memwright that made it.
    pub memwright: String,
    /// The answer in one sentence.
    pub summary: String,
    pub checks: Vec<Requirement>,
}

/// One thing that is needed.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Requirement {
    /// Its name, which does not change.
    pub name: String,
    pub state: RequirementState,
    /// The observation, and its meaning.
    pub detail: String,
    /// The commands that need it.
    pub needed_by: String,
    /// The command that turns it on; none for what works.
    pub remedy: Option<String>,
    /// The last lines of the journal of a unit that fails.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub log: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RequirementState {
    Works,
    /// It is optional and not used.
    Off,
    Missing,
    /// It could not be determined.
    Unknown,
}

impl Requirement {
    /// A check that works so far; [`Self::missing`] and its like change that.
    pub(crate) fn works(name: &str, needed_by: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: RequirementState::Works,
            detail: detail.into(),
            needed_by: needed_by.to_owned(),
            remedy: None,
            log: Vec::new(),
        }
    }

    fn otherwise(self, state: RequirementState, detail: String, remedy: String) -> Self {
        Self { state, detail, remedy: Some(remedy), ..self }
    }

    pub(crate) fn missing(self, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.otherwise(RequirementState::Missing, detail.into(), remedy.into())
    }

    /// Adds the journal of what fails.
    pub(crate) fn with_log(self, log: &[String]) -> Self {
        Self { log: log.to_vec(), ..self }
    }

    pub(crate) fn off(self, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.otherwise(RequirementState::Off, detail.into(), remedy.into())
    }

    /// The remedy of an ordinary user, where it is a command that needs root.
    pub(crate) fn for_user(self, is_root: bool) -> Self {
        let needs_root = |command: &String| !command.contains("sudo");
        match &self.remedy {
            Some(command) if needs_root(command) => {
                Self { remedy: Some(as_root(command, is_root)), ..self }
            }
            _ => self,
        }
    }

    pub(crate) fn unknown(self, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        self.otherwise(RequirementState::Unknown, detail.into(), remedy.into())
    }
}

impl DoctorReport {
    pub(crate) fn new(checks: Vec<Requirement>) -> Self {
        let memwright = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: DOCTOR_SCHEMA, memwright, summary: summary(&checks), checks }
    }

    /// State that the exit code reports: missing before unknown, and otherwise that all works.
    #[must_use]
    pub fn worst(&self) -> RequirementState {
        let has = |state: &RequirementState| self.checks.iter().any(|check| check.state == *state);
        let states = [RequirementState::Missing, RequirementState::Unknown];
        states.into_iter().find(has).unwrap_or(RequirementState::Works)
    }

    /// The answer, what to do, and what is in place.
    #[must_use]
    pub fn text(&self, verbose: bool) -> String {
        let mut text = format!("{}\n", self.summary);
        let parts = [
            ("missing", RequirementState::Missing),
            ("undetermined", RequirementState::Unknown),
            ("optional, and off", RequirementState::Off),
        ];
        for (heading, state) in parts {
            list(&mut text, heading, &self.checks, state);
        }
        if verbose {
            list(&mut text, "in place", &self.checks, RequirementState::Works);
        } else {
            text += &folded("in place: ", &names(&self.checks, RequirementState::Works));
        }
        text
    }
}

fn names(checks: &[Requirement], state: RequirementState) -> Vec<&str> {
    let some = checks.iter().filter(|check| check.state == state);
    some.map(|check| check.name.as_str()).collect()
}

fn summary(checks: &[Requirement]) -> String {
    let (missing, unknown) =
        (names(checks, RequirementState::Missing), names(checks, RequirementState::Unknown));
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

fn list(text: &mut String, heading: &str, checks: &[Requirement], state: RequirementState) {
    let mut some = checks.iter().filter(|check| check.state == state).peekable();
    if some.peek().is_some() {
        let _ = writeln!(text, "\n{heading}");
    }
    for Requirement { name, detail, needed_by, remedy, log, .. } in some {
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

/// A command that needs root, as this user runs it.
pub(crate) fn as_root(command: &str, is_root: bool) -> String {
    if is_root {
        return command.to_owned();
    }
    let is_list = command.contains(|c: char| "&;<>|'\"$".contains(c));
    match shell_word(command) {
        Some(word) if is_list => format!("sudo sh -c {word}"),
        _ => format!("sudo {command}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_commands_is_run_by_one_shell_of_root() {
        for (command, said) in [
            ("systemctl start x", "sudo systemctl start x"),
            ("echo '1' > /x", "sudo sh -c 'echo '\\''1'\\'' > /x'"),
        ] {
            assert_eq!(as_root(command, false), said);
            assert_eq!(as_root(command, true), command);
        }
    }
}
