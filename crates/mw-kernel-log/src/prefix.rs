//! Prefixes that programs write before a message of the kernel: times, hosts, levels, quotation marks.

/// The program that wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineWriter<'a> {
    Kernel,
    Program(&'a str),
}

/// A line in its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixedLine<'a> {
    pub(crate) writer: LineWriter<'a>,
    /// The time as it is written.
    pub(crate) stamp: Option<&'a str>,
    pub(crate) uptime_us: Option<u64>,
    /// Thread or CPU that printed it (`T123`, `C4`), on kernels that say so.
    pub(crate) caller: Option<&'a str>,
    pub(crate) message: &'a str,
}

/// Prefixes that one line has at most.
const MAX_PREFIXES: usize = 12;
/// Columns in which a prefix may begin.
const MAX_PREFIX_BYTES: usize = 200;

/// Facilities from 1 on are programs'.
const PRIORITIES_OF_KERNEL: u32 = 8;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LEVELS: [&str; 13] = [
    "emerg", "alert", "crit", "err", "error", "warn", "warning", "notice", "info", "debug",
    "panic", "kern", "user",
];
/// Tags of the kernel's own messages in a syslog, and of a guest's in VMware's log.
const KERNEL_TAGS: [&str; 4] = ["kernel", "vmkernel", "klogd", "Guest"];

impl<'a> PrefixedLine<'a> {
    pub(crate) fn split(line: &'a str) -> Self {
        let mut split = Self {
            writer: LineWriter::Kernel,
            stamp: None,
            uptime_us: None,
            caller: None,
            message: line.trim(),
        };
        for _ in 0..MAX_PREFIXES {
            if !split.strip() {
                break;
            }
        }
        if split.stamp.is_none() && split.uptime_us.is_none() {
            split.find_stamp();
        }
        split
    }

