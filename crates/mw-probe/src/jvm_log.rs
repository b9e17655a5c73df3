//! The last pauses of a Java virtual machine, from the log of its garbage collector (`-Xlog:gc,safepoint`).

use mw_model::{ServiceEvent, ServiceView};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// What is read of the end of the log.
const TAIL_BYTES: u64 = 64 << 10;
/// The most pauses.
const MAX_PAUSES: usize = 5;

/// The latest pauses that the log tells of.
pub(crate) fn view(path: &Path) -> std::io::Result<ServiceView> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let events = pauses(&String::from_utf8_lossy(&tail));
    Ok(ServiceView { source: path.display().to_string(), events, ..ServiceView::default() })
}

/// The last lines that tell of a pause, the latest first.
fn pauses(log: &str) -> Vec<ServiceEvent> {
    let is_pause = |line: &&str| {
        ["Pause", "Safepoint", "safepoint", "threads were stopped"]
            .iter()
            .any(|word| line.contains(word))
    };
    let event = |line: &str| ServiceEvent {
        source: "GC log".to_owned(),
        at_unix_ms: None,
        took_ms: took_ms(line),
        text: crate::view::plain(line),
    };
    log.lines().rev().filter(is_pause).take(MAX_PAUSES).map(event).collect()
}

/// `… Pause Young (Normal) 24M->4M(256M) 3.456ms`, `… Total: 123456 ns`, `… stopped: 0.0001234 seconds`.
fn took_ms(line: &str) -> Option<f64> {
    if let Some(number) = line.trim_end().strip_suffix("ms") {
        return number.rsplit([' ', '\t']).next()?.parse().ok();
    }
    let number_behind =
        |word: &str| line.split_once(word)?.1.split_ascii_whitespace().next()?.parse::<f64>().ok();
    number_behind("Total:")
        .map(|ns| ns / 1e6)
        .or_else(|| number_behind("were stopped:").map(|seconds| seconds * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_read() {
        let log = "[0.5s][info][gc] Using G1\n\
            [1.2s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms\n\
            [2.0s][info][safepoint] Safepoint \"G1CollectForAllocation\", Time since last: 7 ns, \
            Reaching safepoint: 1 ns, At safepoint: 2 ns, Total: 5000000 ns\n\
            3.1: Total time for which application threads were stopped: 0.0500000 seconds, x\n";
        let took: Vec<_> = pauses(log).into_iter().map(|pause| pause.took_ms.unwrap()).collect();
        assert_eq!(took, [50.0, 5.0, 3.456]);
        assert!(pauses("nothing\n").is_empty());
    }

    #[test]
    fn the_end_of_a_long_log_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gc.log");
        let lines: String =
            (0..5000).map(|n| format!("[{n}s] GC({n}) Pause Full {n}.0ms\n")).collect();
        std::fs::write(&path, lines).unwrap();
        let view = view(&path).unwrap();
        assert_eq!(view.events.len(), MAX_PAUSES);
        assert_eq!(view.events[0].took_ms, Some(4999.0));
    }
}
