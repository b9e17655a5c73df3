//! `/proc/pressure/memory`, `cpu`, `io` and a cgroup's `*.pressure` (4.20 and later, `psi=1`).

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    pub some: PressureLine,
    /// All tasks that could run waited at once (for `cpu` from 5.13 on).
    pub full: Option<PressureLine>,
}

/// One line of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PressureLine {
    /// Share of the last 10 seconds, in percent.
    pub avg10_percent: f64,
    /// Share of the last minute, in percent.
    pub avg60_percent: f64,
    /// Share of the last 5 minutes, in percent.
    pub avg300_percent: f64,
    /// Time waited since boot, in microseconds.
    pub total_us: u64,
}

impl Pressure {
    /// Reads the file; it allocates nothing.
    ///
    /// # Errors
    /// When a known line lacks a value, or there is no `some` line.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut some = None;
        let mut full = None;
        let mut last = 1;
        for line in scan::lines(text) {
            last = line.number;
            line.whole()?;
            let mut fields = line.fields();
            match fields.next() {
                Some(b"some") => some = Some(read(&line, fields)?),
                Some(b"full") => full = Some(read(&line, fields)?),
                _ => {}
            }
        }
        let some = some.ok_or(ParseError::new(last, Problem::Expected("some")))?;
        Ok(Self { some, full })
    }
}

fn read<'a>(
    line: &Line<'_>,
    fields: impl Iterator<Item = &'a [u8]>,
) -> Result<PressureLine, ParseError> {
    let (mut avg10, mut avg60, mut avg300, mut total) = (None, None, None, None);
    for field in fields {
        let (key, value) = line.at(scan::split_once(field, b'=').ok_or(Problem::Expected("=")))?;
        match key {
            b"avg10" => avg10 = Some(line.at(scan::parse_decimal(value))?),
            b"avg60" => avg60 = Some(line.at(scan::parse_decimal(value))?),
            b"avg300" => avg300 = Some(line.at(scan::parse_decimal(value))?),
            b"total" => total = Some(line.at(scan::parse_u64(value))?),
            _ => {}
        }
    }
    Ok(PressureLine {
        avg10_percent: line.at(avg10.ok_or(Problem::Expected("avg10")))?,
        avg60_percent: line.at(avg60.ok_or(Problem::Expected("avg60")))?,
        avg300_percent: line.at(avg300.ok_or(Problem::Expected("avg300")))?,
        total_us: line.at(total.ok_or(Problem::Expected("total")))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"some avg10=73.05 avg60=20.31 avg300=5.07 total=18234567
full avg10=61.00 avg60=17.50 avg300=4.00 total=15234567
";

    #[test]
    fn reads() {
        let pressure = Pressure::parse(TEXT).unwrap();
        assert_eq!(pressure.some.avg10_percent, 73.05);
        assert_eq!(pressure.some.avg60_percent, 20.31);
        assert_eq!(pressure.some.avg300_percent, 5.07);
        assert_eq!(pressure.some.total_us, 18_234_567);
        assert_eq!(pressure.full.map(|full| full.total_us), Some(15_234_567));
    }

    #[test]
    fn cpu_had_no_full_line() {
        let pressure = Pressure::parse(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
        assert_eq!(pressure.map(|pressure| pressure.full), Ok(None));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(Pressure::parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Expected("some"));
        refuse(b"full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", 1, Problem::Expected("some"));
        refuse(b"some avg10=0.00 avg60=0.00 avg300=0.00\n", 1, Problem::Expected("total"));
        refuse(b"some avg10=inf\n", 1, Problem::NotANumber);
        refuse(b"some avg10\n", 1, Problem::Expected("="));
        refuse(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7", 1, Problem::Truncated);
    }
}
