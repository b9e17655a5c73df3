//! `/proc/uptime`: seconds since boot. Any kernel.

use crate::error::{ParseError, Problem};
use crate::scan;

/// Seconds since boot, time asleep included; the idle time behind it is left out.
///
/// # Errors
/// When the first word is no number.
pub fn parse(text: &[u8]) -> Result<f64, ParseError> {
    match scan::first_field(text).0 {
        b"" => Err(Problem::Empty),
        seconds => scan::parse_decimal(seconds),
    }
    .map_err(|problem| ParseError::new(1, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        assert_eq!(parse(b"552.79 1063.44\n"), Ok(552.79));
        assert_eq!(parse(b""), Err(ParseError::new(1, Problem::Empty)));
        assert_eq!(parse(b"nan 1\n"), Err(ParseError::new(1, Problem::NotANumber)));
    }
}
