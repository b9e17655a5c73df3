//! `/proc/zoneinfo` of kernels 2.6.18 to 6.18: the zones of every node, in pages.

use std::fmt;

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most zones that are read.
pub const MAX_ZONES: usize = 4096;
/// The most `protection` values of a zone (the kernel has up to 6 zone types).
pub const MAX_PROTECTION: usize = 8;

/// The zones of all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zoneinfo {
    /// In the kernel's order: by node, lowest zone first. Kernels from 4.12 on list unpopulated
    /// zones too.
    pub zones: Vec<Zone>,
    /// True if the nodes' statistics have `pgscan_kswapd` and the like: then /proc/vmstat adds up what is counted by
    /// node and cgroup, reclaim at the limit of a cgroup included (7.1 and later).
    pub counts_scans_by_node: bool,
}

/// One zone of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Zone {
    pub node: u32,
    pub name: ZoneName,
    /// Pages in the free lists.
    pub free_pages: u64,
    /// Temporary increase of the watermarks by fragmentation; older kernels do not print it.
    pub boost_pages: Option<u64>,
    /// The watermark below which allocations reclaim themselves.
    pub min_pages: u64,
    /// The watermark below which kswapd is woken.
    pub low_pages: u64,
    /// The watermark at which kswapd sleeps again.
    pub high_pages: u64,
    /// From the zone's first page to its last, holes included.
    pub spanned_pages: u64,
    /// Pages that exist.
    pub present_pages: u64,
    /// Pages that the allocator manages (3.9 and later).
    pub managed_pages: Option<u64>,
    /// Pages reserved for contiguous allocation; older kernels do not print it.
    pub cma_pages: Option<u64>,
    /// The part of the free pages that is reserved for contiguous allocation, which only movable pages use (3.19 and
    /// later).
    pub free_cma_pages: Option<u64>,
    /// Free pages in the lists of the CPUs (`pagesets`), which `free` does not count.
    pub pcp_pages: Option<u64>,
    /// Free pages that a confidential guest has not accepted yet; they are in no free list (6.5 and
    /// later).
    pub unaccepted_pages: Option<u64>,
    /// `protection`: pages withheld from allocations that could use a higher zone; the first
    /// [`Zone::protection_len`] count.
    pub protection_pages: [u64; MAX_PROTECTION],
    /// Number of values of [`Zone::protection_pages`] that the kernel printed.
    pub protection_len: usize,
    /// Anonymous, inactive (2.6.28 and later).
    pub inactive_anon_pages: Option<u64>,
    /// Anonymous, active (2.6.28 and later).
    pub active_anon_pages: Option<u64>,
    /// Of files, inactive (2.6.28 and later).
    pub inactive_file_pages: Option<u64>,
    /// Of files, active (2.6.28 and later).
    pub active_file_pages: Option<u64>,
    /// Not reclaimable (2.6.28 and later).
    pub unevictable_pages: Option<u64>,
    /// Dirty, under writeback or unstable (4.8 and later).
    pub write_pending_pages: Option<u64>,
    /// Locked by mlock (2.6.28 and later).
    pub mlock_pages: Option<u64>,
    /// The zone's first page frame; `None` for an unpopulated zone.
    pub start_pfn: Option<u64>,
    /// 1 where kswapd has given up on the node; older kernels do not print it.
    pub unreclaimable: Option<u64>,
}

impl Zone {
    /// `protection`, by zone type of the allocation.
    #[must_use]
    pub fn protection(&self) -> &[u64] {
        self.protection_pages.get(..self.protection_len).unwrap_or_default()
    }

    /// Pages withheld from allocations that a higher zone could serve (`calculate_totalreserve_pages()`).
    #[must_use]
    pub fn reserve_pages(&self) -> u64 {
        self.protection().iter().max().copied().unwrap_or(0)
    }

    /// The high watermark without its temporary increase, which the kernel prints as part of it (`high_wmark_pages()`
    /// in include/linux/mmzone.h) and drops when kswapd has reclaimed once. Linux 5.10 does not print how much it is.
    #[must_use]
    pub fn unboosted_high_pages(&self) -> u64 {
        self.high_pages.saturating_sub(self.boost_pages.unwrap_or(0))
    }

    /// The min watermark without its temporary increase.
    #[must_use]
    pub fn unboosted_min_pages(&self) -> u64 {
        self.min_pages.saturating_sub(self.boost_pages.unwrap_or(0))
    }

