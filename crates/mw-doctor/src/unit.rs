//! State of a unit as systemd reports it, and the reason that it does not run. Reading is bounded in time and bytes.

use crate::host::{UnitFailure, UnitState};
use mw_model::visible;
use mw_sys::{ProgramLimits, run_command};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time limit of systemd and its journal, and limit of their output.
const LIMITS: ProgramLimits<'_> =
    ProgramLimits { input: &[], time: Duration::from_secs(5), bytes: 64 << 10 };

/// Lines of the journal that are shown: a start that fails leaves seven.
const LINES: usize = 8;
const MAX_LINE_CHARS: usize = 300;

const PROPERTIES: &str = "--property=LoadState,UnitFileState,ActiveState,SubState,Result,NRestarts,\
                          ExecMainCode,ExecMainStatus";

/// `ExecMainCode` of a program that has exited (`CLD_EXITED`).
const EXITED: &str = "1";

/// Steps before the program runs that fail, by the exit status that systemd gives them (systemd.exec(5)).
const STEPS: [(u32, &str); 10] = [
    (200, "CHDIR"),
    (203, "EXEC"),
    (216, "GROUP"),
    (217, "USER"),
    (218, "CAPABILITIES"),
    (219, "CGROUP"),
    (226, "NAMESPACE"),
    (228, "SECCOMP"),
    (233, "RUNTIME_DIRECTORY"),
    (238, "STATE_DIRECTORY"),
];

impl UnitState {
    /// Reads the state of a unit.
    #[must_use]
    pub fn read(name: &str) -> Self {
        if !Path::new("/run/systemd/system").exists() {
            return UnitState::NoSystemd;
        }
        let mut show = Command::new("systemctl");
        show.args(["show", name, PROPERTIES]);
        let unit = match run_command(show, LIMITS) {
            Ok(ended) if ended.status.success() => parse(&String::from_utf8_lossy(&ended.output)),
            Ok(ended) => UnitState::Unknown(visible::line(&ended.last_line()).to_string()),
            Err(why) => UnitState::Unknown(why),
        };
        match unit {
            UnitState::Installed { enabled, active, failure: Some(failure) } => {
                let failure = UnitFailure { log: journal(name), ..failure };
                UnitState::Installed { enabled, active, failure: Some(failure) }
            }
            unit => unit,
        }
    }
}

/// The last lines of a unit's journal; none where it may not be read.
fn journal(name: &str) -> Vec<String> {
    let mut journalctl = Command::new("journalctl");
    journalctl.args(["--quiet", "--no-pager", "--output=cat", "--unit", name]);
    journalctl.arg(format!("--lines={LINES}"));
    let ended = run_command(journalctl, LIMITS);
    ended.map(|ended| lines(&String::from_utf8_lossy(&ended.output))).unwrap_or_default()
}

/// The last lines of what a program wrote, shortened and escaped.
fn lines(text: &str) -> Vec<String> {
    let written: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = written.iter().skip(written.len().saturating_sub(LINES));
    let shown = |line: &&str| {
        let line: String = line.chars().take(MAX_LINE_CHARS).collect();
        visible::line(&line).to_string()
    };
    last.map(shown).collect()
}

fn parse(text: &str) -> UnitState {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    };
    match value("LoadState") {
        "not-found" => UnitState::NotInstalled,
        "loaded" => UnitState::Installed {
            enabled: value("UnitFileState").to_owned(),
            active: value("ActiveState").to_owned(),
            failure: failure(&value),
        },
        other => UnitState::Unknown(format!("its load state is '{other}'")),
    }
}

/// A unit that systemd has given up, or starts again and again.
fn failure<'a>(value: &impl Fn(&str) -> &'a str) -> Option<UnitFailure> {
    let (active, restarts) = (value("ActiveState"), value("NRestarts"));
    let restarts: u64 = restarts.parse().unwrap_or(0);
    let is_restarted =
        value("SubState") == "auto-restart" || (active == "activating" && restarts > 0);
    if active != "failed" && !is_restarted {
        return None;
    }
    let mut told: Vec<String> = Vec::new();
    let result = value("Result");
    told.extend((!matches!(result, "" | "success")).then(|| format!("result '{result}'")));
    if value("ExecMainCode") == EXITED && value("ExecMainStatus") != "0" {
        let status = value("ExecMainStatus");
        let step = STEPS.iter().find(|(number, _)| status == number.to_string());
        let step = step.map(|(_, name)| format!("/{name}")).unwrap_or_default();
        told.push(format!("exit status {status}{step}"));
    }
    let times = if restarts == 1 { "time" } else { "times" };
    told.extend((restarts > 0).then(|| format!("restarted {restarts} {times}")));
    Some(UnitFailure { result: told.join(", "), log: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_systemd_says_of_a_unit() {
        let unit = parse(
            "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nResult=success\nNRestarts=3\n",
        );
        let (enabled, active) = ("enabled".to_owned(), "active".to_owned());
        assert_eq!(unit, UnitState::Installed { enabled, active, failure: None });
        let gone = "LoadState=not-found\nActiveState=inactive\nUnitFileState=\n";
        assert_eq!(parse(gone), UnitState::NotInstalled);
        assert!(matches!(parse("LoadState=masked\n"), UnitState::Unknown(_)));
        assert!(matches!(parse(""), UnitState::Unknown(_)));
    }

    #[track_caller]
    fn fails(text: &str, expected: &str) {
        match parse(&format!("LoadState=loaded\nUnitFileState=enabled\n{text}")) {
            UnitState::Installed { failure: Some(failure), .. } => {
                assert_eq!(failure.result, expected)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_unit_that_fails_says_how() {
        fails(
            "ActiveState=activating\nSubState=auto-restart\nResult=exit-code\nNRestarts=7\n\
             ExecMainCode=1\nExecMainStatus=226\n",
            "result 'exit-code', exit status 226/NAMESPACE, restarted 7 times",
        );
        fails(
            "ActiveState=failed\nSubState=failed\nResult=exit-code\nNRestarts=0\nExecMainCode=1\nExecMainStatus=2\n",
            "result 'exit-code', exit status 2",
        );
        fails(
            "ActiveState=failed\nSubState=failed\nResult=watchdog\nNRestarts=0\nExecMainCode=3\nExecMainStatus=6\n",
            "result 'watchdog'",
        );
        fails(
            "ActiveState=activating\nSubState=start\nResult=success\nNRestarts=2\nExecMainCode=0\nExecMainStatus=0\n",
            "restarted 2 times",
        );
        fails("ActiveState=failed\n", "");
    }

    #[test]
    fn lines_of_the_journal_are_few_short_and_escaped() {
        let text: String = (0..20).map(|number| format!("line {number}\n\n")).collect();
        let kept = lines(&text);
        assert_eq!((kept.len(), kept[0].as_str(), kept[7].as_str()), (LINES, "line 12", "line 19"));
        let hostile = lines(&format!("\u{1b}[31mred{}", "x".repeat(5000)));
        assert!(!hostile[0].contains('\u{1b}') && hostile[0].len() < 400, "{hostile:?}");
    }
}
