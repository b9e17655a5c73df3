//! Lines of Mem-Info: counters, zones, free lists, pools, caches. Old kernels print a line in several pieces, and pastes fold
//! them: what follows continues what was begun.

use crate::report::{
    BlockCount, FreeList, MAX_ROWS, ReportMemory, ReportPool, ReportZone, SlabRow, zone_kind,
};
use mw_proc::oom_lines::kib;

/// The part of Mem-Info that the next tokens continue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum MemorySection {
    #[default]
    Outside,
    Counters,
    Zone,
    /// A zone that was there before, of another report at the same time.
    OtherZone,
    Node,
    Reserve,
    FreeList,
    Slabs,
    Allocations,
}

/// Position within Mem-Info.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryCursor {
    section: MemorySection,
    node: u32,
}

/// Counters of Mem-Info in pages.
const COUNTERS: [&str; 23] = [
    "active_anon",
    "inactive_anon",
    "isolated_anon",
    "active_file",
    "inactive_file",
    "isolated_file",
    "unevictable",
    "dirty",
    "writeback",
    "unstable",
    "slab_reclaimable",
    "slab_unreclaimable",
    "kernel_misc_reclaimable",
    "mapped",
    "shmem",
    "pagetables",
    "sec_pagetables",
    "bounce",
    "free",
    "free_pcp",
    "free_cma",
    // Up to 2.6.27.
    "active",
    "slab",
];

/// Values of a zone that are used.
const ZONE_KEYS: [&str; 15] = [
    "free",
    "boost",
    "min",
    "low",
    "high",
    "reserved_highatomic",
    "free_highatomic",
    "present",
    "managed",
    "free_cma",
    "active_file",
    "inactive_file",
    "kernel_stack",
    "slab_unreclaimable",
    "zspages",
];

/// Values of a node that are used.
const NODE_KEYS: [&str; 6] =
    ["kernel_stack", "unevictable", "shmem", "pagetables", "sec_pagetables", "anon_thp"];

impl MemoryCursor {
    /// Reads a line; false if it is none of Mem-Info.
    pub(crate) fn read(&mut self, line: &str, memory: &mut ReportMemory) -> bool {
        if let Some(rest) =
            line.strip_prefix("Mem-Info:").or_else(|| line.strip_prefix("Mem-info:"))
        {
            self.section = MemorySection::Counters;
            self.node = 0;
            counters(rest, memory);
            return true;
        }
        if total(line, memory) {
            return true;
        }
        if let Some(rest) = line.strip_prefix("Node ") {
            let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let Ok(node) = number.parse() else { return false };
            self.node = node;
            self.section = MemorySection::Outside;
            return rest.trim().is_empty() || self.of_node(rest.trim_start(), memory);
        }
        self.of_node(line, memory) || self.continuation(line, memory)
    }

    /// What follows `Node 0 `, which machines with one node may leave out.
    fn of_node(&mut self, rest: &str, memory: &mut ReportMemory) -> bool {
        if let Some(pool) = pool(rest) {
            push(&mut memory.pools, pool);
            return true;
        }
        if let Some(numbers) =
            rest.strip_prefix("lowmem_reserve[]:").or_else(|| rest.strip_prefix("protections[]:"))
        {
            if self.section == MemorySection::Zone {
                self.section = MemorySection::Reserve;
                reserve(numbers, memory);
            }
            return true;
        }
        let (name, after) = rest.split_once(' ').unwrap_or((rest, ""));
        if let Some(zone) = zone_of_list(name, after) {
            self.section = MemorySection::FreeList;
            let is_new = !memory.free_lists.iter().any(|l| l.node == self.node && l.zone == zone);
            if is_new {
                let list = FreeList { node: self.node, zone: zone.to_owned(), blocks: Vec::new() };
                push(&mut memory.free_lists, list);
                blocks(after, memory);
            } else {
                self.section = MemorySection::OtherZone;
            }
            return true;
        }
        if zone_kind(name).is_some() && after.starts_with("free:") {
            let is_new = !memory.zones.iter().any(|z| z.node == self.node && z.name == name);
            self.section = if is_new { MemorySection::Zone } else { MemorySection::OtherZone };
            if is_new {
                let zone =
                    ReportZone { node: self.node, name: name.to_owned(), ..ReportZone::default() };
                push(&mut memory.zones, zone);
                self.values(after, memory);
            }
            return true;
        }
        if rest.starts_with("active_anon:") && rest.contains("kB") {
            self.section = MemorySection::Node;
            self.values(rest, memory);
            return true;
        }
        false
    }

