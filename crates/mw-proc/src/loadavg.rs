//! `/proc/loadavg`: the number of tasks, any kernel. Nothing is allocated.

use crate::error::{ParseError, Problem};
use crate::scan;

/// All tasks of the machine, threads included, of `0.10 0.20 0.30 2/345 6789`.
///
/// # Errors
/// When there is no such field, or its second half is no number.
pub fn parse_tasks(text: &[u8]) -> Result<u64, ParseError> {
    let field = scan::fields(text).nth(3).ok_or(Problem::Truncated);
    field
        .and_then(|field| scan::split_once(field, b'/').ok_or(Problem::Expected("running/tasks")))
        .and_then(|(_, tasks)| scan::parse_u64(tasks))
        .map_err(|problem| ParseError::new(1, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        assert_eq!(parse_tasks(b"0.10 0.20 0.30 2/345 6789\n"), Ok(345));
        let problem = |text: &[u8]| parse_tasks(text).unwrap_err().problem;
        assert_eq!(problem(b"0.1 0.2\n"), Problem::Truncated);
        assert_eq!(problem(b"0 0 0 2 9\n"), Problem::Expected("running/tasks"));
        assert_eq!(problem(b"0 0 0 2/x 9\n"), Problem::NotANumber);
    }
}
