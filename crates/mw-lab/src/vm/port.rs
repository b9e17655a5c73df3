//! Follows the guest's second serial port while the guest runs: its current step, and whether it is done.
//! The frames are decoded at the end (frames.rs).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::LabError;
use crate::vm::frames;

/// A step that the guest announced.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct GuestStep {
    /// Such as `during/check`.
    pub name: String,
    /// Since the start of the machine.
    #[serde(rename = "at_s", serialize_with = "as_seconds")]
    pub at: Duration,
}

fn as_seconds<S: serde::Serializer>(at: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64((at.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Bounds what a guest can make the host store.
const MAX_STEPS: usize = 1000;

pub(crate) struct Port {
    path: PathBuf,
    file: Option<File>,
    /// A line whose end has not arrived.
    begun: Vec<u8>,
    /// From power-on to the guest's first byte.
    pub(crate) boot: Option<Duration>,
    pub(crate) steps: Vec<GuestStep>,
    pub(crate) is_done: bool,
}

impl Port {
    pub(crate) fn new(path: &Path) -> Port {
        let path = path.to_path_buf();
        Port { path, file: None, begun: Vec::new(), boot: None, steps: Vec::new(), is_done: false }
    }

    /// Reads new data; `now` is the time since power-on.
    pub(crate) fn follow(&mut self, now: Duration) -> Result<(), LabError> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut news = Vec::new();
        file.read_to_end(&mut news).map_err(LabError::io(&self.path))?;
        self.take(&news, now);
        Ok(())
    }

    fn take(&mut self, news: &[u8], now: Duration) {
        if self.boot.is_none() && !news.is_empty() {
            self.boot = Some(now);
        }
        let mut lines = news.split(|&byte| byte == b'\n').peekable();
        while let Some(part) = lines.next() {
            self.begun.extend_from_slice(part);
            if lines.peek().is_some() {
                let line = std::mem::take(&mut self.begun);
                self.line(&line, now);
            }
        }
    }

    fn line(&mut self, line: &[u8], now: Duration) {
        let line = String::from_utf8_lossy(line);
        match frames::mark(line.trim_end()) {
            Some("done") => self.is_done = true,
            Some(mark) if self.steps.len() < MAX_STEPS => {
                let name = mark.strip_prefix("at ").map(str::to_owned);
                self.steps.extend(name.map(|name| GuestStep { name, at: now }));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_the_end_are_seen_however_the_bytes_come() {
        let sent = b"@@memwright at setup\r\n@@memwright begin a\nAAAA\n@@memwright end a\n\
                     @@memwright at make\n@@memwright done\n";
        for size in [1, 7, 1000] {
            let mut port = Port::new(Path::new("/nowhere"));
            for (number, part) in sent.chunks(size).enumerate() {
                assert!(!port.is_done);
                port.take(part, Duration::from_secs(number as u64));
            }
            let names: Vec<&str> = port.steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names, ["setup", "make"]);
            assert!(port.is_done && port.boot == Some(Duration::ZERO));
        }
    }

    #[test]
    fn no_guest_is_remembered_without_end() {
        let mut port = Port::new(Path::new("/nowhere"));
        port.take("@@memwright at x\n".repeat(MAX_STEPS * 2).as_bytes(), Duration::ZERO);
        assert_eq!(port.steps.len(), MAX_STEPS);
    }

    #[test]
    fn a_port_that_is_not_there_yet_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames");
        let mut port = Port::new(&path);
        port.follow(Duration::ZERO).unwrap();
        assert_eq!(port.boot, None);
        std::fs::write(&path, "@@memwright done\n").unwrap();
        port.follow(Duration::from_secs(1)).unwrap();
        assert!(port.is_done && port.boot == Some(Duration::from_secs(1)));
    }
}
