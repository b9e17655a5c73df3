//! `/proc/vmstat` of kernels 2.6.18 to 6.18, and `/sys/devices/system/node/nodeN/vmstat`.
//!
//! The kernel counts in pages or in events, as the name says. What older kernels count by zone
//! (`pgscan_kswapd_normal`) or under another name (`thp_split`) is added to one [`Counter`], so
//! that a rule uses once. Of two things the older kernels know less:
//! - before 3.5 `pgsteal_*` is kswapd's and direct reclaim together ([`Counter::Pgsteal`]), and
//!   `kswapd_steal` is kswapd's share ([`Counter::PgstealKswapd`]);
//! - before 5.9 the `workingset_*` counters are those of files alone.

use crate::error::{ParseError, Problem};
use crate::scan;

mod counter;

pub use counter::Counter;
use counter::{COUNTERS, NAMES};

const WORDS: usize = COUNTERS.div_ceil(64);

/// The counters of one reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vmstat {
    values: [u64; COUNTERS],
    present: [u64; WORDS],
}

impl Default for Vmstat {
    fn default() -> Self {
        Self { values: [0; COUNTERS], present: [0; WORDS] }
    }
}

impl Vmstat {
    /// The value of a counter; `None` when this kernel does not have it.
    #[must_use]
    pub fn get(&self, counter: Counter) -> Option<u64> {
        let (word, bit) = place(counter);
        let present = self.present.get(word).is_some_and(|word| word & bit != 0);
        self.values.get(counter as usize).copied().filter(|_| present)
    }

    /// Sets a counter, or takes it away: for recordings and tests.
    pub fn set(&mut self, counter: Counter, value: Option<u64>) {
        let (word, bit) = place(counter);
        if let Some(word) = self.present.get_mut(word) {
            *word = if value.is_some() { *word | bit } else { *word & !bit };
        }
        if let Some(slot) = self.values.get_mut(counter as usize) {
            *slot = value.unwrap_or(0);
        }
    }

    /// The counters that this kernel has, in the order of [`Counter::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().filter_map(|&counter| Some((counter, self.get(counter)?)))
    }

    /// Reads the file into this one's memory; nothing is left in it after an error.
    ///
    /// # Errors
    /// When a known counter has no number, no counter is known, or the text ends within a line.
    pub fn parse_into(&mut self, text: &[u8]) -> Result<(), ParseError> {
        *self = Self::default();
        let result = self.read(text);
        if result.is_err() {
            *self = Self::default();
        }
        result
    }

    /// Lines come in a stable order, so that mostly the name behind the last one found is next:
    /// a comparison then does for the lookup and for the search of the name's end.
    fn read(&mut self, text: &[u8]) -> Result<(), ParseError> {
        let mut rest = text;
        let mut expected = 0;
        let mut number = 0_usize;
        while !rest.is_empty() {
            number = number.saturating_add(1);
            let at = |problem| ParseError::new(number, problem);
            let (index, after) = match after_name(rest, expected) {
                Some(after) => (Some(expected), after),
                None => other_name(rest),
            };
            let Some((index, (_, counter))) = index.and_then(|i| Some((i, NAMES.get(i)?))) else {
                rest = after_line(after).ok_or_else(|| at(Problem::Truncated))?;
                continue;
            };
            let (value, after) = read_value(after).map_err(at)?;
            self.add(*counter, value);
            expected = index.saturating_add(1);
            rest = after;
        }
        if self.present == [0; WORDS] {
            return Err(ParseError::new(number.max(1), Problem::Expected("a counter")));
        }
        Ok(())
    }

    fn add(&mut self, counter: Counter, value: u64) {
        let (word, bit) = place(counter);
        if let Some(word) = self.present.get_mut(word) {
            *word |= bit;
        }
        if let Some(slot) = self.values.get_mut(counter as usize) {
            *slot = slot.saturating_add(value);
        }
    }
}

const fn place(counter: Counter) -> (usize, u64) {
    let index = counter as usize;
    (index >> 6, 1 << (index & 63))
}

/// The text behind `name ` if the text begins with the name at `index`.
fn after_name(text: &[u8], index: usize) -> Option<&[u8]> {
    text.strip_prefix(NAMES.get(index)?.0.as_bytes())?.strip_prefix(b" ")
}

/// The place of any other name, and what follows it.
fn other_name(text: &[u8]) -> (Option<usize>, &[u8]) {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (name, after) = text.split_at_checked(end).unwrap_or((text, b""));
    (counter::lookup(name), after)
}

fn after_line(text: &[u8]) -> Option<&[u8]> {
    scan::split_once(text, b'\n').map(|(_, rest)| rest)
}

