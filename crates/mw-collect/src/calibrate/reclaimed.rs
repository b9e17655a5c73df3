//! Which free memory the host has reclaimed: a sample of the flags of free blocks, none of it touched.
//!
//! With free page reporting the kernel marks each free block that it has reported to the host with
//! the flag `PG_reported`, and clears the flag when the block leaves the free lists
//! (mm/page_reporting.c, include/linux/page-flags.h). `PG_reported` is the bit of `PG_uptodate`, which
//! /proc/kpageflags shows: a free block that is up to date was reported. Reported blocks go to the
//! tail of their free list, and allocations take the head.

use crate::page_flags::{BUDDY, FILE, UPTODATE};
use crate::spread::spread;
use mw_model::{Backing, FreeLayer, Snapshot, derived, fragmentation};
use mw_proc::buddyinfo::BuddyZone;
use mw_proc::zoneinfo::Zone;
use mw_sys::kernel_file;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Two flags are read at each place, which takes 1 µs.
const MOST_PLACES: u64 = 6144;
/// Places between two looks at the clock.
const PLACES_TOGETHER: u64 = 64;
/// A sample of one zone at places of two huge pages each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PlaceSample {
    places: u64,
    sampled: u64,
    /// Reported blocks of one huge page.
    single: u64,
    /// Reported blocks of two or more.
    larger: u64,
}

/// The free memory of each zone in the order in which it is allocated; empty where the flags cannot
/// be read or no host is told of free memory.
pub(super) fn layers(snapshot: &Snapshot, time: Duration) -> Vec<FreeLayer> {
    let Ok(flags) = kernel_file::open(FILE) else { return Vec::new() };
    let flag = |frame: u64| {
        let mut word = [0; 8];
        flags.read_exact_at(&mut word, frame.checked_mul(8)?).ok()?;
        Some(u64::from_ne_bytes(word))
    };
    layers_by(snapshot, time, flag)
}

/// A sample that was touched is surer than one of flags: with it, the size of the first layer of large
/// blocks is known better. Only where all memory is of one node, so that both are of the same list.
pub(super) fn confirm(backing: &mut Backing, touched_bytes: usize) {
    let (touched, first) = (touched_bytes as u64, backing.backed_first_bytes);
    let layers = &mut backing.layers;
    let one_node = layers.first().map(|l| l.node) == layers.last().map(|l| l.node);
    let Some(head) = layers.iter().position(|layer| !layer.small).filter(|_| one_node) else {
        return;
    };
    let share = backing.unbacked_share.unwrap_or(0.0);
    let (at_head, behind) = layers.split_at_mut(head + 1);
    let (Some(kept), Some(next)) =
        (at_head.last_mut().filter(|l| !l.reclaimed), behind.first_mut())
    else {
        return;
    };
    let bytes = if share >= MOSTLY_UNBACKED {
        first.min(kept.bytes)
    } else if share == 0.0 {
        kept.bytes.max(touched).min(kept.bytes.saturating_add(next.bytes))
    } else {
        return;
    };
    if next.reclaimed {
        next.bytes = next.bytes.saturating_add(kept.bytes).saturating_sub(bytes);
        // The next may be the head of another list, which this says nothing of.
        kept.uncertain_bytes = kept.uncertain_bytes.min(bytes.saturating_sub(touched.min(bytes)));
        kept.bytes = bytes;
    }
}

/// From this share on, what follows the first unbacked block was reclaimed.
const MOSTLY_UNBACKED: f64 = 0.7;