    /// True if the line has a time, a level or a tag: a paste that has it on most lines has it on all that are whole.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamp.is_some() || self.uptime_us.is_some()
    }

    /// Takes one prefix off; false where there is none.
    fn strip(&mut self) -> bool {
        self.colon()
            || self.quote()
            || self.priority()
            || self.bracket()
            || self.date()
            || self.level()
    }

    fn rest(&mut self, rest: &'a str) -> bool {
        self.message = rest.trim_start();
        true
    }

    /// The colon of an empty column, as some daemons write it behind the tag: `kernel: : [  12.345678] `.
    fn colon(&mut self) -> bool {
        match self.message.strip_prefix(": ") {
            Some(rest) => self.rest(rest),
            None => false,
        }
    }

    fn quote(&mut self) -> bool {
        match self.message.strip_prefix('>').or_else(|| self.message.strip_prefix("| ")) {
            Some(rest) => self.rest(rest),
            None => false,
        }
    }

    /// `<4>`, `<30>`.
    fn priority(&mut self) -> bool {
        let Some((number, rest)) =
            self.message.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        else {
            return false;
        };
        let Ok(priority) = number.parse::<u32>() else { return false };
        if (PRIORITIES_OF_KERNEL..192).contains(&priority) {
            self.writer = LineWriter::Program("");
        }
        // RFC 5424 has its version here.
        self.rest(rest.strip_prefix("1 ").unwrap_or(rest))
    }

    /// `[  12.345678]`, `[ T123]`, `[Thu Dec  7 00:05:14 2017]`, `[2021-09-10T16:15:14Z]: `.
    fn bracket(&mut self) -> bool {
        let Some((inner, rest)) =
            self.message.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        else {
            return false;
        };
        let inner = inner.trim();
        if let Some(at_us) = uptime_us(inner) {
            self.uptime_us = Some(at_us);
        } else if is_caller(inner) {
            self.caller = Some(inner);
        } else if is_date(inner) {
            self.stamp.get_or_insert(inner);
        } else {
            return false;
        }
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        self.rest(rest)
    }

    /// A date without brackets, and the host and tag behind it.
    fn date(&mut self) -> bool {
        let Some((stamp, rest)) = date_at_start(self.message) else { return false };
        self.stamp.get_or_insert(stamp);
        self.rest(rest);
        // dmesg --time-format=iso writes a comma, and neither host nor tag.
        if !stamp.contains(',') {
            self.host_and_tag();
        }
        true
    }

    /// `host kernel: `, `host name[12]: `, `name[12]: `, `stdout F `, `host app - - - `.
    fn host_and_tag(&mut self) {
        for stream in ["stdout F ", "stderr F ", "stdout P ", "stderr P "] {
            if let Some(rest) = self.message.strip_prefix(stream) {
                self.rest(rest);
                return;
            }
        }
        if is_head(self.message) {
            return;
        }
        let (first, after_first) = word(self.message);
        let (second, after_second) = word(after_first);
        if let Some(rest) = after_second.strip_prefix("- - - ") {
            self.tag(second);
            self.rest(rest);
        } else if let Some(tag) = tag_of(first) {
            self.tag(tag);
            self.rest(after_first);
        } else if let (Some(tag), false) = (tag_of(second), is_head(after_first)) {
            self.tag(tag);
            self.rest(after_second);
        } else if KERNEL_TAGS.contains(&first) {
            // An export with columns.
            self.rest(after_first);
        } else if KERNEL_TAGS.contains(&second) {
            self.rest(after_second);
        } else if after_first.starts_with('[') || after_first.starts_with("kern") {
            // A host alone.
            self.rest(after_first);
        }
    }

    fn tag(&mut self, tag: &'a str) {
        self.writer =
            if KERNEL_TAGS.contains(&tag) { LineWriter::Kernel } else { LineWriter::Program(tag) };
    }

    /// `kern  :warn  : `, `kern.warn `, `10.0.0.1: kern: warning: `, `kernel: `, `vcpu-5 - Guest: `.
    fn level(&mut self) -> bool {
        let (first, rest) = word(self.message);
        if KERNEL_TAGS.contains(&first.trim_end_matches(':')) && first.ends_with(':') {
            self.writer = LineWriter::Kernel;
            return self.rest(rest);
        }
        if let Some((facility, level)) = first.trim_end_matches(':').split_once('.')
            && LEVELS.contains(&level)
            && facility.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            self.rest(rest);
            let (tag, rest) = word(self.message);
            if let Some(tag) = tag_of(tag).filter(|_| !is_head(self.message)) {
                self.tag(tag);
                self.rest(rest);
            }
            return true;
        }
        if let Some(rest) = self.message.strip_prefix("kern").and_then(level_columns) {
            return self.rest(rest);
        }
        let head = head_of(self.message, 80);
        for mark in ["Guest: ", ": kern: "] {
            if let Some(at) = head.find(mark) {
                let rest = self.message.get(at.saturating_add(mark.len())..).unwrap_or_default();
                let (level, after) = word(rest);
                let level = level.trim_end_matches(':');
                return self.rest(if LEVELS.contains(&level) { after } else { rest });
            }
        }
        false
    }

    /// A time behind the name of a container or another text, or a tag without a time.
    fn find_stamp(&mut self) {
        let (first, rest) = word(self.message);
        if let Some(tag) = tag_of(first).filter(|_| first.ends_with("]:")) {
            self.tag(tag);
            self.rest(rest);
            return;
        }
        let head = head_of(self.message, MAX_PREFIX_BYTES);
        if let Some(at) = head.find(" kernel: ") {
            let before = head.get(..at).unwrap_or_default();
            // The last words before the tag: a date and a host, in whatever order.
            if !is_head(before) {
                self.stamp = Some(before).filter(|before| before.contains(':'));
                self.message = self.message.get(at..).unwrap_or_default().trim_start();
                while self.level() || self.bracket() {}
                return;
            }
        }
        for (at, _) in head.match_indices('[') {
            let Some(rest) = self.message.get(at..) else { break };
            let inner = rest.get(1..).and_then(|rest| rest.split_once(']')).map(|(inner, _)| inner);
            let is_stamp =
                inner.is_some_and(|inner| uptime_us(inner.trim()).is_some() || is_date(inner));
            if is_stamp && !is_head(self.message) {
                self.message = rest;
                while self.bracket() {}
                return;
            }
        }
    }
}

