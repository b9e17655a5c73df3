//! Runs programs of the host.

use std::path::Path;
use std::process::Command;

use crate::error::LabError;
use crate::interrupt;

pub(crate) fn missing(program: &str, package: &str) -> LabError {
    LabError::ProgramMissing { program: program.to_owned(), package: package.to_owned() }
}

/// Runs a program of the host and returns its standard output. `package` is named in the error where
/// the program is not installed.
pub(crate) fn output_of(command: &mut Command, package: &str) -> Result<String, LabError> {
    bytes_of(command, package).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn bytes_of(command: &mut Command, package: &str) -> Result<Vec<u8>, LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match interrupt::output(command) {
        Ok(output) => output,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(missing(&program, package));
        }
        Err(e) => return Err(LabError::io(Path::new(&program))(e)),
    };
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = [output.stderr, output.stdout].concat();
    let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    Err(LabError::Command {
        command: format!("{program} {}", args.join(" ")),
        detail: String::from_utf8_lossy(&said).trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_what_to_install() {
        let error = output_of(&mut Command::new("no-such-program"), "some-package").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`no-such-program` is not installed: apt-get install some-package"
        );
    }

    #[test]
    fn a_failing_program_says_why() {
        let mut sh = Command::new("sh");
        let error = output_of(sh.args(["-c", "echo why >&2; exit 3"]), "dash").unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo why >&2; exit 3` failed: why");
    }
}