    /// Tokens that belong to the line before.
    fn continuation(&mut self, line: &str, memory: &mut ReportMemory) -> bool {
        match line {
            "Unreclaimable slab info:" => self.section = MemorySection::Slabs,
            "Memory allocations:" => self.section = MemorySection::Allocations,
            _ if line.starts_with("Name ") && line.ends_with("Total") => {
                self.section = MemorySection::Slabs;
            }
            _ => return self.tokens(line, memory),
        }
        true
    }

    fn tokens(&mut self, line: &str, memory: &mut ReportMemory) -> bool {
        match self.section {
            MemorySection::Slabs => slab(line, memory),
            MemorySection::Allocations => allocation(line, memory),
            MemorySection::Zone | MemorySection::Node => self.values(line, memory),
            MemorySection::OtherZone => is_values(line),
            MemorySection::Reserve => reserve(line, memory),
            MemorySection::FreeList => blocks(line, memory),
            MemorySection::Counters => counters(line, memory),
            MemorySection::Outside => {
                // A paste may begin within the counters.
                let is_counters = line.starts_with("active_anon:") && !line.contains("kB");
                if is_counters {
                    self.section = MemorySection::Counters;
                }
                is_counters && counters(line, memory)
            }
        }
    }

    /// `key:12kB` of a zone or of a node.
    fn values(&self, text: &str, memory: &mut ReportMemory) -> bool {
        let mut has_any = false;
        for (key, bytes) in values(text) {
            has_any = true;
            let node_key = NODE_KEYS.iter().find(|known| **known == key);
            match (self.section, memory.zones.last_mut()) {
                (MemorySection::Zone, Some(zone)) => {
                    if let Some(known) = ZONE_KEYS.iter().find(|known| **known == key) {
                        zone.bytes.entry(known).or_insert(bytes);
                    }
                    if key == "kernel_stack" {
                        let sum = &mut memory.kernel_stack_bytes;
                        *sum = sum.saturating_add(bytes);
                    }
                }
                (_, _) => {
                    if let Some(known) = node_key {
                        let sum = memory.node_bytes.entry(known).or_default();
                        *sum = sum.saturating_add(bytes);
                    }
                }
            }
        }
        has_any
    }
}

fn push<T>(rows: &mut Vec<T>, row: T) {
    if rows.len() < MAX_ROWS {
        rows.push(row);
    }
}

/// The zone of a free list, whose blocks may be in the next line; drivers name DMA as well, and go on with words.
fn zone_of_list<'a>(name: &'a str, after: &str) -> Option<&'a str> {
    let is_list = after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit());
    name.strip_suffix(':').filter(|zone| is_list && zone_kind(zone).is_some())
}

/// Pairs of `key:12kB`, `key: 12kB`, in bytes.
fn values(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let mut before = "";
    text.split_ascii_whitespace().filter_map(move |token| {
        let (key, number) = match token.split_once(':') {
            Some((key, "")) => {
                before = key;
                return None;
            }
            Some(pair) => pair,
            None => (std::mem::take(&mut before), token),
        };
        Some((key, kib(number)?)).filter(|(key, _)| !key.is_empty())
    })
}

fn is_values(text: &str) -> bool {
    text.split_ascii_whitespace().all(|token| {
        token.ends_with("kB") || token.ends_with(':') || token.bytes().all(|b| b.is_ascii_digit())
    })
}