/// Beginnings of the kernel's own messages, which look like a tag or are in no need of one.
fn is_head(message: &str) -> bool {
    const HEADS: [&str; 18] = [
        "Mem-Info:",
        "Mem-info:",
        "Call Trace:",
        "Call trace:",
        "INFO:",
        "BUG:",
        "Node ",
        "Out of memory",
        "Memory cgroup",
        "oom-kill:",
        "oom_reaper:",
        "watchdog:",
        "Swap cache",
        "Hardware name:",
        "Workqueue:",
        "CPU:",
        "SLUB:",
        "memory:",
    ];
    let (first, rest) = word(message);
    HEADS.iter().any(|head| message.starts_with(head))
        || (first.ends_with(':') && rest.starts_with("page allocation "))
}

/// The first word and what follows the white space behind it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(|c: char| c.is_whitespace())
        .map_or((text, ""), |(word, rest)| (word, rest.trim_start()))
}

fn head_of(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}

/// `name[12]:`, `name:`; names of programs begin with a letter.
fn tag_of(word: &str) -> Option<&str> {
    let tag = word.strip_suffix(':')?;
    let name = match tag.split_once('[') {
        Some((name, pid)) => {
            let pid = pid.strip_suffix(']')?;
            (!pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)?
        }
        None => tag,
    };
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '(')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./@()+".contains(c));
    is_name.then_some(name)
}

/// `  :warn  : ` behind the facility.
fn level_columns(rest: &str) -> Option<&str> {
    let rest = rest.trim_start().strip_prefix(':')?;
    let (level, rest) = rest.split_once(':')?;
    LEVELS.contains(&level.trim()).then_some(rest)
}

/// `12.345678` in microseconds.
fn uptime_us(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction = fraction.parse::<u64>().ok()?.saturating_mul(1_000_000).checked_div(scale)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

fn is_caller(text: &str) -> bool {
    let digits = text.strip_prefix('T').or_else(|| text.strip_prefix('C')).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// True if all of the text is a date with a time, in whatever language the names of days and months are.
fn is_date(text: &str) -> bool {
    const MAX_WORDS: usize = 6;
    let is_short = text.chars().count() <= 40 && text.split_whitespace().count() <= MAX_WORDS;
    let mut clocks = text.split_whitespace().map(|word| word.rsplit('T').next().unwrap_or(word));
    is_short && clocks.any(is_clock)
}

/// A date at the start, and what follows it.
fn date_at_start(text: &str) -> Option<(&str, &str)> {
    let (first, mut rest) = word(text);
    if is_iso_date(first) {
        if !first.contains('T') {
            let (clock, after) = word(rest);
            is_clock(clock).then_some(())?;
            rest = after;
        }
        let (zone, after) = word(rest);
        if is_zone(zone) {
            rest = after;
        }
        return Some((before(text, rest), rest));
    }
    if is_clock(first) && first.contains('.') {
        return Some((first, rest));
    }
    let first = first.trim_end_matches(',');
    let mut month = first;
    if DAYS.contains(&first) {
        (month, rest) = word(rest);
    }
    may_be_month(month).then_some(())?;
    let (day, mut rest) = word(rest);
    let is_number = |text: &str| text.parse::<u16>().is_ok();
    is_number(day.trim_end_matches(',')).then_some(())?;
    let (mut clock, mut after) = word(rest);
    if clock.len() == 4 && is_number(clock) {
        rest = after;
        (clock, after) = word(rest);
    }
    is_clock(clock).then_some(())?;
    let (year, after_year) = word(after);
    if year.len() == 4 && is_number(year) && year.starts_with(['1', '2']) {
        after = after_year;
    }
    Some((before(text, after), after))
}

/// True for a word that may be the name of a month in any language, as `Mar`, `mars` and `11月`: a day and a time have to
/// follow.
fn may_be_month(word: &str) -> bool {
    const MAX_CHARS: usize = 10;
    word.chars().count() <= MAX_CHARS
        && word.chars().any(char::is_alphabetic)
        && word.trim_end_matches('.').chars().all(char::is_alphanumeric)
}

/// The text before a rest of it.
fn before<'a>(text: &'a str, rest: &str) -> &'a str {
    text.get(..text.len().saturating_sub(rest.len())).unwrap_or_default().trim()
}