fn layers_by(
    snapshot: &Snapshot,
    time: Duration,
    flag: impl Fn(u64) -> Option<u64>,
) -> Vec<FreeLayer> {
    let sample = &snapshot.sample;
    let (Some(zoneinfo), Some(buddyinfo)) = (sample.zoneinfo.value(), sample.buddyinfo.value())
    else {
        return Vec::new();
    };
    let page_bytes = snapshot.origin.page_bytes;
    let order = derived::order_of(derived::huge_page_bytes(snapshot), page_bytes);
    let spanned: u64 = derived::total(zoneinfo.zones.iter().map(|zone| zone.spanned_pages));
    let mut layers = Vec::new();
    // Allocations start with the highest zone of a node.
    for zone in zoneinfo.zones.iter().rev() {
        let listed = buddyinfo.zones.iter().find(|b| b.node == zone.node && b.name == zone.name);
        let (Some(listed), Some(start)) = (listed, zone.start_pfn) else { continue };
        let share = zone.spanned_pages as f64 / spanned.max(1) as f64;
        let most = (MOST_PLACES as f64 * share) as u64;
        let until = Instant::now() + time.mul_f64(share.min(1.0));
        let frames = start..start.saturating_add(zone.spanned_pages);
        let found = sample_zone(frames, order, most, until, &flag);
        layers.extend(of_zone(zone, listed, found, order, page_bytes));
    }
    layers.sort_by_key(|layer| layer.node);
    layers
}

fn sample_zone(
    frames: std::ops::Range<u64>,
    order: usize,
    most: u64,
    until: Instant,
    flag: impl Fn(u64) -> Option<u64>,
) -> PlaceSample {
    let block = 1_u64 << order.min(32);
    let first = frames.start.div_ceil(2 * block);
    let places = (frames.end / (2 * block)).saturating_sub(first);
    let mut found = PlaceSample { places, ..PlaceSample::default() };
    for (place, index) in spread(places).zip(0..most) {
        if index % PLACES_TOGETHER == PLACES_TOGETHER - 1 && Instant::now() > until {
            break;
        }
        let frame = (first + place) * 2 * block;
        let (Some(head), Some(tail)) = (flag(frame), flag(frame + block)) else { break };
        found.sampled += 1;
        let is_free = |flags: u64| flags & BUDDY != 0;
        let is_reported = |flags: u64| is_free(flags) && flags & UPTODATE != 0;
        // Two free buddies would have merged: the second is the tail of the first.
        if is_reported(head) && is_free(tail) && !is_reported(tail) {
            found.larger += 1;
        } else {
            found.single += u64::from(is_reported(head)) + u64::from(is_reported(tail));
        }
    }
    found
}

/// The layers of a zone as allocations reach them: small blocks first, then by the size of blocks;
/// of each size those that were not reported first.
fn of_zone(
    zone: &Zone,
    listed: &BuddyZone,
    found: PlaceSample,
    order: usize,
    page_bytes: u64,
) -> Vec<FreeLayer> {
    let bytes = |pages: u64| pages.saturating_mul(page_bytes);
    let from = |order| bytes(fragmentation::free_pages_from_order(listed, order));
    let scale = |count: u64| match found.sampled {
        0 => 0,
        sampled => (count as f64 * found.places as f64 / sampled as f64).round() as u64,
    };
    let block = page_bytes << order.min(32);
    let (small, single, larger) =
        (from(0) - from(order), from(order) - from(order + 1), from(order + 1));
    let reported_single = scale(found.single).saturating_mul(block).min(single);
    let reported_larger = scale(found.larger).saturating_mul(2 * block).min(larger);
    let off = |count: u64, block: u64| (deviation(count, found) * 2.0 * block as f64) as u64;
    let (off_single, off_larger) = (off(found.single, block), off(found.larger, 2 * block));
    let layer = |bytes, uncertain_bytes, small, reclaimed| FreeLayer {
        node: zone.node,
        bytes,
        uncertain_bytes,
        small,
        reclaimed,
    };
    let mut layers = vec![
        layer(small, 0, true, false),
        layer(single - reported_single, off_single, false, false),
        layer(reported_single, off_single, false, true),
        layer(larger - reported_larger, off_larger, false, false),
        layer(reported_larger, off_larger, false, true),
    ];
    // What the watermark and the reserve for lower zones keep is the last of the zone.
    let reserve = zone.protection().iter().max().copied().unwrap_or(0);
    let mut kept = bytes(zone.low_pages.saturating_add(reserve));
    for layer in layers.iter_mut().rev() {
        let part = kept.min(layer.bytes);
        layer.bytes -= part;
        kept -= part;
    }
    // A sample may miss all of a small layer.
    layers.retain(|layer| layer.bytes > 0 || layer.uncertain_bytes > 0);
    layers
}

