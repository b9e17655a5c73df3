//! Lines of a log, whatever a program or a paste made of them.

use crate::frame;
use crate::prefix::{LineWriter, PrefixedLine};
use std::borrow::Cow;

/// The most of a log that is read.
pub const MAX_LOG_BYTES: usize = 64 << 20;
/// Lines that are read; the rest is reported as not read.
const MAX_LINES: usize = 2_000_000;
/// The most of one line.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Lines by which the shape of a paste is judged.
const SURVEY_LINES: usize = 2_000;
/// Columns at which mails and pages fold; lines of a report are much longer.
const FOLD_CHARS: std::ops::RangeInclusive<usize> = 50..=132;
/// A line that ends so close to the fold may have been folded between words.
const LAST_WORD_CHARS: usize = 16;

/// A message of the kernel or of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogLine {
    /// Name of the program that wrote it; `None` for the kernel.
    pub(crate) program: Option<String>,
    pub(crate) stamp: Option<String>,
    pub(crate) uptime_us: Option<u64>,
    pub(crate) caller: Option<String>,
    pub(crate) message: String,
}

/// Properties that most lines of a paste share.
#[derive(Debug, Clone, Copy, Default)]
struct PasteShape {
    has_numbers: bool,
    has_stamps: bool,
    /// Column at which longer lines were folded.
    fold_chars: Option<usize>,
    /// Many lines end at that column, as if a terminal had cut them.
    is_cut: bool,
}

/// Calls `take` with each line; false if some were left out.
pub(crate) fn each(log: &[u8], mut take: impl FnMut(&LogLine)) -> bool {
    let read = log.get(..MAX_LOG_BYTES).unwrap_or(log);
    let text = String::from_utf8_lossy(read);
    let shape = PasteShape::survey(&text);
    let mut pending: Option<LogLine> = None;
    let mut chars_before = 0;
    for raw in text.split('\n').take(MAX_LINES) {
        let raw = bounded(raw.trim_end_matches('\r'));
        for line in frame::messages(raw) {
            let cleaned = clean(&line);
            let split = PrefixedLine::split(shape.unnumbered(&cleaned));
            match pending.as_mut() {
                Some(before) if shape.is_rest(&split, before, chars_before) => {
                    before.append(split.message, shape.is_cut);
                }
                _ => {
                    pending.take().iter().for_each(&mut take);
                    pending = Some(LogLine::from_prefixed(&split));
                }
            }
        }
        chars_before = raw.chars().count();
    }
    pending.iter().for_each(&mut take);
    read.len() == log.len() && text.split('\n').nth(MAX_LINES).is_none()
}

impl LogLine {
    fn from_prefixed(split: &PrefixedLine<'_>) -> Self {
        Self {
            program: match split.writer {
                LineWriter::Kernel => None,
                LineWriter::Program(name) => Some(name.to_owned()),
            },
            stamp: split.stamp.map(str::to_owned),
            uptime_us: split.uptime_us,
            caller: split.caller.map(str::to_owned),
            message: split.message.to_owned(),
        }
    }

    fn append(&mut self, rest: &str, is_cut: bool) {
        if self.message.len().saturating_add(rest.len()) > MAX_LINE_BYTES {
            return;
        }
        if !is_cut && !self.message.ends_with('-') {
            self.message.push(' ');
        }
        self.message.push_str(rest);
    }
}

impl PasteShape {
    fn survey(text: &str) -> Self {
        let (mut lines, mut numbers, mut stamps) = (0_usize, 0_usize, 0_usize);
        let mut last_number = None;
        let mut lengths: Vec<usize> = Vec::new();
        for raw in text.split('\n').filter(|line| !line.trim().is_empty()).take(SURVEY_LINES) {
            let raw = bounded(raw).trim_end_matches('\r');
            lines = lines.saturating_add(1);
            let number = leading_number(raw).map(|(number, _)| number);
            let is_next = number.is_some_and(|number| last_number == number.checked_sub(1));
            numbers = numbers.saturating_add(usize::from(is_next));
            last_number = number;
            lengths.push(raw.chars().count());
            let line = leading_number(raw).map_or(raw, |(_, rest)| rest);
            let is_stamped = PrefixedLine::split(line).is_stamped();
            stamps = stamps.saturating_add(usize::from(is_stamped));
        }
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let near = |within: usize| {
            lengths.iter().filter(|length| length.saturating_add(within) >= longest).count()
        };
        let is_share = |count: usize, of: usize| count.saturating_mul(of) >= lines.max(4);
        let is_folded = FOLD_CHARS.contains(&longest) && is_share(near(LAST_WORD_CHARS), 6);
        Self {
            has_numbers: is_share(numbers, 2),
            has_stamps: is_share(stamps, 8),
            fold_chars: is_folded.then_some(longest),
            // A terminal cuts all lines at one column, a mail between words.
            is_cut: is_folded
                && near(0).saturating_mul(10) >= near(LAST_WORD_CHARS).saturating_mul(9),
        }
    }

