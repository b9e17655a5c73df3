//! Progress of an operation.

use std::fmt;
use std::time::Duration;

/// The phase of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Pages are allocated, zeroed and mapped.
    Create,
    /// Every page is verified to be populated and locked.
    Confirm,
    /// Pages are freed in parallel.
    Destroy,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Confirm => "confirm",
            Self::Destroy => "destroy",
        })
    }
}

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Bytes of this phase that are completed.
    pub done_bytes: usize,
    /// Bytes of this phase in total.
    pub total_bytes: usize,
    /// Time since the phase started.
    pub elapsed: Duration,
}

impl Progress {
    /// Bytes per second since the phase started; none before anything is completed.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (self.done_bytes > 0 && seconds > 0.0).then(|| self.done_bytes as f64 / seconds)
    }

    /// The remaining time at that rate.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let bytes = self.total_bytes.saturating_sub(self.done_bytes) as f64;
        self.bytes_per_s().and_then(|rate| Duration::try_from_secs_f64(bytes / rate).ok())
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: usize| bytes >> 20;
        write!(f, "{} {}/{} MiB", self.phase, mib(self.done_bytes), mib(self.total_bytes))?;
        if let (Some(rate), Some(left)) = (self.bytes_per_s(), self.left()) {
            write!(
                f,
                " at {:.0} MiB/s, {:.1} s left",
                rate / f64::from(1 << 20),
                left.as_secs_f64()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left() {
        let progress = Progress {
            phase: Phase::Create,
            done_bytes: 1 << 30,
            total_bytes: 4 << 30,
            elapsed: Duration::from_secs(2),
        };
        assert_eq!(progress.left(), Some(Duration::from_secs(6)));
        assert_eq!(progress.to_string(), "create 1024/4096 MiB at 512 MiB/s, 6.0 s left");
        assert_eq!(Progress { done_bytes: 0, ..progress }.left(), None);
    }
}