/// `key:12` in pages.
fn counters(text: &str, memory: &mut ReportMemory) -> bool {
    let mut has_any = false;
    for (key, number) in text.split_ascii_whitespace().filter_map(|token| token.split_once(':')) {
        let known = COUNTERS.iter().find(|known| **known == key);
        if let (Some(known), Ok(pages)) = (known, number.parse()) {
            memory.pages.entry(known).or_insert(pages);
            has_any = true;
        }
    }
    has_any
}

fn reserve(text: &str, memory: &mut ReportMemory) -> bool {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let (Some(numbers), Some(zone)) = (numbers, memory.zones.last_mut()) else { return false };
    zone.reserve_pages.extend(numbers);
    zone.reserve_pages.truncate(8);
    true
}

/// `12*4kB (UM) 3*8kB = 72kB`.
fn blocks(text: &str, memory: &mut ReportMemory) -> bool {
    let Some(list) = memory.free_lists.last_mut() else { return false };
    let mut has_any = false;
    for token in text.split_ascii_whitespace() {
        if token == "=" {
            return true;
        }
        if let Some(types) = token.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            if let Some(last) = list.blocks.last_mut() {
                types.clone_into(&mut last.types);
                has_any = true;
            }
            continue;
        }
        let Some((count, size)) = token.split_once('*') else { return has_any };
        let (Ok(count), Some(bytes)) = (count.parse(), kib(size)) else { return has_any };
        let kib = bytes.checked_div(1024).unwrap_or_default();
        if list.blocks.len() < 32 {
            list.blocks.push(BlockCount { count, kib, types: String::new() });
        }
        has_any = true;
    }
    has_any
}

/// `hugepages_total=3 hugepages_free=3 hugepages_surp=0 hugepages_size=2048kB`.
fn pool(text: &str) -> Option<ReportPool> {
    text.starts_with("hugepages_total=").then_some(())?;
    let value = |key: &str| {
        let mut fields = text.split_ascii_whitespace().filter_map(|field| field.split_once('='));
        fields.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    Some(ReportPool {
        total: value("hugepages_total")?.parse().ok()?,
        free: value("hugepages_free")?.parse().ok()?,
        page_bytes: kib(value("hugepages_size")?)?,
    })
}

/// A name and the sizes of its objects in use and in all.
fn slab(line: &str, memory: &mut ReportMemory) -> bool {
    let mut words = line.split_ascii_whitespace().rev();
    let row = (words.next().and_then(kib), words.next().and_then(kib), words.next());
    let (Some(total_bytes), Some(_), Some(name)) = row else { return false };
    push(&mut memory.slabs, SlabRow { name: name.to_owned(), total_bytes });
    true
}

/// `1.2 GiB  12345 mm/slub.c:2297 func:alloc_slab_page`.
fn allocation(line: &str, memory: &mut ReportMemory) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (Some(number), Some(unit)) = (words.next(), words.next()) else { return false };
    let factor = match unit {
        "B" => 1.0,
        "kB" | "KiB" | "kiB" => 1024.0,
        "MB" | "MiB" => 1_048_576.0,
        "GB" | "GiB" => 1_073_741_824.0,
        "TiB" => 1_099_511_627_776.0,
        _ => return false,
    };
    let Ok(number) = number.parse::<f64>() else { return false };
    let place: Vec<&str> = words.skip(1).collect();
    push(&mut memory.allocations, ((number * factor) as u64, place.join(" ")));
    true
}

