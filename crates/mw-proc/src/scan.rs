//! Lines, fields and numbers: what all parsers share.

use crate::error::{ParseError, Problem};

/// One line, without its newline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    /// Counted from 1.
    pub(crate) number: usize,
    pub(crate) text: &'a [u8],
    /// True if a newline ended it. The kernel ends every line so: one that is not was cut.
    pub(crate) ended: bool,
}

impl<'a> Line<'a> {
    /// The problem on this line. A cut line is at fault for being cut, whatever it then lacks.
    pub(crate) fn error(&self, problem: Problem) -> ParseError {
        let problem = if self.ended { problem } else { Problem::Truncated };
        ParseError::new(self.number, problem)
    }

    /// Gives a result of this line its number.
    pub(crate) fn at<T>(&self, result: Result<T, Problem>) -> Result<T, ParseError> {
        result.map_err(|problem| self.error(problem))
    }

    /// Refuses a cut line, whose last number may be the beginning of a longer one.
    pub(crate) fn whole(&self) -> Result<(), ParseError> {
        if self.ended { Ok(()) } else { Err(ParseError::new(self.number, Problem::Truncated)) }
    }

    /// The words of the line.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        fields(self.text)
    }

    /// The next word of `fields` as a number.
    pub(crate) fn next_u64<'b>(
        &self,
        fields: &mut impl Iterator<Item = &'b [u8]>,
    ) -> Result<u64, ParseError> {
        self.at(fields.next().ok_or(Problem::Expected("a number")).and_then(parse_u64))
    }

    /// `key: value` at its first colon, both trimmed.
    pub(crate) fn key_value(&self) -> Option<(&'a [u8], &'a [u8])> {
        let (key, value) = split_once(self.text, b':')?;
        Some((key.trim_ascii(), value.trim_ascii()))
    }
}

/// The lines of a text, numbered.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    text.split_inclusive(|&byte| byte == b'\n').zip(1..).map(|(line, number)| {
        match line.strip_suffix(b"\n") {
            Some(text) => Line { number, text, ended: true },
            None => Line { number, text: line, ended: false },
        }
    })
}

/// The words of a text, separated by any white space.
pub(crate) fn fields(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// The first word, and what comes after the white space behind it.
pub(crate) fn first_field(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (first, rest) = text.split_at_checked(end).unwrap_or((text, b""));
    (first, rest.trim_ascii_start())
}

/// Cuts at the first `separator`.
pub(crate) fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == separator)?;
    let (before, rest) = text.split_at_checked(at)?;
    Some((before, rest.get(1..).unwrap_or_default()))
}

/// Decimal digits and nothing else.
pub(crate) fn parse_u64(text: &[u8]) -> Result<u64, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(Problem::NotANumber);
    }
    text.iter().try_fold(0_u64, |value, digit| {
        value
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(u64::from(digit.wrapping_sub(b'0'))))
            .ok_or(Problem::Overflow)
    })
}

/// Hexadecimal digits and nothing else.
pub(crate) fn parse_hex_u64(text: &[u8]) -> Result<u64, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    let text = std::str::from_utf8(text).map_err(|_| Problem::NotANumber)?;
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Problem::NotANumber);
    }
    u64::from_str_radix(text, 16).map_err(|_| Problem::Overflow)
}

/// As [`parse_u64`], for what the kernel holds in 32 bits.
pub(crate) fn parse_u32(text: &[u8]) -> Result<u32, Problem> {
    u32::try_from(parse_u64(text)?).map_err(|_| Problem::Overflow)
}

/// Decimal digits, with a minus sign before them or not.
pub(crate) fn parse_i64(text: &[u8]) -> Result<i64, Problem> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(parse_u64(digits)?),
        None => i64::try_from(parse_u64(text)?).ok(),
    }
    .ok_or(Problem::Overflow)
}

/// Octal digits and nothing else.
pub(crate) fn parse_octal_u32(text: &[u8]) -> Result<u32, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    text.iter().try_fold(0_u32, |value, digit| match digit {
        b'0'..=b'7' => value
            .checked_mul(8)
            .and_then(|eights| eights.checked_add(u32::from(digit.wrapping_sub(b'0'))))
            .ok_or(Problem::Overflow),
        _ => Err(Problem::NotANumber),
    })
}

