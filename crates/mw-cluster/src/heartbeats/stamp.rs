//! The time at which a line of a log was written: the first time in it, in the formats of cluster software.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// A time is looked for in so many bytes.
const WITHIN: usize = 120;

const DAYS: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Time of a line, in milliseconds since 1970. A time without a zone is in `zone`; one without a year is the last such before `now`.
pub(super) fn unix_ms(line: &[u8], zone: &TimeZone, now: Timestamp) -> Option<u64> {
    let formats = [iso, redis, asctime, syslog, klog];
    let found = (0..line.len().min(WITHIN)).find_map(|at| {
        let is_inside_a_word = at > 0 && line.get(at - 1).is_some_and(u8::is_ascii_alphanumeric);
        if is_inside_a_word {
            return None;
        }
        formats.iter().find_map(|format| format(StampCursor(line.get(at..)?)))
    })?;
    let timestamp = found.timestamp(zone, now)?;
    u64::try_from(timestamp.as_millisecond()).ok()
}

/// Time in a line.
struct Stamp {
    year: Option<i16>,
    month: i8,
    day: i8,
    time: TimeOfDay,
    offset: Option<Offset>,
}

struct TimeOfDay {
    hour: i8,
    minute: i8,
    second: i8,
    millisecond: i32,
}

impl Stamp {
    fn timestamp(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let zone = self.offset.map_or_else(|| zone.clone(), TimeZone::fixed);
        let in_year = |year: i16| {
            let TimeOfDay { hour, minute, second, millisecond } = self.time;
            let nanosecond = millisecond.checked_mul(1_000_000)?;
            let time = DateTime::new(year, self.month, self.day, hour, minute, second, nanosecond);
            Some(time.ok()?.to_zoned(zone.clone()).ok()?.timestamp())
        };
        if let Some(year) = self.year {
            return in_year(year);
        }
        let year = now.to_zoned(zone.clone()).year();
        // A clock may be ahead of the one that is read here.
        let latest = now.checked_add(24.hours()).ok()?;
        in_year(year).filter(|time| *time <= latest).or_else(|| in_year(year - 1))
    }
}

/// `2026-11-25T10:02:14.123Z`, `2026-11-25 10:02:14,123`, `2026/11/25 10:02:14`, and MariaDB's `2026-11-25  9:02:14`.
fn iso(mut text: StampCursor<'_>) -> Option<Stamp> {
    let year = text.number(4)?;
    let separator = text.one_of(b"-/")?;
    let month = text.number(2)?;
    text.one_of(&[separator])?;
    let day = text.number(2)?;
    let blank = text.one_of(b"T ")?;
    let is_padded = blank == b' ' && text.one_of(b" ").is_some();
    let time = text.time(if is_padded { 1 } else { 2 })?;
    let offset = text.offset();
    Some(Stamp {
        year: i16::try_from(year).ok(),
        month: small(month)?,
        day: small(day)?,
        time,
        offset,
    })
}

/// `25 Nov 2026 10:02:14.123`
fn redis(mut text: StampCursor<'_>) -> Option<Stamp> {
    let day = text.number(2)?;
    text.one_of(b" ")?;
    let month = text.month()?;
    text.one_of(b" ")?;
    let year = text.number(4)?;
    text.one_of(b" ")?;
    let time = text.time(2)?;
    Some(Stamp { year: i16::try_from(year).ok(), month, day: small(day)?, time, offset: None })
}

/// `Wed Nov 25 10:02:14 2026`
fn asctime(mut text: StampCursor<'_>) -> Option<Stamp> {
    text.name_of(&DAYS)?;
    text.one_of(b" ")?;
    let stamp = syslog(StampCursor(text.0))?;
    // The time has a constant length.
    text.0 = text.0.get(b"Nov 25 10:02:14".len()..)?;
    text.one_of(b" ")?;
    let year = text.number(4).filter(|_| !text.0.first().is_some_and(u8::is_ascii_digit))?;
    Some(Stamp { year: i16::try_from(year).ok(), ..stamp })
}

/// `Nov 25 10:02:14`, `Nov  5 10:02:14`
fn syslog(mut text: StampCursor<'_>) -> Option<Stamp> {
    let month = text.month()?;
    text.one_of(b" ")?;
    let day = match text.one_of(b" ") {
        Some(_) => text.number(1)?,
        None => text.number(2)?,
    };
    text.one_of(b" ")?;
    let time = text.time(2)?;
    Some(Stamp { year: None, month, day: small(day)?, time, offset: None })
}

/// `W1125 10:02:14.123456`
fn klog(mut text: StampCursor<'_>) -> Option<Stamp> {
    text.one_of(b"IWEF")?;
    let (month, day) = (text.number(2)?, text.number(2)?);
    text.one_of(b" ")?;
    let time = text.time(2)?;
    Some(Stamp { year: None, month: small(month)?, day: small(day)?, time, offset: None })
}

