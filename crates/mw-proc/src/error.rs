//! What is wrong with a text, and on which line.

use std::error::Error;
use std::fmt;

/// A text that is not what the kernel prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// The line at fault, counted from 1.
    pub line: usize,
    /// Kind of the error.
    pub problem: Problem,
}

impl ParseError {
    /// The problem `problem` on line `line` (from 1).
    #[must_use]
    pub const fn new(line: usize, problem: Problem) -> Self {
        Self { line, problem }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl Error for ParseError {}

/// Kinds of errors of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    Empty,
    /// The text stops in the middle.
    Truncated,
    /// Not a number.
    NotANumber,
    /// The number does not fit.
    Overflow,
    /// A field is missing.
    Expected(&'static str),
    /// More of these than this parser's limit.
    TooMany(&'static str),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Truncated => f.write_str("cut off"),
            Self::NotANumber => f.write_str("not a number"),
            Self::Overflow => f.write_str("number too large"),
            Self::Expected(what) => write!(f, "expected {what}"),
            Self::TooMany(what) => write!(f, "too many {what}"),
        }
    }
}

impl Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(problem: Problem, expected: &str) {
        assert_eq!(ParseError::new(3, problem).to_string(), expected);
    }

    #[test]
    fn reads_as_a_sentence() {
        check(Problem::NotANumber, "line 3: not a number");
        check(Problem::Expected("kB"), "line 3: expected kB");
        check(Problem::TooMany("zones"), "line 3: too many zones");
        check(Problem::Truncated, "line 3: cut off");
        check(Problem::Overflow, "line 3: number too large");
        check(Problem::Empty, "line 3: empty");
    }
}