/// Digits with one point in them or none: no sign, exponent, infinity.
pub(crate) fn parse_decimal(text: &[u8]) -> Result<f64, Problem> {
    let plain = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let text = std::str::from_utf8(text).map_err(|_| Problem::NotANumber)?;
    match text.parse::<f64>() {
        Ok(value) if plain && value.is_finite() => Ok(value),
        _ => Err(Problem::NotANumber),
    }
}

/// The kernel's kB are 1024 bytes.
pub(crate) const fn kib(value: u64) -> u64 {
    value.saturating_mul(1024)
}

/// `2048 kB` in bytes.
pub(crate) fn parse_kb(text: &[u8]) -> Result<u64, Problem> {
    parse_scaled(text, b"kB", "kB")
}

/// A number and its unit of 1024 bytes (`kB`, `kBps`), in bytes.
pub(crate) fn parse_scaled(
    text: &[u8],
    unit: &[u8],
    unit_name: &'static str,
) -> Result<u64, Problem> {
    let mut fields = fields(text);
    let value = fields.next().ok_or(Problem::Expected("a number")).and_then(parse_u64)?;
    match fields.next() {
        Some(found) if found == unit => Ok(kib(value)),
        _ => Err(Problem::Expected(unit_name)),
    }
}

/// Text for people: bytes that are no UTF-8 are replaced.
pub(crate) fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// As [`lossy`], with control characters spelled out: for names that a process chooses itself.
pub(crate) fn lossy_escaped(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in String::from_utf8_lossy(text).chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Decodes the `\040` that the kernel writes for white space and backslashes in paths.
pub(crate) fn unescape(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| byte == b'\\').and_then(octal_byte);
        out.push(code.unwrap_or(byte));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    lossy(&out)
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    u8::try_from(parse_octal_u32(digits).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_their_number_and_end() {
        let all: Vec<_> = lines(b"a\n\nb").map(|l| (l.number, l.text.len(), l.ended)).collect();
        assert_eq!(all, [(1, 1, true), (2, 0, true), (3, 1, false)]);
        assert_eq!(lines(b"").count(), 0);
    }

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(parse_u64(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), Err(Problem::Overflow));
        assert_eq!(parse_u64(b"+1"), Err(Problem::NotANumber));
        assert_eq!(parse_u64(b""), Err(Problem::Empty));
        assert_eq!(parse_i64(b"-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), Err(Problem::Overflow));
        assert_eq!(parse_i64(b"--1"), Err(Problem::NotANumber));
        assert_eq!(parse_octal_u32(b"1600"), Ok(0o1600));
        assert_eq!(parse_octal_u32(b"8"), Err(Problem::NotANumber));
        assert_eq!(parse_octal_u32(b"777777777777"), Err(Problem::Overflow));
    }

    #[test]
    fn decimals_are_plain() {
        assert_eq!(parse_decimal(b"12.50"), Ok(12.5));
        for wrong in [&b"inf"[..], b"1e3", b"-1", b".", b"", b"1.2.3", b"\xff"] {
            assert_eq!(parse_decimal(wrong), Err(Problem::NotANumber));
        }
    }

    #[test]
    fn kib_saturates() {
        assert_eq!(parse_kb(b"18446744073709551615 kB"), Ok(u64::MAX));
        assert_eq!(parse_kb(b"4"), Err(Problem::Expected("kB")));
    }

    #[test]
    fn escapes_are_octal() {
        assert_eq!(unescape(br"/mnt/a\040b\134\011"), "/mnt/a b\\\t");
        assert_eq!(unescape(br"\04 \999 \777 \"), r"\04 \999 \777 \");
        assert_eq!(lossy_escaped(b"a\x1b[31m\xff"), "a\\u{1b}[31m\u{fffd}");
    }

    #[test]
    fn first_field_takes_the_white_space_behind_it() {
        assert_eq!(first_field(b"  a  b c"), (&b"a"[..], &b"b c"[..]));
        assert_eq!(first_field(b" "), (&b""[..], &b""[..]));
    }
}