fn small(number: u32) -> Option<i8> {
    i8::try_from(number).ok()
}

/// Rest of a line.
struct StampCursor<'a>(&'a [u8]);

impl StampCursor<'_> {
    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        bytes.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// A number of exactly so many digits.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (text, rest) = self.0.split_at_checked(digits)?;
        let number = std::str::from_utf8(text).ok()?;
        if !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        number.parse().ok()
    }

    fn month(&mut self) -> Option<i8> {
        i8::try_from(self.name_of(&MONTHS)? + 1).ok()
    }

    /// Index of the next one of the names, of three letters each.
    fn name_of(&mut self, names: &[&[u8]]) -> Option<usize> {
        let (name, rest) = self.0.split_at_checked(3)?;
        let place = names.iter().position(|known| *known == name)?;
        self.0 = rest;
        Some(place)
    }

    /// `10:02:14`, with a fraction after a point or a comma.
    fn time(&mut self, hour_digits: usize) -> Option<TimeOfDay> {
        let hour = self.number(hour_digits)?;
        self.one_of(b":")?;
        let minute = self.number(2)?;
        self.one_of(b":")?;
        let second = self.number(2)?;
        let mut millisecond = 0;
        if self.0.get(1).is_some_and(u8::is_ascii_digit) && self.one_of(b".,").is_some() {
            for unit in [100, 10, 1] {
                millisecond += unit * i32::try_from(self.number(1).unwrap_or(0)).ok()?;
            }
            while self.number(1).is_some() {}
        }
        Some(TimeOfDay {
            hour: small(hour)?,
            minute: small(minute)?,
            second: small(second)?,
            millisecond,
        })
    }

    /// `Z`, `+02:00`, `+0200`.
    fn offset(&mut self) -> Option<Offset> {
        let sign = match self.one_of(b"Z+-")? {
            b'Z' => return Some(Offset::UTC),
            b'-' => -1,
            _ => 1,
        };
        let hours = i32::try_from(self.number(2)?).ok()?;
        let _ = self.one_of(b":");
        let minutes = i32::try_from(self.number(2)?).ok()?;
        Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Option<String> {
        let now: Timestamp = "2026-11-25T12:00:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let ms = unix_ms(line.as_bytes(), &zone, now)?;
        Some(Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap().to_string())
    }

    #[test]
    fn times_are_read_as_cluster_software_writes_them() {
        for (line, time) in [
            ("2026-11-25T10:02:14.123456Z node corosync", "2026-11-25T10:02:14.123Z"),
            ("2026-11-25T10:02:14+02:00 node2 corosync[1]:", "2026-11-25T08:02:14Z"),
            ("2026-11-25 10:02:14,674 WARNING: Loop", "2026-11-25T09:02:14.674Z"),
            ("2026/07/15 23:41:59 [WARN] memberlist:", "2026-07-15T22:41:59Z"),
            ("Tue Nov  5 22:15:30 2024: A thread timer expired", "2024-11-05T21:15:30Z"),
            ("Nov 25 10:02:14 n1 corosync[1837]:", "2026-11-25T09:02:14Z"),
            ("Nov  5 10:02:14 n1 corosync[1837]:", "2026-11-05T09:02:14Z"),
            // Of last year.
            ("Dec 31 23:59:59 n1 corosync[1837]:", "2025-12-31T22:59:59Z"),
            ("2311:X 25 Nov 2026 10:02:14.123 # +tilt", "2026-11-25T09:02:14.123Z"),
            ("W1125 10:02:14.123456   12 lease.go:1]", "2026-11-25T09:02:14.123Z"),
            (
                r#"{"level":"warn","ts":"2022-08-30T09:17:30.387Z","msg":"x"}"#,
                "2022-08-30T09:17:30.387Z",
            ),
            (r#"{"ts":"2022-08-30T09:17:30.387+0800"}"#, "2022-08-30T01:17:30.387Z"),
            ("2020-09-02 16:15:50 0 [Warning] WSREP:", "2020-09-02T15:15:50Z"),
            ("2026-11-25  1:02:14 0 [Warning] WSREP:", "2026-11-25T00:02:14Z"),
        ] {
            assert_eq!(read(line).as_deref(), Some(time), "{line}");
        }
    }

    #[test]
    fn a_line_without_a_time_has_none() {
        for line in [
            "",
            "no time",
            "2026-13-25T10:02:14Z",
            "2026-11-25",
            "99:99:99",
            "v2026-11-25T10:02:14Z",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(line in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unix_ms(&line, &TimeZone::UTC, Timestamp::UNIX_EPOCH);
        }
    }
}
