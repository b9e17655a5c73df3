//! A command whose output is kept, with the errors as text.

use crate::bounded_program::{ProgramEnd, ProgramError, ProgramLimits, run_program};
use crate::is_termination_requested;
use std::process::Command;

impl ProgramEnd {
    /// The first line of standard error: of a hint it is what matters.
    #[must_use]
    pub fn first_error(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.errors);
        text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// The last line of standard error, or else of standard output, or else the status: what led to a failure comes
    /// before it.
    #[must_use]
    pub fn last_line(&self) -> String {
        let line = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
            line.map(str::to_owned)
        };
        let line = line(&self.errors).or_else(|| line(&self.output));
        line.unwrap_or_else(|| self.status.to_string())
    }
}

/// Runs a command. It is killed when its time is over, and when this program is told to end.
///
/// # Errors
/// It could not be started, or did not end in time.
pub fn run_command(command: Command, limits: ProgramLimits<'_>) -> Result<ProgramEnd, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    run_program(command, limits, |_| (), is_termination_requested).map_err(|error| match error {
        ProgramError::NotStarted(error) => format!("{program}: {error}"),
        ProgramError::TimedOut => {
            format!("{program} did not end within {} s; killed", limits.time.as_secs())
        }
        ProgramError::Interrupted => format!("{program} was interrupted"),
        ProgramError::Held(count) => {
            format!("{program} not started: the kernel holds {count} programs that were killed")
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn sh(line: &str, limits: ProgramLimits<'_>) -> Result<ProgramEnd, String> {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        run_command(command, limits)
    }

    const LIMITS: ProgramLimits<'_> =
        ProgramLimits { input: b"", time: Duration::from_secs(30), bytes: 1 << 20 };

    #[test]
    fn everything_that_fits_is_kept() {
        let ended = sh("head -c 300000 /dev/zero; echo end", LIMITS).unwrap();
        assert_eq!((ended.output.len(), ended.is_cut), (300_004, false));
        assert!(ended.output.ends_with(b"end\n"));
        let ended =
            sh("head -c 300000 /dev/zero; echo no >&2", ProgramLimits { bytes: 1000, ..LIMITS });
        let ended = ended.unwrap();
        assert_eq!((ended.output.len(), ended.is_cut), (1000, true));
        assert_eq!(ended.last_line(), "no");
    }

    #[test]
    fn one_that_does_not_end_is_killed_with_what_it_started() {
        let start = Instant::now();
        let limits = ProgramLimits { time: Duration::from_millis(300), ..LIMITS };
        let why = sh("sleep 100 & yes", limits).map(|ended| ended.status).unwrap_err();
        assert!(
            why.starts_with("sh did not end within 0 s")
                && start.elapsed() < Duration::from_secs(20),
            "{why}"
        );
    }

    #[test]
    fn a_failure_says_its_last_line() {
        assert_eq!(sh("echo a >&2; echo b >&2; exit 1", LIMITS).unwrap().last_line(), "b");
        assert_eq!(sh("echo c; exit 1", LIMITS).unwrap().last_line(), "c");
        assert!(sh("exit 7", LIMITS).unwrap().last_line().contains('7'));
    }
}