/// The number up to the end of the line, and the next line.
fn read_value(text: &[u8]) -> Result<(u64, &[u8]), Problem> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if let Some((digits, [b'\n', rest @ ..])) = text.split_at_checked(digits) {
        return Ok((scan::parse_u64(digits)?, rest));
    }
    let (value, rest) = scan::split_once(text, b'\n').ok_or(Problem::Truncated)?;
    Ok((scan::parse_u64(value.trim_ascii())?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = include_bytes!("../tests/data/vmstat");
    /// CentOS 5: one `nr_slab`, the reclaim counters by zone, no free pages.
    const V2_6_18: &[u8] = b"nr_anon_pages 66816
nr_mapped 8129279
nr_file_pages 10851283
nr_slab 734724
nr_page_table_pages 19636
nr_dirty 113
nr_writeback 0
nr_unstable 0
nr_bounce 0
numa_hit 1
numa_miss 2
pgpgin 3
pgalloc_dma 4
pgalloc_dma32 5
pgalloc_normal 6
pgalloc_high 7
pgsteal_dma 10
pgsteal_dma32 20
pgsteal_normal 30
pgsteal_high 0
pgscan_kswapd_dma 100
pgscan_kswapd_dma32 200
pgscan_kswapd_normal 300
pgscan_kswapd_high 0
pgscan_direct_dma 1000
pgscan_direct_dma32 2000
pgscan_direct_normal 3000
pgscan_direct_high 0
pginodesteal 66
slabs_scanned 67
kswapd_steal 45
kswapd_inodesteal 8
pageoutrun 9
allocstall 10
pgrotated 11
";
    /// CentOS 7.
    const V3_10: &[u8] = b"nr_free_pages 11
nr_alloc_batch 12
pgsteal_kswapd_dma 1
pgsteal_kswapd_dma32 2
pgsteal_kswapd_normal 3
pgsteal_kswapd_movable 0
pgsteal_direct_dma32 4
pgsteal_direct_normal 5
pgscan_kswapd_normal 6
pgscan_direct_normal 7
pgscan_direct_throttle 8
zone_reclaim_failed 335000
thp_split 9
";

    fn vmstat(text: &[u8]) -> Vmstat {
        let mut vmstat = Vmstat::default();
        vmstat.parse_into(text).unwrap();
        vmstat
    }

    #[track_caller]
    fn check(text: &[u8], expected: &[(Counter, Option<u64>)]) {
        let vmstat = vmstat(text);
        for &(counter, value) in expected {
            assert_eq!(vmstat.get(counter), value, "{}", counter.name());
        }
    }

    #[test]
    fn newest_is_known_whole() {
        let vmstat = vmstat(V6_18);
        for line in scan::lines(V6_18) {
            let (name, value) = scan::split_once(line.text, b' ').unwrap();
            let (_, counter) = NAMES[counter::lookup(name).unwrap()];
            if counter.name().as_bytes() == name {
                assert_eq!(vmstat.get(counter), scan::parse_u64(value).ok(), "{}", counter.name());
            }
        }
        let sum = |prefix: &[u8]| -> u64 {
            let lines = scan::lines(V6_18).filter(|line| line.text.starts_with(prefix));
            lines.map(|line| scan::parse_u64(scan::first_field(line.text).1).unwrap()).sum()
        };
        assert_eq!(vmstat.get(Counter::Pgalloc), Some(sum(b"pgalloc_")));
        assert_eq!(vmstat.get(Counter::Allocstall), Some(sum(b"allocstall_")));
        assert_eq!(vmstat.get(Counter::NrSlab), None);
    }

    #[test]
    fn oldest() {
        check(
            V2_6_18,
            &[
                (Counter::NrFreePages, None),
                (Counter::NrSlab, Some(734_724)),
                (Counter::Pgalloc, Some(22)),
                (Counter::Pgsteal, Some(60)),
                (Counter::PgstealKswapd, Some(45)),
                (Counter::PgstealDirect, None),
                (Counter::PgscanKswapd, Some(600)),
                (Counter::PgscanDirect, Some(6000)),
                (Counter::Allocstall, Some(10)),
                (Counter::Pgrotated, Some(11)),
            ],
        );
    }

    #[test]
    fn folded() {
        check(
            V3_10,
            &[
                (Counter::PgstealKswapd, Some(6)),
                (Counter::PgstealDirect, Some(9)),
                (Counter::PgscanKswapd, Some(6)),
                (Counter::PgscanDirect, Some(7)),
                (Counter::PgscanDirectThrottle, Some(8)),
                (Counter::ZoneReclaimFailed, Some(335_000)),
                (Counter::ThpSplitPage, Some(9)),
            ],
        );
        check(
            b"workingset_refault 1\nallocstall_normal 18446744073709551615\nallocstall_dma 1\n",
            &[
                (Counter::WorkingsetRefaultFile, Some(1)),
                (Counter::WorkingsetRefaultAnon, None),
                (Counter::Allocstall, Some(u64::MAX)),
            ],
        );
    }

    #[test]
    fn any_order_reads_the_same() {
        let mut lines: Vec<_> = V6_18.split_inclusive(|&byte| byte == b'\n').collect();
        lines.reverse();
        lines.insert(3, b"nr_of_the_future 7 and more\n");
        assert_eq!(vmstat(&lines.concat()), vmstat(V6_18));
    }

    #[test]
    fn a_second_reading_forgets_the_first() {
        let mut vmstat = vmstat(V6_18);
        vmstat.parse_into(b"oom_kill  3 \r\n").unwrap();
        assert_eq!(vmstat.iter().collect::<Vec<_>>(), [(Counter::OomKill, 3)]);
        vmstat.set(Counter::OomKill, None);
        assert_eq!(vmstat, Vmstat::default());
        vmstat.set(Counter::NrUnstable, Some(4));
        assert_eq!(vmstat.get(Counter::NrUnstable), Some(4));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        let mut vmstat = vmstat(V6_18);
        assert_eq!(vmstat.parse_into(text), Err(ParseError::new(line, problem)));
        assert_eq!(vmstat, Vmstat::default());
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Expected("a counter"));
        refuse(b"a 1\nb 2\n", 2, Problem::Expected("a counter"));
        refuse(b"nr_free_pages 1\noom_kill x\n", 2, Problem::NotANumber);
        refuse(b"nr_free_pages 1\noom_kill\n", 2, Problem::Empty);
        refuse(b"nr_free_pages -1\n", 1, Problem::NotANumber);
        refuse(b"nr_free_pages 18446744073709551616\n", 1, Problem::Overflow);
        refuse(b"nr_free_pages 12", 1, Problem::Truncated);
        refuse(b"nr_free_pages 12\noom_", 2, Problem::Truncated);
    }
}
