//! `/proc/sysvipc/sem`: System V semaphores, a line a set. Any kernel; the column is found by its heading.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The column with the number of semaphores of a set.
const COLUMN: &[u8] = b"nsems";

/// System V semaphores of an IPC namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Semaphores {
    pub sets: u64,
    /// Those of all sets.
    pub semaphores: u64,
}

/// Counts the sets below the heading and their semaphores.
///
/// # Errors
/// When the heading is missing, or a line lacks the number.
pub fn parse(text: &[u8]) -> Result<Semaphores, ParseError> {
    let mut lines = scan::lines(text);
    let heading = lines.next().ok_or(ParseError::new(1, Problem::Empty))?;
    let at = heading.fields().position(|column| column == COLUMN);
    let at = at.ok_or_else(|| heading.error(Problem::Expected("nsems")))?;
    let mut all = Semaphores::default();
    for line in lines {
        line.whole()?;
        let field = line.fields().nth(at).ok_or(Problem::Expected("a value in every column"));
        let count = line.at(field.and_then(scan::parse_u64))?;
        all.sets = all.sets.saturating_add(1);
        all.semaphores = all.semaphores.saturating_add(count);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &[u8] =
        b"       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n";

    fn table(lines: &[u8]) -> Vec<u8> {
        [HEADING, lines].concat()
    }

    #[test]
    fn sets_and_their_semaphores_are_counted() {
        let text = table(
            b"         0          0   600         17    33    33    33    33          0 1795290000\n\
              -559038737          1   600          3  1000  1000  1000  1000 1795290000 1795290000\n",
        );
        assert_eq!(parse(&text), Ok(Semaphores { sets: 2, semaphores: 20 }));
        assert_eq!(parse(HEADING), Ok(Semaphores::default()));
    }

    #[test]
    fn wrong() {
        let refuse = |text: &[u8], line, problem| {
            assert_eq!(parse(text), Err(ParseError::new(line, problem)));
        };
        refuse(b"", 1, Problem::Empty);
        refuse(b"key semid\n", 1, Problem::Expected("nsems"));
        refuse(&table(b"1 2 600\n"), 2, Problem::Expected("a value in every column"));
        refuse(&table(b"1 2 600 x\n"), 2, Problem::NotANumber);
        refuse(&table(b"1 2 600 4"), 2, Problem::Truncated);
    }
}
