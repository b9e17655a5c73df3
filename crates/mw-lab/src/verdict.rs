//! What is to be said of any run, whatever the guest was to do: whether it came to its end, whether
//! its kernel stayed whole, and what the guest itself says of it.

use crate::Outcome;
use crate::klog::Trouble;
use crate::qemu::{Ended, Run};

/// The outcome of a run: what the guest said, unless its kernel broke or it never said anything.
pub fn of_run(run: &Run) -> Outcome {
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
        _ => Outcome::Failed(format!("the guest said {said:?}")),
    }
}

fn how_it_ended(ended: Ended) -> Option<&'static str> {
    match ended {
        Ended::Done => None,
        Ended::TimedOut => Some("its time was up"),
        Ended::Stopped => Some("the machine stopped"),
        Ended::TooMuchSaid => Some("the guest said more than 64 MiB"),
        Ended::DiskFull => Some("the guest's disks had nearly filled the host's"),
        Ended::Interrupted => Some("interrupted"),
    }
}

const CONSOLE_LINES_SHOWN: usize = 20;

/// The last lines of the console, up to the line that the kernel broke with.
pub fn last_words(run: &Run) -> String {
    let fatal = run.troubles.iter().find(|t| Trouble::is_fatal(t));
    let until = fatal.and_then(|trouble| run.console.find(&trouble.line));
    let console = until.and_then(|at| run.console.get(..at)).unwrap_or(&run.console);
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{klog, serial};
    use std::time::Duration;

    fn run(ended: Ended, outcome: &str, console: &str) -> Run {
        let mut frames = serial::Frames::default();
        frames.files.insert("outcome".to_owned(), outcome.as_bytes().to_vec());
        Run {
            ended,
            frames,
            console: console.to_owned(),
            troubles: klog::scan(console),
            steps: Vec::new(),
            boot: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn the_guest_is_believed_unless_its_kernel_broke() {
        let of = |ended, said, log| of_run(&run(ended, said, log));
        assert_eq!(of(Ended::Done, "passed\n", ""), Outcome::Passed);
        assert_eq!(of(Ended::Done, "skipped: no swap\n", ""), Outcome::Skipped("no swap".into()));
        let fails = |ended, said, log, why: &str| {
            assert_eq!(of(ended, said, log), Outcome::Failed(why.to_owned()));
        };
        let bug = "BUG: bad page state";
        fails(Ended::Done, "passed", bug, "the guest's kernel broke: BUG: bad page state");
        fails(Ended::TimedOut, "passed", "", "its time was up; the guest was at boot");
        fails(Ended::Stopped, "", "", "the machine stopped; the guest was at boot");
        fails(Ended::Done, "failed: make.sh ended with 1", "", "make.sh ended with 1");
        fails(Ended::Done, "", "", "the guest said \"\"");
    }

    #[test]
    fn the_last_words_are_those_before_the_kernel_broke() {
        let broken = run(Ended::Stopped, "", "one\ntwo\nBUG: bad page state\nafter\n");
        assert_eq!(last_words(&broken), "one\ntwo");
        assert_eq!(last_words(&run(Ended::TimedOut, "", "one\n")), "one");
    }
}
