//! Zones of a report: which could serve the request, and what each lacked.

use crate::gfp::{GfpMask, ZoneKind};
use crate::report::{FreeList, KernelReport, ReportKind, ReportZone};
use schemars::JsonSchema;
use serde::Serialize;

/// A zone, as the request met it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ZoneVerdict {
    pub node: u32,
    pub zone: String,
    pub free_bytes: u64,
    pub min_bytes: u64,
    /// `lowmem_reserve` against this request.
    pub reserve_bytes: u64,
    /// Largest free block that the request may use; none where the free list is not in the log.
    pub largest_block_bytes: Option<u64>,
    pub obstacle: ZoneObstacle,
    #[serde(skip)]
    pub(crate) free_cma_bytes: u64,
}

/// Reasons why a zone did not serve a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneObstacle {
    /// The zone is above those that the request may use.
    TooHigh,
    /// Free memory is not above the min watermark and the reserve.
    BelowMin,
    /// The same, after the memory of CMA is left out.
    OnlyCma,
    /// The same, after the blocks that are reserved for atomic requests (highatomic) are left out.
    OnlyAtomic,
    /// No free block of the order.
    NoBlock,
    /// Too little of the free memory is in larger blocks: kernels before 4.4 ask for half of the watermark with each order.
    FewBlocks,
    /// Blocks of the order are those of CMA or of the atomic reserve only.
    ForeignBlock,
    /// Nothing that the report shows.
    None,
}

/// Orders of zones by the number of entries in `lowmem_reserve[]`.
const ZONE_LISTS: &[&[ZoneKind]] = {
    use ZoneKind::{Device, Dma, Dma32, HighMem, Movable, Normal};
    &[
        &[Dma, Dma32, Normal, Movable, Device],
        &[Dma, Dma32, Normal, Movable],
        &[Dma, Normal, HighMem, Movable],
        &[Dma, Normal, Movable, Device],
        &[Dma32, Normal, Movable, Device],
        &[Dma, Normal, HighMem, Movable, Device],
        &[Dma, Dma32, Normal],
        &[Dma, Normal, HighMem],
        &[Normal, HighMem, Movable],
        &[Dma, Normal, Movable],
        &[Dma32, Normal, Movable],
        &[Dma, Movable],
        &[Normal, Movable],
        &[Normal, HighMem],
        &[Dma, Normal],
        &[Dma],
        &[Normal],
    ]
};

/// All zones of a report that have memory.
pub(crate) fn verdicts(report: &KernelReport) -> Vec<ZoneVerdict> {
    let zones = report.memory.zones.iter().filter(|zone| zone.of("managed") != Some(0));
    zones.filter_map(|zone| verdict(report, zone)).collect()
}

fn verdict(report: &KernelReport, zone: &ReportZone) -> Option<ZoneVerdict> {
    let kind = zone.kind()?;
    let gfp = report.gfp.as_ref().filter(|gfp| gfp.mask != 0);
    let order = report.order.and_then(|order| u32::try_from(order).ok()).unwrap_or(0);
    let highest = gfp.map_or(ZoneKind::Movable, GfpMask::highest_zone);
    let free_bytes = zone.of("free")?;
    let min_bytes = zone.of("min")?;
    let is_movable = gfp.is_none_or(GfpMask::is_movable);
    let free_cma_bytes = zone.of("free_cma").unwrap_or_default();
    let reserve_bytes = reserve_bytes(report, zone, highest);
    let cma = if is_movable { 0 } else { free_cma_bytes };
    let is_high = gfp.is_some_and(GfpMask::is_high);
    let atomic = zone.of("free_highatomic").or(zone.of("reserved_highatomic")).unwrap_or_default();
    let atomic = if is_high { 0 } else { atomic };
    let needed = min_bytes.saturating_add(reserve_bytes);
    let wanted = report.page_bytes().checked_shl(order).unwrap_or(u64::MAX);
    // The kernel asks whether the watermark holds once the block is taken (mm/page_alloc.c, __zone_watermark_ok()).
    let block = wanted.saturating_sub(report.page_bytes());
    let usable = free_bytes.saturating_sub(cma).saturating_sub(atomic).saturating_sub(block);
    let list = report.memory.free_lists.iter().find(|l| l.node == zone.node && l.zone == zone.name);
    let usable_block = list.map(|list| largest(list, is_movable, is_high));
    let any_block = list.map(|list| largest(list, true, true));
    let obstacle = if kind > highest || kind == ZoneKind::Device {
        ZoneObstacle::TooHigh
    } else if usable <= needed && free_bytes > needed && cma > 0 {
        ZoneObstacle::OnlyCma
    } else if usable <= needed && free_bytes > needed && atomic > free_bytes.div_euclid(2) {
        ZoneObstacle::OnlyAtomic
    } else if usable <= needed {
        ZoneObstacle::BelowMin
    } else if falls_by_order(report, list, order, free_bytes.saturating_sub(block), min_bytes) {
        // A machine without memory has few blocks as well: a kill is for that.
        match report.kind {
            ReportKind::AllocationFailure => ZoneObstacle::FewBlocks,
            _ => ZoneObstacle::BelowMin,
        }
    } else if order > 0 && usable_block.is_some_and(|block| block < wanted) {
        let has_other = any_block.is_some_and(|block| block >= wanted);
        if has_other { ZoneObstacle::ForeignBlock } else { ZoneObstacle::NoBlock }
    } else {
        ZoneObstacle::None
    };
    Some(ZoneVerdict {
        node: zone.node,
        zone: zone.name.clone(),
        free_bytes,
        min_bytes,
        reserve_bytes,
        largest_block_bytes: usable_block,
        obstacle,
        free_cma_bytes,
    })
}

