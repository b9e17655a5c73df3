//! How much of a long test runs: `cargo xtask ci` proves everything once, `cargo xtask ci --full` at length.

use crate::skip;

/// Set to 1 by `cargo xtask ci --full`.
pub const FULL: &str = "MW_FULL";

#[must_use]
pub fn full() -> bool {
    std::env::var_os(FULL).is_some_and(|value| value == "1")
}

/// True if long campaigns run; reports the test, which is one, as skipped where not.
#[must_use]
#[track_caller]
pub fn is_full_run() -> bool {
    let full = full();
    if !full {
        skip("only with MW_FULL=1");
    }
    full
}

/// Number of repetitions of a test.
#[must_use]
pub fn rounds<T>(quick: T, at_length: T) -> T {
    if full() { at_length } else { quick }
}