    /// Free pages above the high watermark and the reserve.
    #[must_use]
    pub fn free_above_high_pages(&self) -> u64 {
        let kept = self.unboosted_high_pages().saturating_add(self.reserve_pages());
        self.free_pages.saturating_sub(kept)
    }

    /// Free pages above the min watermark and the reserve: all that an allocation can get.
    #[must_use]
    pub fn free_above_min_pages(&self) -> u64 {
        let kept = self.unboosted_min_pages().saturating_add(self.reserve_pages());
        self.free_pages.saturating_sub(kept)
    }

    /// True if the zone has any page.
    #[must_use]
    pub const fn is_populated(&self) -> bool {
        self.present_pages > 0
    }

    /// [`Zone::managed_pages`], or on older kernels [`Zone::present_pages`], the nearest figure.
    #[must_use]
    pub fn managed_or_present_pages(&self) -> u64 {
        self.managed_pages.unwrap_or(self.present_pages)
    }
}

/// A zone's name, held in place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ZoneName([u8; Self::MAX_BYTES]);

impl ZoneName {
    /// The longest name; the kernel's longest is `Movable`.
    pub const MAX_BYTES: usize = 16;

    /// The name in these bytes: 1 to 16 of printable ASCII without spaces.
    #[must_use]
    pub fn new(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::MAX_BYTES];
        let printable = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
        bytes.get_mut(..name.len()).filter(|_| printable)?.copy_from_slice(name);
        Some(Self(bytes))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(Self::MAX_BYTES);
        self.0.get(..len).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl fmt::Display for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Zoneinfo {
    /// Reads the file into this one's memory; nothing is left in it after an error.
    ///
    /// # Errors
    /// When a number is none, a zone lacks a line, or the text ends within a zone.
    pub fn parse_into(&mut self, text: &[u8]) -> Result<(), ParseError> {
        self.clear();
        let result = self.read(text);
        if result.is_err() {
            self.clear();
        }
        result
    }

    fn clear(&mut self) {
        self.zones.clear();
        self.counts_scans_by_node = false;
    }

    fn read(&mut self, text: &[u8]) -> Result<(), ParseError> {
        let mut open: Option<OpenZone> = None;
        let mut last = 1;
        for line in scan::lines(text) {
            line.whole()?;
            last = line.number;
            if line.text.starts_with(b"Node ") {
                // A node's own statistics may have a heading of their own.
                let is_zone = !line.text.ends_with(b", per-node stats");
                let next = if is_zone { Some(OpenZone::new(&line)?) } else { None };
                if let Some(zone) = std::mem::replace(&mut open, next) {
                    self.push(zone, &line)?;
                }
            } else {
                self.counts_scans_by_node |=
                    line.text.trim_ascii_start().starts_with(SCANS_BY_NODE);
                if let Some(zone) = &mut open {
                    zone.read(&line)?;
                }
            }
        }
        match open {
            // The last line of a populated zone is start_pfn: without it the text was cut.
            Some(zone) if zone.is_complete() => self.zones.push(zone.zone),
            None if self.zones.is_empty() => return Err(ParseError::new(last, Problem::Empty)),
            _ => return Err(ParseError::new(last, Problem::Truncated)),
        }
        Ok(())
    }

    fn push(&mut self, zone: OpenZone, next: &Line<'_>) -> Result<(), ParseError> {
        if !zone.is_complete() {
            return Err(next.error(Problem::Expected("the rest of the zone")));
        }
        // The last zone is pushed without a check of the limit.
        if self.zones.len() >= MAX_ZONES.saturating_sub(1) {
            return Err(next.error(Problem::TooMany("zones")));
        }
        self.zones.push(zone.zone);
        Ok(())
    }
}

const SCANS_BY_NODE: &[u8] = b"pgscan_kswapd ";

/// A zone that is being read.
struct OpenZone {
    zone: Zone,
    /// One bit for each of the lines that every kernel prints.
    seen: u8,
    /// True if `pages free` came: the node's statistics precede it, which are not the zone's.
    within: bool,
}

const FREE: u8 = 1;
const MIN: u8 = 2;
const LOW: u8 = 4;
const HIGH: u8 = 8;
const SPANNED: u8 = 16;
const PRESENT: u8 = 32;
const PROTECTION: u8 = 64;
const ALL: u8 = 127;

impl OpenZone {
    fn new(line: &Line<'_>) -> Result<Self, ParseError> {
        let (node, name, _) = line.at(zone_head(line.text))?;
        let zone = Zone { node, name, ..Zone::default() };
        Ok(Self { zone, seen: 0, within: false })
    }