/// Lines with one number: `12 pages RAM`, `Free swap  = 12kB`.
fn total(line: &str, memory: &mut ReportMemory) -> bool {
    if let Some((name, value)) = line.split_once('=') {
        if name.trim() == "Free swap"
            && let Some(below_zero) = value.trim().strip_prefix('-')
        {
            memory.swapping_off_bytes = memory.swapping_off_bytes.or(kib(below_zero));
            memory.swap_free_bytes = memory.swap_free_bytes.or(Some(0));
            return true;
        }
        let place = match name.trim() {
            "Free swap" => &mut memory.swap_free_bytes,
            "Total swap" => &mut memory.swap_total_bytes,
            _ => return false,
        };
        *place = place.or(kib(value.trim()));
        return true;
    }
    if let Some(rest) = line.strip_prefix("Balloon ") {
        memory.balloon_bytes = values(rest).map(|(_, bytes)| bytes).reduce(u64::saturating_add);
        return true;
    }
    let Some((number, what)) = line.split_once(' ') else { return false };
    let place = match what.trim() {
        "pages RAM" | "pages of RAM" => &mut memory.ram_pages,
        "pages reserved" | "reserved pages" => &mut memory.reserved_pages,
        _ => return false,
    };
    *place = place.or(number.parse().ok());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ReportMemory {
        let mut memory = ReportMemory::default();
        let mut cursor = MemoryCursor::default();
        for line in text.lines() {
            cursor.read(line.trim(), &mut memory);
        }
        memory
    }

    const WHOLE: &str = "Mem-Info:
        active_anon:1510 inactive_anon:20 isolated_anon:0
         active_file:30 inactive_file:40 isolated_file:0
         free:70 slab_reclaimable:80 slab_unreclaimable:90
        Node 1 active_anon:6040kB inactive_anon:80kB unevictable:12kB shmem_thp: 4kB shmem: 8kB kernel_stack:16kB
        Node 1 DMA32 free:280kB boost:0kB min:300kB low:400kB high:500kB managed:9000kB free_cma:20kB
        lowmem_reserve[]: 0 0 11 11
        Node 1 DMA32: 2*4kB (UM) 0*8kB 17*16kB (C) = 280kB
        Node 1 hugepages_total=3 hugepages_free=2 hugepages_surp=0 hugepages_size=2048kB
        12 total pagecache pages
        Free swap  = 40kB
        Total swap = 80kB
        5000 pages RAM
        4294965447 pages reserved
        Unreclaimable slab info:
        Name                      Used          Total
        dentry cache             12KB        13KB
        Balloon InflatedTotal:100kB InflatedFree:24kB";

    fn check(memory: &ReportMemory) {
        assert_eq!((memory.pages["active_anon"], memory.pages["slab_unreclaimable"]), (1510, 90));
        let [zone] = memory.zones.as_slice() else { panic!("{memory:?}") };
        assert_eq!((zone.node, zone.name.as_str()), (1, "DMA32"));
        assert_eq!((zone.of("free"), zone.of("min")), (Some(280 << 10), Some(300 << 10)));
        assert_eq!(
            (zone.of("free_cma"), zone.reserve_pages.as_slice()),
            (Some(20 << 10), &[0, 0, 11, 11][..])
        );
        let [list] = memory.free_lists.as_slice() else { panic!("{memory:?}") };
        let last = list.blocks.last().unwrap();
        assert_eq!((last.count, last.kib, last.types.as_str()), (17, 16, "C"));
        assert_eq!((memory.pools[0].total, memory.pools[0].free), (3, 2));
        assert_eq!(memory.node_bytes["shmem"], 8 << 10);
    }

    #[test]
    fn sections_of_mem_info() {
        let memory = read(WHOLE);
        check(&memory);
        assert_eq!((memory.ram_pages, memory.reserved_pages), (Some(5000), Some(4_294_965_447)));
        assert_eq!(
            (memory.swap_free_bytes, memory.swap_total_bytes),
            (Some(40 << 10), Some(80 << 10))
        );
        assert_eq!(memory.slabs[0].total_bytes, 13 << 10);
        assert_eq!(memory.balloon_bytes, Some(124 << 10));
    }

    #[test]
    fn lines_in_pieces_are_continued() {
        let pieces = WHOLE
            .replace("Node 1 DMA32 free", "Node 1\nDMA32 free")
            .replace(" low:400kB", "\nlow:400kB")
            .replace("lowmem_reserve[]: 0 0 11 11", "lowmem_reserve[]:\n 0\n 0\n 11\n 11")
            .replace("Node 1 DMA32: 2*4kB (UM) 0*8kB 17", "Node 1\nDMA32:\n2*4kB\n(UM)\n0*8kB\n17");
        check(&read(&pieces));
    }
}
