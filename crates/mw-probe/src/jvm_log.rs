//! The last pauses of a Java virtual machine, from the log of its garbage collector (`-Xlog:gc,safepoint`).

use mw_model::{ServiceEvent, ServiceView};
use mw_sys::guarded::{ReadLimits, read_tail};
use std::path::Path;
use std::time::Duration;

/// Bytes that are read of the end of the log.
const TAIL_BYTES: u64 = 64 << 10;
/// The most pauses.
const MAX_PAUSES: usize = 5;

/// The latest pauses in the log, which belongs to the service's user; takes `time` at most, longer by one call where
/// its file system does not respond.
pub(crate) fn view(path: &Path, time: Duration) -> std::io::Result<ServiceView> {
    let tail = read_tail(path, ReadLimits { bytes: TAIL_BYTES, time })?;
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

    /// The service's user owns the directory, and may put anything in place of the log.
    #[test]
    fn what_is_no_log_is_neither_waited_for_nor_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, sparse) = (folder.path().join("fifo"), folder.path().join("sparse"));
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let time = Duration::from_secs(5);
        assert_eq!(view(&fifo, time).unwrap_err().to_string(), "not a regular file");
        assert_eq!(
            view(Path::new("/dev/zero"), time).unwrap_err().to_string(),
            "not a regular file"
        );
        std::fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
        assert!(view(&sparse, time).unwrap().events.is_empty());
    }

    #[test]
    fn the_end_of_a_long_log_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gc.log");
        let lines: String =
            (0..5000).map(|n| format!("[{n}s] GC({n}) Pause Full {n}.0ms\n")).collect();
        std::fs::write(&path, lines).unwrap();
        let view = view(&path, Duration::from_secs(5)).unwrap();
        assert_eq!(view.events.len(), MAX_PAUSES);
        assert_eq!(view.events[0].took_ms, Some(4999.0));
    }
}