    const fn is_complete(&self) -> bool {
        self.seen == ALL && (self.zone.start_pfn.is_some() || !self.zone.is_populated())
    }

    fn read(&mut self, line: &Line<'_>) -> Result<(), ParseError> {
        let (name, rest) = scan::first_field(line.text);
        match name {
            b"pages" => {
                let (name, rest) = scan::first_field(rest);
                if name == b"free" {
                    self.within = true;
                    self.seen |= FREE;
                    self.zone.free_pages = number(line, rest)?;
                }
            }
            b"protection:" => {
                self.seen |= PROTECTION;
                line.at(self.zone.read_protection(rest))?;
            }
            _ if self.within => self.read_value(line, name, rest)?,
            _ => {}
        }
        Ok(())
    }

    fn read_value(&mut self, line: &Line<'_>, name: &[u8], rest: &[u8]) -> Result<(), ParseError> {
        let zone = &mut self.zone;
        if name == b"count:" {
            let before = zone.pcp_pages.unwrap_or(0);
            zone.pcp_pages = Some(before.saturating_add(number(line, rest)?));
            return Ok(());
        }
        // Until 4.7 the zones counted what the nodes count now, without `zone_` in the name.
        let optional = match name {
            b"min" => return self.require(line, rest, MIN),
            b"low" => return self.require(line, rest, LOW),
            b"high" => return self.require(line, rest, HIGH),
            b"spanned" => return self.require(line, rest, SPANNED),
            b"present" => return self.require(line, rest, PRESENT),
            b"boost" => &mut zone.boost_pages,
            b"managed" => &mut zone.managed_pages,
            b"cma" => &mut zone.cma_pages,
            b"nr_zone_inactive_anon" | b"nr_inactive_anon" => &mut zone.inactive_anon_pages,
            b"nr_zone_active_anon" | b"nr_active_anon" => &mut zone.active_anon_pages,
            b"nr_zone_inactive_file" | b"nr_inactive_file" => &mut zone.inactive_file_pages,
            b"nr_zone_active_file" | b"nr_active_file" => &mut zone.active_file_pages,
            b"nr_zone_unevictable" | b"nr_unevictable" => &mut zone.unevictable_pages,
            b"nr_zone_write_pending" => &mut zone.write_pending_pages,
            b"nr_free_cma" => &mut zone.free_cma_pages,
            b"nr_unaccepted" => &mut zone.unaccepted_pages,
            b"nr_mlock" => &mut zone.mlock_pages,
            b"start_pfn:" => &mut zone.start_pfn,
            b"node_unreclaimable:" => &mut zone.unreclaimable,
            _ => return Ok(()),
        };
        *optional = Some(number(line, rest)?);
        Ok(())
    }