    /// The line without the number that an editor or a page put before it.
    fn unnumbered(self, line: &str) -> &str {
        match leading_number(line) {
            Some((_, rest)) if self.has_numbers => rest,
            _ => line,
        }
    }

    /// True if a line is the rest of the one before, which a mail or a page folded: its first word had no room there.
    fn is_rest(self, line: &PrefixedLine<'_>, before: &LogLine, chars_before: usize) -> bool {
        let is_bare =
            !line.is_stamped() && line.writer == LineWriter::Kernel && !line.message.is_empty();
        let Some(fold_chars) = self.fold_chars.filter(|_| is_bare) else { return false };
        if self.is_cut {
            return chars_before == fold_chars;
        }
        let is_stamped = before.stamp.is_some() || before.uptime_us.is_some();
        if self.has_stamps {
            // With times before all other lines, a line without is a rest.
            return is_stamped && chars_before.saturating_mul(2) > fold_chars;
        }
        let first = line.message.split_whitespace().next().unwrap_or_default().chars().count();
        // Columns of the table of tasks are far apart.
        let blanks = if before.message.starts_with('[') { LAST_WORD_CHARS } else { 1 };
        let had_no_room = chars_before.saturating_add(first).saturating_add(blanks) > fold_chars;
        had_no_room && !is_beginning(line.message)
    }
}

/// Beginnings of lines that a fold seldom leaves.
fn is_beginning(message: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "[",
        "Node ",
        "Mem-Info",
        "Out of memory",
        "oom-kill:",
        "INFO:",
        "Killed process",
        "Task in ",
    ];
    BEGINNINGS.iter().any(|begin| message.starts_with(begin))
}

/// A number at the start of a line, and the text behind it.
fn leading_number(line: &str) -> Option<(u64, &str)> {
    let line = line.trim_start();
    let end = line.find(|c: char| !c.is_ascii_digit())?;
    let (digits, rest) = line.split_at_checked(end)?;
    let number = digits.parse().ok()?;
    let rest = rest.strip_prefix([':', '.', '|', '\t']).or_else(|| rest.strip_prefix(' '))?;
    Some((number, rest))
}

fn bounded(line: &str) -> &str {
    beginning(line, MAX_LINE_BYTES)
}

/// The first bytes of a text, up to a whole character.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

/// The line without the sequences that colour it, and with blanks for tabs.
fn clean(line: &str) -> Cow<'_, str> {
    if !line.contains(|c: char| c.is_control()) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            // ESC [ parameters letter.
            let _ = chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            out.push(if c.is_control() { ' ' } else { c });
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &str) -> Vec<String> {
        let mut found = Vec::new();
        assert!(each(log.as_bytes(), |line| found.push(line.message.clone())));
        found.retain(|line| !line.is_empty());
        found
    }

    #[test]
    fn numbers_of_lines_and_padding_are_not_part_of_the_message() {
        let log = "7 [    1.000000] Mem-Info:   \n8 [    1.000001] 12 pages RAM   \n\
                   9 [    1.000002] 7 pages reserved  \n10 [    1.000003] b\n11 [    1.000004] c\n";
        assert_eq!(messages(log), ["Mem-Info:", "12 pages RAM", "7 pages reserved", "b", "c"]);
        assert_eq!(
            messages("12 pages RAM\n7 pages reserved\n"),
            ["12 pages RAM", "7 pages reserved"]
        );
    }

    #[test]
    fn a_folded_line_is_one_line() {
        let log = "> Jan  1 00:00:01 a kernel: app invoked oom-killer: gfp_mask=0xd0,\n\
                   > order=0, oom_score_adj=0\n\
                   > Jan  1 00:00:01 a kernel: Node 0 Normal free:12kB min:1kB low:2kB\n\
                   > high:7kB\n> Jan  1 00:00:01 a kernel: b\n";
        let whole = "app invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0";
        let zone = "Node 0 Normal free:12kB min:1kB low:2kB high:7kB";
        assert_eq!(messages(log), [whole, zone, "b"]);
        assert_eq!(
            messages(&log.replace("Jan  1 00:00:01 a kernel: ", ""))[1],
            "order=0, oom_score_adj=0"
        );
    }

    #[test]
    fn a_line_that_a_terminal_cut_is_one_line() {
        let line = |text: &str| format!("{text:<60}");
        let log = [
            line("[    1.000000] Node 0 Normal free:12kB min:1kB low:2kB high:71"),
            "23kB".to_owned(),
            line("[    1.000001] Node 1 Normal free:12kB min:1kB low:2kB high:72"),
            "24kB".to_owned(),
        ];
        let found = messages(&log.join("\n"));
        assert_eq!(
            found,
            [
                "Node 0 Normal free:12kB min:1kB low:2kB high:7123kB",
                "Node 1 Normal free:12kB min:1kB low:2kB high:7224kB"
            ]
        );
    }

    #[test]
    fn colours_and_tabs_are_left_out() {
        assert_eq!(messages("\x1b[32m[    1.000000] \x1b[0mMem-Info:\t1"), ["Mem-Info: 1"]);
    }
}