fn is_iso_date(word: &str) -> bool {
    let mut parts = word.splitn(3, ['-', '/']);
    let mut digits = |len: usize| {
        parts.next().is_some_and(|part| {
            part.len() >= len && part.bytes().take(len).all(|byte| byte.is_ascii_digit())
        })
    };
    word.len() >= 10 && word.starts_with(['1', '2']) && digits(4) && digits(2) && digits(2)
}

fn is_clock(word: &str) -> bool {
    let mut parts = word.split(':');
    let mut number = || {
        parts.next().is_some_and(|part| {
            !part.is_empty() && part.bytes().next().is_some_and(|byte| byte.is_ascii_digit())
        })
    };
    number() && number() && number()
}

fn is_zone(word: &str) -> bool {
    matches!(word, "UTC" | "Z" | "GMT" | "CET" | "CEST" | "EST" | "PST")
        || (word.len() >= 5
            && word.starts_with(['+', '-'])
            && word.bytes().skip(1).all(|byte| byte.is_ascii_digit() || byte == b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, message: &str) {
        let split = PrefixedLine::split(line);
        assert_eq!((split.message, split.writer), (message, LineWriter::Kernel), "{line}");
    }

    #[test]
    fn prefixes_of_the_kernels_messages() {
        let message = "Node 0 DMA free:15908kB";
        for prefix in [
            "",
            "[    1.234567] ",
            "[1656720.918699][ T1234] ",
            "[12345.678901] [   C3] ",
            "<4>[   12.345678] ",
            "kern  :warn  : [Thu Dec  7 00:05:14 2017] ",
            "[Thu Dec  7 00:05:14 2017] ",
            "[Di Aug 12 03:54:03 2025] ",
            "Jan 29 01:42:13 pihost kernel: [23178.419655] ",
            "Jan 29 01:42:13 pihost kernel: ",
            "m\u{e4}rs 29 01:42:13 pihost kernel: ",
            "Jan 29 01:42:13 kernel: ",
            "2026-03-22T15:00:03.118204+09:00 node-b kernel: ",
            "2026-03-22 15:00:03.118 node-b kernel: [    3.000001] ",
            "2026-03-22T15:00:03,118204+09:00 ",
            "10.5.0.3: kern: warning: [2026-03-22T15:00:03.118204Z]: ",
            "Thu Dec  7 00:05:14 2017 kern.warn kernel: [12345.678901] ",
            "2026-03-22T15:00:03.118Z| vcpu-5| Guest: <6>[   77.000100] ",
            "vcpu-5 - Guest: <6>[   77.000100] ",
            "worker-1  | [   77.000100] ",
            "worker-1 [   77.000100] ",
            "kernel: ",
            "node-b kernel: ",
            "> [   77.000100] ",
            ">> Jan 29 01:42:13 pihost kernel: ",
            "<4>1 2026-03-22T15:00:03Z node-b kernel - - - [   77.000100] ",
            "2026-03-22T06:00:03.318204118Z stdout F [   77.000100] ",
        ] {
            check(&format!("{prefix}{message}"), message);
        }
        check("[  402]     0   402     7104", "[  402]     0   402     7104");
        check("khubd: page allocation failure: order:5", "khubd: page allocation failure: order:5");
        check("97654 total pagecache pages", "97654 total pagecache pages");
    }

    #[test]
    fn a_programs_line_is_not_the_kernels() {
        for (line, name) in [
            ("May 07 14:29:23 systemd-oomd[1852]: Killed /a", "systemd-oomd"),
            ("2026-03-22T15:00:03+09:00 db java[12]: Out of memory", "java"),
            ("May 07 14:29:23 db tomcat: java.lang.OutOfMemoryError", "tomcat"),
        ] {
            assert_eq!(PrefixedLine::split(line).writer, LineWriter::Program(name), "{line}");
        }
        let split = PrefixedLine::split("<30>[   12.000000] systemd[1]: Started");
        assert_eq!((split.uptime_us, split.writer), (Some(12_000_000), LineWriter::Program("")));
    }
}