/// True if a kernel before 4.4 refuses a block that it has: with each order it leaves out the smaller blocks, and asks for
/// half of the watermark in what is left (mm/page_alloc.c, `__zone_watermark_ok()`); of atomic requests three eighths of it.
fn falls_by_order(
    report: &KernelReport,
    list: Option<&FreeList>,
    order: u32,
    free: u64,
    min: u64,
) -> bool {
    let is_old = report.version().is_some_and(|version| version < (4, 4));
    let Some(list) = list.filter(|_| is_old) else { return false };
    let wanted = report.page_bytes().checked_shl(order).unwrap_or(u64::MAX);
    let has_block = list.blocks.iter().any(|b| b.count > 0 && b.kib.saturating_mul(1024) >= wanted);
    let smaller = list.blocks.iter().take(usize::try_from(order).unwrap_or_default());
    let gfp = report.gfp.as_ref().filter(|gfp| gfp.mask != 0);
    let mut left = free;
    let mut needed = if gfp.is_some_and(GfpMask::is_high) { min >> 1 } else { min };
    if gfp.is_some_and(|gfp| !gfp.may_wait()) {
        needed = needed.saturating_sub(needed >> 2);
    }
    let mut orders = smaller.map(|blocks| {
        left = left.saturating_sub(blocks.count.saturating_mul(blocks.kib).saturating_mul(1024));
        needed >>= 1;
        left <= needed
    });
    has_block && orders.any(|falls| falls)
}

/// Largest free block of which a request may have a page.
fn largest(list: &FreeList, is_movable: bool, is_high: bool) -> u64 {
    let is_usable = |types: &str| {
        types.is_empty()
            || types.chars().any(|kind| match kind {
                'C' => is_movable,
                'H' => is_high,
                'I' => false,
                _ => true,
            })
    };
    let blocks = list.blocks.iter().filter(|blocks| blocks.count > 0 && is_usable(&blocks.types));
    blocks.map(|blocks| blocks.kib.saturating_mul(1024)).max().unwrap_or_default()
}

/// Pages that a zone keeps from requests that could have used a higher one.
fn reserve_bytes(report: &KernelReport, zone: &ReportZone, highest: ZoneKind) -> u64 {
    let pages = &zone.reserve_pages;
    let has_all = |list: &&&[ZoneKind]| {
        let named = report.memory.zones.iter().filter_map(ReportZone::kind);
        list.len() == pages.len() && named.into_iter().all(|kind| list.contains(&kind))
    };
    let Some(list) = ZONE_LISTS.iter().find(has_all) else { return 0 };
    let at = list.iter().rposition(|kind| *kind <= highest);
    let reserved = at.and_then(|at| pages.get(at)).copied().unwrap_or_default();
    reserved.saturating_mul(report.page_bytes())
}

/// Zones that the request may use.
pub(crate) fn candidates(zones: &[ZoneVerdict]) -> impl Iterator<Item = &ZoneVerdict> {
    zones.iter().filter(|zone| zone.obstacle != ZoneObstacle::TooHigh)
}

/// True if the report has zones that the request may use, and none of them has pages.
pub(crate) fn are_empty(report: &KernelReport) -> bool {
    let highest = report.gfp.as_ref().map_or(ZoneKind::Movable, GfpMask::highest_zone);
    let is_usable = |zone: &&ReportZone| zone.kind().is_some_and(|kind| kind <= highest);
    let mut usable = report.memory.zones.iter().filter(is_usable).peekable();
    usable.peek().is_some() && usable.all(|zone| zone.of("managed") == Some(0))
}

/// True if each zone that the request may use lacked a block, and at least one was above its watermark.
pub(crate) fn is_for_order(zones: &[ZoneVerdict]) -> bool {
    let lacks_block = |zone: &ZoneVerdict| {
        matches!(
            zone.obstacle,
            ZoneObstacle::NoBlock | ZoneObstacle::FewBlocks | ZoneObstacle::ForeignBlock
        )
    };
    candidates(zones).any(lacks_block)
        && candidates(zones).all(|zone| zone.obstacle != ZoneObstacle::None)
}

/// True if a zone could have served the request when the report was printed.
pub(crate) fn could_serve(zones: &[ZoneVerdict]) -> bool {
    candidates(zones).any(|zone| zone.obstacle == ZoneObstacle::None)
}

/// True if a zone had twice what the request needs: a report is printed a moment after the request failed.
pub(crate) fn could_serve_easily(zones: &[ZoneVerdict]) -> bool {
    candidates(zones).any(|zone| {
        let needed = zone.min_bytes.saturating_add(zone.reserve_bytes);
        zone.obstacle == ZoneObstacle::None && zone.free_bytes > needed.saturating_mul(2)
    })
}

/// Zones above those of the request that have free memory.
pub(crate) fn free_above(report: &KernelReport, zones: &[ZoneVerdict]) -> u64 {
    let is_request = matches!(report.kind, ReportKind::Kill | ReportKind::AllocationFailure);
    let too_high = zones.iter().filter(|zone| {
        is_request
            && zone.obstacle == ZoneObstacle::TooHigh
            && zone.free_bytes > zone.min_bytes.saturating_mul(2)
    });
    too_high.fold(0, |sum, zone| sum.saturating_add(zone.free_bytes))
}
