//! The outcome of a run before its promises are judged: whether it ended, whether its kernel broke, and
//! what the guest reported.

use crate::Outcome;
use crate::vm::kernel_log::Trouble;
use crate::vm::qemu::{GuestRun, RunEnd};

/// Report of the guest, unless its kernel broke or the run did not end.
pub fn run_outcome(run: &GuestRun) -> Outcome {
    if let Some(trouble) = run.troubles.iter().find(|t| Trouble::is_fatal(t)) {
        return Outcome::Failed(format!("the guest's kernel broke: {}", trouble.line));
    }
    if let Some(why) = how_it_ended(run.ended) {
        let step = run.steps.last().map_or("boot", |step| &step.name);
        return Outcome::Failed(format!("{why}; the guest was at {step}"));
    }
    let said = run.frames.text("outcome").unwrap_or_default();
    match said.split_once(": ") {
        None if said == "passed" => Outcome::Passed,
        Some(("skipped", why)) => Outcome::Skipped(why.to_owned()),
        Some(("failed", why)) => Outcome::Failed(why.to_owned()),
        _ => Outcome::Failed(format!("the guest reported {said:?}")),
    }
}

fn how_it_ended(ended: RunEnd) -> Option<&'static str> {
    match ended {
        RunEnd::Done => None,
        RunEnd::TimedOut => Some("the time limit was reached"),
        RunEnd::Stopped => Some("the machine stopped"),
        RunEnd::OutputLimit => Some("the guest wrote more than 64 MiB"),
        RunEnd::DiskFull => Some("the guest's disks nearly filled the host's"),
        RunEnd::Interrupted => Some("interrupted"),
    }
}

const CONSOLE_LINES_SHOWN: usize = 20;

/// The last lines of the console, up to the line with which the kernel broke.
pub fn console_tail(run: &GuestRun) -> String {
    let fatal = run.troubles.iter().find(|t| Trouble::is_fatal(t));
    let until = fatal.and_then(|trouble| run.console.find(&trouble.line));
    let console = until.and_then(|at| run.console.get(..at)).unwrap_or(&run.console);
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::{frames, kernel_log};
    use std::time::Duration;

    fn run(ended: RunEnd, outcome: &str, console: &str) -> GuestRun {
        let mut frames = frames::GuestFrames::default();
        frames.files.insert("outcome".to_owned(), outcome.as_bytes().to_vec());
        GuestRun {
            ended,
            frames,
            console: console.to_owned(),
            troubles: kernel_log::scan(console),
            steps: Vec::new(),
            boot: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn the_guest_is_believed_unless_its_kernel_broke() {
        let of = |ended, said, log| run_outcome(&run(ended, said, log));
        assert_eq!(of(RunEnd::Done, "passed\n", ""), Outcome::Passed);
        assert_eq!(of(RunEnd::Done, "skipped: no swap\n", ""), Outcome::Skipped("no swap".into()));
        let fails = |ended, said, log, why: &str| {
            assert_eq!(of(ended, said, log), Outcome::Failed(why.to_owned()));
        };
        let bug = "BUG: bad page state";
        fails(RunEnd::Done, "passed", bug, "the guest's kernel broke: BUG: bad page state");
        fails(RunEnd::TimedOut, "passed", "", "the time limit was reached; the guest was at boot");
        fails(RunEnd::Stopped, "", "", "the machine stopped; the guest was at boot");
        fails(RunEnd::Done, "failed: make.sh exited with 1", "", "make.sh exited with 1");
        fails(RunEnd::Done, "", "", "the guest reported \"\"");
    }

    #[test]
    fn the_console_tail_ends_where_the_kernel_broke() {
        let broken = run(RunEnd::Stopped, "", "one\ntwo\nBUG: bad page state\nafter\n");
        assert_eq!(console_tail(&broken), "one\ntwo");
        assert_eq!(console_tail(&run(RunEnd::TimedOut, "", "one\n")), "one");
    }
}
