//! Who waits for memory, told from who uses it up.

/// The processes that waited in direct reclaim and compaction over a span of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiters {
    pub span_us: u64,
    pub processes: Vec<Waiter>,
}

/// A process that waited for memory, filled the page cache, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiter {
    pub pid: u32,
    pub name: String,
    /// The waits of all its threads together, in microseconds.
    pub waited_us: u64,
    /// Pages that it brought into the page cache.
    pub cached_pages: u64,
}

impl Waiters {
    /// A process with this share of the pages that entered the page cache is one of those that fill it.
    const STREAMER_PERCENT: u64 = 10;

    /// The time that processes waited for memory that others used up, in percent of the span: the waits of all but those
    /// that fill the page cache. Where none does, the longest waiter is the one that uses memory up.
    pub fn others_percent(&self) -> f64 {
        let cached: u64 = self.processes.iter().map(|process| process.cached_pages).sum();
        let longest = self.processes.iter().max_by_key(|process| process.waited_us);
        let uses_up = |process: &Waiter| match cached {
            0 => longest.is_some_and(|longest| longest.pid == process.pid),
            _ => {
                process.cached_pages.saturating_mul(100)
                    >= cached.saturating_mul(Self::STREAMER_PERCENT)
            }
        };
        let others = self.processes.iter().filter(|process| !uses_up(process));
        let waited_us: u64 = others.map(|process| process.waited_us).sum();
        waited_us as f64 * 100.0 / self.span_us.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, waited_ms: u64, cached_pages: u64) -> Waiter {
        Waiter { pid, waited_us: waited_ms * 1000, cached_pages, ..Waiter::default() }
    }

    fn others(processes: &[Waiter]) -> f64 {
        Waiters { span_us: 1_000_000, processes: processes.to_vec() }.others_percent()
    }

    #[test]
    fn the_one_that_streams_does_not_wait_for_others() {
        assert!(others(&[process(1, 600, 200_000)]).abs() < 1e-9);
        assert!((others(&[process(1, 600, 200_000), process(2, 150, 20)]) - 15.0).abs() < 1e-9);
        // Two that stream, and nobody else.
        assert!(others(&[process(1, 600, 90_000), process(2, 500, 60_000)]).abs() < 1e-9);
    }

    #[test]
    fn without_page_cache_the_longest_waiter_uses_memory_up() {
        assert!(others(&[process(1, 600, 0)]).abs() < 1e-9);
        assert!((others(&[process(1, 600, 0), process(2, 200, 0)]) - 20.0).abs() < 1e-9);
        assert!(others(&[]).abs() < 1e-9);
    }
}