/// The standard deviation of a count of all places that is estimated from a sample without
/// replacement: that of the hypergeometric distribution.
fn deviation(count: u64, found: PlaceSample) -> f64 {
    let (all, sampled) = (found.places as f64, found.sampled as f64);
    if found.sampled == 0 || found.places < 2 {
        return 0.0;
    }
    let share = (count as f64 / sampled).min(1.0);
    let rest = (all - sampled).max(0.0) / (all - 1.0);
    all * (share * (1.0 - share) / sampled * rest).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: usize = 9;
    const LATER: Duration = Duration::from_secs(60);

    /// 1,024 places: the first half reported in large blocks, then 10 reported single blocks.
    fn flags(frame: u64) -> Option<u64> {
        let (place, is_head) = (frame / 1024, frame.is_multiple_of(1024));
        Some(match place {
            0..512 if is_head => BUDDY | UPTODATE,
            512..522 if is_head => BUDDY | UPTODATE,
            // A page of the page cache that is up to date.
            512..600 => UPTODATE,
            _ => BUDDY,
        })
    }

    #[test]
    fn reported_blocks_are_told_from_free_ones_and_from_page_cache() {
        let found = sample_zone(0..1024 * 1024, ORDER, 1024, Instant::now() + LATER, flags);
        assert_eq!(found, PlaceSample { places: 1024, sampled: 1024, single: 10, larger: 512 });
    }

    #[test]
    fn a_part_of_the_places_is_a_sample_of_all() {
        let found = sample_zone(0..1024 * 1024, ORDER, 100, Instant::now() + LATER, flags);
        assert_eq!(found.sampled, 100);
        assert!((45..=55).contains(&found.larger), "{found:?}");
        let found = sample_zone(0..1024 * 1024, ORDER, 1024, Instant::now(), flags);
        assert!(found.sampled < PLACES_TOGETHER, "{found:?}");
    }

    #[test]
    fn what_was_touched_is_surer_than_a_sample_of_flags() {
        let layer = |bytes, reclaimed| FreeLayer {
            node: 0,
            bytes,
            uncertain_bytes: 50,
            small: false,
            reclaimed,
        };
        let after = |unbacked_share, backed_first_bytes| {
            let layers = vec![layer(100, false), layer(1000, true)];
            let mut backing =
                Backing { unbacked_share, backed_first_bytes, layers, ..Backing::default() };
            confirm(&mut backing, 200);
            (backing.layers[0].bytes, backing.layers[0].uncertain_bytes, backing.layers[1].bytes)
        };
        assert_eq!(after(Some(1.0), 10), (10, 0, 1090));
        assert_eq!(after(Some(0.0), 0), (200, 0, 900));
        assert_eq!(after(Some(0.5), 10), (100, 50, 1000));
    }

    #[test]
    fn a_zone_ends_with_what_was_reported_and_what_is_kept() {
        let mut info = mw_proc::buddyinfo::Buddyinfo::default();
        info.parse_into(b"Node 0, zone Normal 1024 0 0 0 0 0 0 0 0 10 100\n").unwrap();
        let zone = Zone { low_pages: 1024, ..Zone::default() };
        let found = PlaceSample { places: 400, sampled: 100, single: 1, larger: 10 };
        let layers = of_zone(&zone, &info.zones[0], found, ORDER, 4096);
        let said: Vec<(u64, bool, bool)> =
            layers.iter().map(|l| (l.bytes >> 20, l.small, l.reclaimed)).collect();
        let expected = [
            (4, true, false),
            (12, false, false),
            (8, false, true),
            (240, false, false),
            (156, false, true),
        ];
        assert_eq!(said, expected);
    }
}
