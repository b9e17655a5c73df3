//! Files that hold one number or a list of them: `/proc/sys/vm/*`, `nr_hugepages`, `distance`,
//! `memory.current`. Any kernel; units are the file's own.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The most numbers in a list (a node's `distance` has one for each of 1024 nodes).
pub const MAX_NUMBERS: usize = 4096;

/// One unsigned number; white space around it is allowed.
///
/// # Errors
/// When it is no number, or does not fit.
pub fn parse_u64(text: &[u8]) -> Result<u64, ParseError> {
    scan::parse_u64(text.trim_ascii()).map_err(first_line)
}

/// One signed number; white space around it is allowed.
///
/// # Errors
/// When it is no number, or does not fit.
pub fn parse_i64(text: &[u8]) -> Result<i64, ParseError> {
    scan::parse_i64(text.trim_ascii()).map_err(first_line)
}

/// Numbers separated by white space, as in `lowmem_reserve_ratio` or a node's `distance`.
///
/// # Errors
/// When one is no number, or there are more than [`MAX_NUMBERS`].
pub fn parse_list_u64(text: &[u8]) -> Result<Vec<u64>, ParseError> {
    let mut numbers = Vec::new();
    for line in scan::lines(text) {
        for field in line.fields() {
            if numbers.len() >= MAX_NUMBERS {
                return Err(ParseError::new(line.number, Problem::TooMany("numbers")));
            }
            let number = scan::parse_u64(field);
            numbers.push(number.map_err(|problem| ParseError::new(line.number, problem))?);
        }
    }
    Ok(numbers)
}

const fn first_line(problem: Problem) -> ParseError {
    ParseError::new(1, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number() {
        assert_eq!(parse_u64(b"67584\n"), Ok(67584));
        assert_eq!(parse_u64(b"18446744073692774399\n"), Ok(18_446_744_073_692_774_399));
        assert_eq!(parse_i64(b"-1\n"), Ok(-1));
        assert_eq!(parse_u64(b"\n"), Err(ParseError::new(1, Problem::Empty)));
        assert_eq!(parse_u64(b"max\n"), Err(ParseError::new(1, Problem::NotANumber)));
        assert_eq!(parse_u64(b"1 2\n"), Err(ParseError::new(1, Problem::NotANumber)));
    }

    #[test]
    fn lists() {
        assert_eq!(parse_list_u64(b"256\t256\t32\t0\t0\n"), Ok(vec![256, 256, 32, 0, 0]));
        assert_eq!(parse_list_u64(b"10 21\n"), Ok(vec![10, 21]));
        assert_eq!(parse_list_u64(b""), Ok(vec![]));
        assert_eq!(parse_list_u64(b"1\nx"), Err(ParseError::new(2, Problem::NotANumber)));
        let many = b"1 ".repeat(MAX_NUMBERS + 1);
        assert_eq!(parse_list_u64(&many), Err(ParseError::new(1, Problem::TooMany("numbers"))));
    }
}
