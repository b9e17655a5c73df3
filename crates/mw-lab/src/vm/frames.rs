//! Frames on the second serial port, by which a guest sends files to the host.
//!
//! A frame is a line `@@memwright begin NAME`, the contents in base64 on any number of lines, and a
//! line `@@memwright end NAME`. Between frames `@@memwright at STEP` announces a step,
//! and `@@memwright done` the end. The kernel's log has a serial port of its own, so
//! nothing is interleaved with a frame's lines.

use std::collections::BTreeMap;

use crate::error::LabError;

const MARK: &str = "@@memwright ";

/// Frame that a guest sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestFrames {
    pub files: BTreeMap<String, Vec<u8>>,
    /// True if the guest reported that it was done.
    pub done: bool,
}

impl GuestFrames {
    /// As text, without the last end of line.
    pub fn text(&self, name: &str) -> Option<String> {
        let bytes = self.files.get(name)?;
        Some(String::from_utf8_lossy(bytes).trim_end().to_owned())
    }
}

/// The text of a line that is not part of a frame's contents.
pub(crate) fn mark(line: &str) -> Option<&str> {
    line.strip_prefix(MARK)
}

/// Decodes the data of the port. A frame without an end is left out.
pub fn parse(port: &str) -> Result<GuestFrames, LabError> {
    let mut frames = GuestFrames::default();
    let mut open: Option<(String, String)> = None;
    for line in port.lines().map(str::trim_end) {
        match (mark(line), &mut open) {
            (Some("done"), None) => frames.done = true,
            (Some(mark), None) if mark.starts_with("at ") => {}
            (Some(mark), None) => {
                let name = mark.strip_prefix("begin ").ok_or_else(|| stray(line))?;
                open = Some((name.to_owned(), String::new()));
            }
            (Some(mark), Some((name, text))) => {
                if mark.strip_prefix("end ") != Some(name) {
                    return Err(stray(line));
                }
                frames.files.insert(std::mem::take(name), decode(text)?);
                open = None;
            }
            (None, Some((_, text))) => text.push_str(line),
            (None, None) if line.is_empty() => {}
            (None, None) => return Err(stray(line)),
        }
    }
    Ok(frames)
}

fn stray(line: &str) -> LabError {
    LabError::Protocol(format!("unexpected line {line:?}"))
}

/// Base64 in the standard alphabet, padded, without white space.
fn decode(text: &str) -> Result<Vec<u8>, LabError> {
    let bad = || LabError::Protocol("not base64".to_owned());
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return Err(bad());
    }
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut bit_count) = (0u32, 0u32);
    for byte in digits.bytes() {
        bits = (bits << 6) | sextet(byte).ok_or_else(bad)?;
        bit_count += 6;
        if bit_count >= 8 {
            bit_count -= 8;
            out.push((bits >> bit_count) as u8);
            bits &= (1 << bit_count) - 1;
        }
    }
    Ok(out)
}

fn sextet(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(port: &str, want: &[(&str, &[u8])], done: bool) {
        let frames = parse(port).unwrap();
        let got: Vec<_> = frames.files.iter().map(|(n, b)| (n.as_str(), b.as_slice())).collect();
        assert_eq!(got, want);
        assert_eq!(frames.done, done);
    }

    #[test]
    fn frames_are_read() {
        check("", &[], false);
        check(
            "@@memwright at make\r\n@@memwright begin a\r\nbWVtd3Jp\r\nZ2h0\r\n@@memwright end a\r\n@@memwright done\r\n",
            &[("a", b"memwright")],
            true,
        );
        check("@@memwright begin a\nTQ==\n@@memwright end a\n", &[("a", b"M")], false);
        check("@@memwright begin a\nTWU=\n@@memwright end a\n", &[("a", b"Me")], false);
        check("@@memwright begin a\n@@memwright end a\n", &[("a", b"")], false);
    }

    #[test]
    fn every_byte_survives() {
        check(
            "@@memwright begin b\nAPv/fw==\n@@memwright end b\n",
            &[("b", &[0x00, 0xfb, 0xff, 0x7f])],
            false,
        );
    }

    #[test]
    fn a_frame_cut_short_is_left_out() {
        check("@@memwright begin a\nbWVt", &[], false);
    }

    #[test]
    fn what_is_no_frame_is_an_error() {
        for port in [
            "noise\n",
            "@@memwright begin a\n@@memwright end b\n",
            "@@memwright begin a\n$$$$\n@@memwright end a\n",
            "@@memwright begin a\nAAA\n@@memwright end a\n",
            "@@memwright end a\n",
        ] {
            assert!(parse(port).is_err(), "{port:?}");
        }
    }
}
