//! Fragmentation as the kernel computes it (`mm/vmstat.c`), from the counts of buddyinfo.

use mw_proc::buddyinfo::BuddyZone;

/// Free pages of a zone that are in blocks of at least `order`, in base pages.
pub fn free_pages_from_order(zone: &BuddyZone, order: usize) -> u64 {
    zone.values()
        .iter()
        .enumerate()
        .skip(order)
        .fold(0, |sum, (o, blocks)| sum.saturating_add(pages(*blocks, o)))
}

/// All free pages of a zone, in base pages.
pub fn free_pages(zone: &BuddyZone) -> u64 {
    free_pages_from_order(zone, 0)
}

fn pages(blocks: u64, order: usize) -> u64 {
    blocks.saturating_mul(1_u64.checked_shl(u32::try_from(order).unwrap_or(64)).unwrap_or(u64::MAX))
}

/// The share of a zone's free memory that cannot serve a request of `order`, in thousandths:
/// 0 all of it can, 1000 none can. `unusable_free_index()` of the kernel.
pub fn unusable_milli(zone: &BuddyZone, order: usize) -> u32 {
    let free = u128::from(free_pages(zone));
    if free == 0 {
        return 1000;
    }
    let unusable = free - u128::from(free_pages_from_order(zone, order)).min(free);
    u32::try_from(unusable * 1000 / free).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::buddyinfo::Buddyinfo;

    fn zone(line: &str) -> BuddyZone {
        let mut info = Buddyinfo::default();
        info.parse_into(line.as_bytes()).unwrap();
        info.zones.remove(0)
    }

    #[test]
    fn the_field_report_lost_half_of_its_free_memory() {
        let thrashed = zone(
            "Node 0, zone   Normal   5840  10942   9578   8469   7558   6531   5297   3617   1964    612   1363\n",
        );
        assert_eq!(unusable_milli(&thrashed, 9), 508);
    }

    #[test]
    fn a_zone_of_single_pages_is_all_unusable() {
        let shattered = zone("Node 0, zone   Normal 100000 0 0 0 0 0 0 0 0 0 0\n");
        assert_eq!(unusable_milli(&shattered, 9), 1000);
    }

    #[test]
    fn an_empty_zone_is_all_unusable() {
        let empty = zone("Node 0, zone   Normal 0 0 0 0 0 0 0 0 0 0 0\n");
        assert_eq!(unusable_milli(&empty, 9), 1000);
    }

    #[test]
    fn huge_counts_do_not_overflow() {
        let max = u64::MAX;
        let odd = zone(&format!("Node 0, zone Normal {max} {max} {max}\n"));
        assert!(unusable_milli(&odd, 1) <= 1000);
    }
}
