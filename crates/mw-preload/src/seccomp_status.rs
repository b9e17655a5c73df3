//! The number of seccomp filters at the start of a process, from /proc/self/status.

use crate::kernel;

/// Number of filters that this process was started under; none if that is unknown.
pub(crate) fn filters_at_start() -> Option<u32> {
    // As the dynamic linker opens libraries: filters see flags, not names.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the name ends with a zero byte (openat(2)).
    #[allow(unsafe_code, reason = "a system call")]
    let fd = unsafe { kernel::openat(libc::AT_FDCWD, c"/proc/self/status".as_ptr(), flags) };
    if fd < 0 {
        return None;
    }
    let (mut parser, mut buffer) = (StatusParser::default(), [0_u8; 2048]);
    let read = loop {
        // SAFETY: the length is that of the buffer (read(2)).
        #[allow(unsafe_code, reason = "a system call")]
        let read = unsafe { kernel::read(fd, buffer.as_mut_ptr(), buffer.len()) };
        let Ok(length @ 1..) = usize::try_from(read) else { break read };
        parser.add(buffer.get(..length).unwrap_or_default());
        // The rest would take another call.
        if parser.filters.is_some() {
            break read;
        }
    };
    // SAFETY: it was opened here (close(2)).
    #[allow(unsafe_code, reason = "a system call")]
    unsafe {
        kernel::close(fd)
    };
    // A kernel without seccomp has no such line.
    (read >= 0).then(|| parser.filters.unwrap_or(0))
}

/// Longer lines are cut.
const LINE_BYTES: usize = 32;

/// Parses /proc/self/status in pieces.
struct StatusParser {
    line: [u8; LINE_BYTES],
    length: usize,
    mode: u32,
    filters: Option<u32>,
}

impl Default for StatusParser {
    fn default() -> Self {
        Self { line: [0; LINE_BYTES], length: 0, mode: 0, filters: None }
    }
}

impl StatusParser {
    fn add(&mut self, text: &[u8]) {
        for byte in text {
            if *byte == b'\n' {
                self.end_line();
            } else if let Some(place) = self.line.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    fn end_line(&mut self) {
        let line = self.line.get(..self.length).unwrap_or_default();
        let number = |name: &[u8]| {
            let value = line.strip_prefix(name)?.trim_ascii();
            std::str::from_utf8(value).ok()?.parse::<u32>().ok()
        };
        if let Some(mode) = number(b"Seccomp:") {
            self.mode = mode;
        }
        // From Linux 5.9 on, on the line after the mode.
        if let Some(filters) = number(b"Seccomp_filters:") {
            self.filters = Some(if self.mode == 0 { 0 } else { filters.max(1) });
        }
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(pieces: &[&str]) -> Option<u32> {
        let mut parser = StatusParser::default();
        pieces.iter().for_each(|piece| parser.add(piece.as_bytes()));
        parser.filters
    }

    #[test]
    fn filters_are_counted() {
        let groups = format!("Groups:\t{}\n", "1234 ".repeat(1000));
        let none = "NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n";
        assert_eq!(filters(&[&groups, none]), Some(0));
        assert_eq!(filters(&[&groups, "Seccomp:\t2\nSec", "comp_filters:\t3\nx"]), Some(3));
        assert_eq!(filters(&["Name:\tSeccomp_filters:\t7\nSeccomp:\t0\n"]), None);
    }
}
