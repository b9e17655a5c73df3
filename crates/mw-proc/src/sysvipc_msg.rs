//! `/proc/sysvipc/msg`: System V message queues, a line a queue. Any kernel.

use crate::error::{ParseError, Problem};
use crate::scan;

/// Counts the queues below the heading.
///
/// # Errors
/// When the heading is missing, or the last line is not whole.
pub fn parse_count(text: &[u8]) -> Result<u64, ParseError> {
    let mut lines = scan::lines(text);
    let heading = lines.next().ok_or(ParseError::new(1, Problem::Empty))?;
    if !heading.fields().any(|column| column == b"msqid") {
        return Err(heading.error(Problem::Expected("msqid")));
    }
    lines.try_fold(0, |count: u64, line| line.whole().map(|()| count.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_counted() {
        let heading =
            "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n";
        let queue = "0 32768 660 0 0 0 0 0 0 0 0 0 0 1795290000\n";
        let count = |text: &str| parse_count(text.as_bytes());
        assert_eq!(count(heading), Ok(0));
        assert_eq!(count(&format!("{heading}{queue}{queue}")), Ok(2));
        assert_eq!(count(""), Err(ParseError::new(1, Problem::Empty)));
        assert_eq!(count("key\n"), Err(ParseError::new(1, Problem::Expected("msqid"))));
        assert_eq!(
            count(&format!("{heading}0 32768")),
            Err(ParseError::new(2, Problem::Truncated))
        );
    }
}