    fn require(&mut self, line: &Line<'_>, rest: &[u8], bit: u8) -> Result<(), ParseError> {
        let value = number(line, rest)?;
        let slot = match bit {
            MIN => &mut self.zone.min_pages,
            LOW => &mut self.zone.low_pages,
            HIGH => &mut self.zone.high_pages,
            SPANNED => &mut self.zone.spanned_pages,
            _ => &mut self.zone.present_pages,
        };
        *slot = value;
        self.seen |= bit;
        Ok(())
    }
}

impl Zone {
    /// Reads `(0, 3019, 4171)`.
    fn read_protection(&mut self, text: &[u8]) -> Result<(), Problem> {
        let list = text.trim_ascii().strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
        let list = list.ok_or(Problem::Expected("(protection)"))?;
        self.protection_len = 0;
        for item in list.split(|&byte| byte == b',') {
            let slot = self.protection_pages.get_mut(self.protection_len);
            *slot.ok_or(Problem::TooMany("protection values"))? =
                scan::parse_u64(item.trim_ascii())?;
            self.protection_len = self.protection_len.saturating_add(1);
        }
        Ok(())
    }
}

/// `Node 0, zone   Normal` and what comes behind it, as all files that list zones begin a line.
pub(crate) fn zone_head(text: &[u8]) -> Result<(u32, ZoneName, &[u8]), Problem> {
    let head = text.strip_prefix(b"Node ").ok_or(Problem::Expected("Node"))?;
    let (node, rest) = scan::split_once(head, b',').ok_or(Problem::Expected("a comma"))?;
    let (word, rest) = scan::first_field(rest);
    if word != b"zone" {
        return Err(Problem::Expected("zone"));
    }
    let (name, rest) = scan::first_field(rest);
    let name = ZoneName::new(name).ok_or(Problem::Expected("a zone name"))?;
    Ok((scan::parse_u32(node.trim_ascii())?, name, rest))
}

fn number(line: &Line<'_>, text: &[u8]) -> Result<u64, ParseError> {
    line.at(scan::parse_u64(text.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = include_bytes!("../tests/data/zoneinfo");
    /// CentOS 5: no `managed`, the values behind the statistics, `active` and `inactive` by zone.
    const V2_6_18: &[u8] = b"Node 0, zone      DMA
  pages free     2753
        min      1
        low      1
        high     1
        active   0
        inactive 0
        scanned  0 (a: 11 i: 12)
        spanned  4096
        present  2638
    nr_anon_pages 0
    nr_mapped    1
    nr_file_pages 0
    nr_slab      0
        protection: (0, 3254, 24464, 24464)
  pagesets
  all_unreclaimable: 1
  prev_priority:     12
  start_pfn:         0
Node 1, zone   Normal
  pages free     123456
        min      5430
        low      6787
        high     8145
        active   2000000
        inactive 900000
        scanned  0 (a: 0 i: 0)
        spanned  6291456
        present  6205440
    nr_anon_pages 33333
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0 pcp: 0
              count: 58
              high:  186
              batch: 31
  vm stats threshold: 60
  all_unreclaimable: 0
  prev_priority:     12
  start_pfn:         6291456
";
    /// CentOS 7: the statistics of a zone still carry the old names.
    const V3_10: &[u8] = b"Node 0, zone   Normal
  pages free     11111
        min      22
        low      27
        high     33
        scanned  0
        spanned  262144
        present  262144
        managed  239447
    nr_free_pages 11111
    nr_alloc_batch 6
    nr_inactive_anon 71
    nr_active_anon 72
    nr_inactive_file 73
    nr_active_file 74
    nr_unevictable 75
    nr_mlock     76
        protection: (0, 0, 0, 0)
  pagesets
    cpu: 0
              count: 159
              high:  186
              batch: 31
  vm stats threshold: 24
  all_unreclaimable: 0
  start_pfn:         1048576
  inactive_ratio:    1
";

    fn zones(text: &[u8]) -> Vec<Zone> {
        let mut info = Zoneinfo::default();
        info.parse_into(text).unwrap();
        info.zones
    }

    #[test]
    fn newest() {
        let zones = zones(V6_18);
        let names: Vec<_> = zones.iter().map(|zone| zone.name.to_string()).collect();
        assert_eq!(names, ["DMA", "DMA32", "Normal", "Movable", "Device"]);
        let normal = zones[2];
        assert_eq!((normal.free_pages, normal.boost_pages), (2_254_483, Some(0)));
        assert_eq!(
            (normal.min_pages, normal.low_pages, normal.high_pages),
            (12_918, 16_147, 19_376)
        );
        assert_eq!((normal.spanned_pages, normal.present_pages), (5_505_024, 5_505_024));
        assert_eq!((normal.managed_pages, normal.cma_pages), (Some(2_523_136), Some(0)));
        assert_eq!(normal.pcp_pages, Some(87_836 + 88_016), "of two CPUs");
        assert_eq!((normal.inactive_anon_pages, normal.mlock_pages), (Some(1999), Some(3535)));
        assert_eq!((normal.write_pending_pages, normal.unevictable_pages), (Some(47), Some(3766)));
        assert_eq!((normal.start_pfn, normal.unreclaimable), (Some(1_048_576), Some(0)));
        assert_eq!(zones[0].protection(), [0, 3019, 12_875, 12_875, 12_875]);
        // The node's own statistics are in its first zone.
        assert_eq!(zones[0].inactive_anon_pages, Some(0));
        assert!(!zones[3].is_populated());
        assert_eq!((zones[3].min_pages, zones[3].start_pfn), (32, None));
    }

    #[test]
    fn oldest() {
        let zones = zones(V2_6_18);
        assert_eq!((zones[1].node, zones[1].name.as_str()), (1, "Normal"));
        assert_eq!((zones[1].managed_pages, zones[1].inactive_anon_pages), (None, None));
        assert_eq!(zones[1].managed_or_present_pages(), 6_205_440);
        assert_eq!(zones[1].high_pages, 8145);
        assert_eq!(zones[0].protection(), [0, 3254, 24_464, 24_464]);
    }

    #[test]
    fn names_without_zone() {
        let zone = zones(V3_10)[0];
        assert_eq!((zone.inactive_anon_pages, zone.active_anon_pages), (Some(71), Some(72)));
        assert_eq!((zone.inactive_file_pages, zone.active_file_pages), (Some(73), Some(74)));
        assert_eq!((zone.unevictable_pages, zone.mlock_pages), (Some(75), Some(76)));
        assert_eq!(zone.managed_pages, Some(239_447));
    }

    #[test]
    fn statistics_of_a_node_by_themselves() {
        let heading = b"Node 0, per-node stats\n      nr_inactive_anon 874\n";
        assert_eq!(zones(&[&heading[..], V3_10, heading, V3_10].concat()).len(), 2);
        assert_eq!(problem(heading), Problem::Empty);
        assert_eq!(problem(&[V3_10, &heading[..]].concat()), Problem::Truncated);
    }

    #[test]
    fn nodes_count_scans_from_7_1_on() {
        let by_node = |statistics: &str| {
            let text = [b"Node 0, per-node stats\n", statistics.as_bytes(), V3_10].concat();
            let mut info = Zoneinfo::default();
            info.parse_into(&text).unwrap();
            info.counts_scans_by_node
        };
        assert!(by_node("      nr_dirtied 4\n      pgscan_kswapd 12\n"));
        assert!(!by_node("      nr_dirtied 4\n"));
    }

    fn problem(text: &[u8]) -> Problem {
        let mut info = Zoneinfo { zones: vec![Zone::default()], ..Zoneinfo::default() };
        let problem = info.parse_into(text).unwrap_err().problem;
        assert_eq!(info.zones, []);
        problem
    }

    #[test]
    fn wrong() {
        let replaced = |from: &str, to: &str| {
            problem(String::from_utf8_lossy(V2_6_18).replacen(from, to, 1).as_bytes())
        };
        assert_eq!(problem(b""), Problem::Empty);
        assert_eq!(problem(b"nothing\n"), Problem::Empty);
        assert_eq!(replaced("Node 0", "Node x"), Problem::NotANumber);
        assert_eq!(replaced("DMA", "ANameOfSeventeen17"), Problem::Expected("a zone name"));
        assert_eq!(replaced("2753", "-1"), Problem::NotANumber);
        assert_eq!(replaced("(0", "0"), Problem::Expected("(protection)"));
        assert_eq!(replaced("(0", "(0,0,0,0,0,0"), Problem::TooMany("protection values"));
        assert_eq!(replaced("spanned", "banned"), Problem::Expected("the rest of the zone"));
        let many = V2_6_18.repeat(MAX_ZONES / 2 + 1);
        assert_eq!(problem(&many), Problem::TooMany("zones"));
        assert_eq!(zones(&V2_6_18.repeat(MAX_ZONES / 2)).len(), MAX_ZONES);
    }

    #[test]
    fn a_cut_text_yields_whole_zones_or_none() {
        for text in [V6_18, V2_6_18] {
            let full = zones(text);
            for end in 0..text.len() {
                let mut info = Zoneinfo::default();
                match info.parse_into(&text[..end]) {
                    Ok(()) => assert_eq!(info.zones, full[..info.zones.len()], "{end}"),
                    Err(error) => assert!(
                        matches!(error.problem, Problem::Truncated | Problem::Empty),
                        "{end}: {error}"
                    ),
                }
            }
        }
    }

    #[test]
    fn names_compare_as_text() {
        let name = |text: &str| ZoneName::new(text.as_bytes()).unwrap();
        assert!(name("DMA") < name("DMA32") && name("DMA32") < name("Normal"));
        assert_eq!(format!("{:>8}|{:?}", name("DMA"), name("DMA")), "     DMA|\"DMA\"");
        assert_eq!(name("0123456789abcdef").as_str().len(), 16);
        assert_eq!((ZoneName::new(b""), ZoneName::new(b"\xff")), (None, None));
    }
}
