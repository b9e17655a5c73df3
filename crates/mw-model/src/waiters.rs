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
    /// A program with this share of the pages that entered the page cache is one of those that fill it.
    const STREAMER_PERCENT: u64 = 10;
    /// Of such a program, a process that brought less than this share of the pages does not fill it.
    const PROCESS_PERCENT: u64 = 1;
    /// Fewer pages a second fill no page cache.
    const FLOOD_PAGES_PER_S: u64 = 2_560;

    /// The time that processes waited for memory that others used up, in percent of the span: the waits of all but those
    /// that fill the page cache; where none does, of all but the longest waiter, which may use memory up by itself.
    pub fn others_percent(&self) -> f64 {
        let longest = self.processes.iter().max_by_key(|process| process.waited_us);
        let longest = longest.map(|process| process.pid);
        let is_flooded = self.cached_per_s() >= Self::FLOOD_PAGES_PER_S;
        let others = self.processes.iter().filter(|process| match is_flooded {
            true => !self.fills_page_cache(process),
            false => Some(process.pid) != longest,
        });
        let waited_us: u64 = others.map(|process| process.waited_us).sum();
        waited_us as f64 * 100.0 / self.span_us.max(1) as f64
    }

    /// Names are for programs of many processes; a process that borrows one still has to fill the cache itself.
    fn fills_page_cache(&self, process: &Waiter) -> bool {
        let all = self.cached_pages(|_| true);
        let of_program = self.cached_pages(|other| other.name == process.name);
        let is_share =
            |pages: u64, percent: u64| pages.saturating_mul(100) >= all.saturating_mul(percent);
        is_share(of_program, Self::STREAMER_PERCENT)
            && is_share(process.cached_pages, Self::PROCESS_PERCENT)
    }

    fn cached_pages(&self, is_counted: impl Fn(&Waiter) -> bool) -> u64 {
        let counted = self.processes.iter().filter(|process| is_counted(process));
        counted.map(|process| process.cached_pages).sum()
    }

    fn cached_per_s(&self) -> u64 {
        self.cached_pages(|_| true).saturating_mul(1_000_000) / self.span_us.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, waited_ms: u64, cached_pages: u64) -> Waiter {
        Waiter { pid, name: pid.to_string(), waited_us: waited_ms * 1000, cached_pages }
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
    fn without_a_flood_the_longest_waiter_uses_memory_up() {
        assert!(others(&[process(1, 600, 0)]).abs() < 1e-9);
        assert!((others(&[process(1, 600, 0), process(2, 200, 0)]) - 20.0).abs() < 1e-9);
        assert!(others(&[]).abs() < 1e-9);
        // One that allocates, beside a logger that writes a little.
        assert!(others(&[process(1, 600, 0), process(2, 5, 64)]) < 1.0);
    }

    #[test]
    fn a_job_of_many_readers_waits_for_itself() {
        let readers: Vec<Waiter> =
            (1..=20).map(|pid| named(process(pid, 50, 10_000), "job")).collect();
        assert!(others(&readers).abs() < 1e-9);
        // Its name does not hide one that reads next to nothing.
        let victim = named(process(99, 40, 100), "job");
        assert!((others(&[readers, vec![victim]].concat()) - 4.0).abs() < 1e-9);
    }

    fn named(process: Waiter, name: &str) -> Waiter {
        Waiter { name: name.to_owned(), ..process }
    }
}
