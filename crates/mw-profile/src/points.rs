//! The tracepoints that are listened to, and what each says.

use crate::tracepoint::{Field, TracepointFormat};
use crate::waits::WaitStep;
use mw_model::WaitKind;

/// A tracepoint that is listened to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PointSpec {
    /// `events/SYSTEM/NAME`.
    pub(crate) path: &'static str,
    meaning: Meaning,
}

impl PointSpec {
    /// True where a wait for the machine's memory begins or ends: direct and node reclaim, compaction.
    pub(crate) fn is_of_machine(&self) -> bool {
        use WaitKind::{Compaction, DirectReclaim, NodeReclaim};
        match self.meaning {
            Meaning::Begins(kind) | Meaning::Ends(kind) => {
                matches!(kind, DirectReclaim | NodeReclaim | Compaction)
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Begins(WaitKind),
    Ends(WaitKind),
    /// `order`: what the thread's compactions are for.
    Wants,
    /// `pause`, in milliseconds: how long a writer is about to sleep; not at all below 1.
    Pauses,
    /// `usec_delayed`: how long a reclaiming thread slept.
    Throttles,
    /// `pid`: whom the OOM killer chose.
    Chooses,
    /// A folio entered the page cache.
    Caches,
}

const fn point(path: &'static str, meaning: Meaning) -> PointSpec {
    PointSpec { path, meaning }
}

/// Tracepoints at which waits begin and end. All are rare when all is well: they stay on, so that what began
/// before a stall was noticed is seen.
pub(crate) const WAITS: [PointSpec; 12] = [
    point("vmscan/mm_vmscan_direct_reclaim_begin", Meaning::Begins(WaitKind::DirectReclaim)),
    point("vmscan/mm_vmscan_direct_reclaim_end", Meaning::Ends(WaitKind::DirectReclaim)),
    point("vmscan/mm_vmscan_memcg_reclaim_begin", Meaning::Begins(WaitKind::CgroupReclaim)),
    point("vmscan/mm_vmscan_memcg_reclaim_end", Meaning::Ends(WaitKind::CgroupReclaim)),
    point("vmscan/mm_vmscan_node_reclaim_begin", Meaning::Begins(WaitKind::NodeReclaim)),
    point("vmscan/mm_vmscan_node_reclaim_end", Meaning::Ends(WaitKind::NodeReclaim)),
    point("compaction/mm_compaction_try_to_compact_pages", Meaning::Wants),
    point("compaction/mm_compaction_begin", Meaning::Begins(WaitKind::Compaction)),
    point("compaction/mm_compaction_end", Meaning::Ends(WaitKind::Compaction)),
    point("writeback/balance_dirty_pages", Meaning::Pauses),
    point("vmscan/mm_vmscan_throttled", Meaning::Throttles),
    point("oom/mark_victim", Meaning::Chooses),
];

/// Tracepoints at which pages enter the page cache.
pub(crate) const FLOOD: PointSpec = point("filemap/mm_filemap_add_to_page_cache", Meaning::Caches);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointData {
    Step(WaitStep),
    Cached(CacheInsertion),
}

/// Pages that entered the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheInsertion {
    /// The device as the kernel keeps it inside: major number from bit 20 on.
    pub(crate) device: u32,
    pub(crate) inode: u64,
    pub(crate) pages: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    meaning: Meaning,
    current: Option<Field>,
    order: Option<Field>,
    node: Option<Field>,
    zone_start: Option<Field>,
    lasted: Option<Field>,
    pid: Option<Field>,
    device: Option<Field>,
    inode: Option<Field>,
}

impl Decoder {
    /// A reader of `point`'s records, laid out as `format` says.
    pub(crate) fn new(point: &PointSpec, format: &TracepointFormat) -> Self {
        Self {
            meaning: point.meaning,
            current: format.field("common_pid"),
            order: format.field("order"),
            node: format.field("nid"),
            zone_start: format.field("zone_start"),
            lasted: format.field(match point.meaning {
                Meaning::Pauses => "pause",
                _ => "usec_delayed",
            }),
            pid: format.field("pid"),
            device: format.field("s_dev"),
            inode: format.field("i_ino"),
        }
    }

    /// The task in whose context a record was written, by its number in the initial PID namespace.
    pub(crate) fn current(&self, record: &[u8]) -> Option<u32> {
        self.current.and_then(|field| field.read(record)).and_then(|pid| u32::try_from(pid).ok())
    }

    /// Contents of a record; `None` if nothing of it counts.
    pub(crate) fn read(&self, record: &[u8], zones: &Zones) -> Option<PointData> {
        let value = |field: Option<Field>| field.and_then(|field| field.read(record));
        let small = |field| value(field).and_then(|value| u32::try_from(value).ok());
        let order = small(self.order);
        let step = match self.meaning {
            Meaning::Begins(kind) => {
                let zone = value(self.zone_start).map(i64::cast_unsigned);
                let node = small(self.node).or_else(|| zones.node(zone?));
                WaitStep::Begin { kind, order, node }
            }
            Meaning::Ends(kind) => WaitStep::End { kind },
            Meaning::Wants => WaitStep::Wants { order: order? },
            Meaning::Pauses => {
                let lasted_us = u64::try_from(value(self.lasted)?).ok()?.checked_mul(1000)?;
                let kind = WaitKind::DirtyThrottle;
                (lasted_us > 0).then_some(WaitStep::Whole { kind, node: None, lasted_us })?
            }
            Meaning::Throttles => WaitStep::Whole {
                kind: WaitKind::ReclaimThrottle,
                node: small(self.node),
                lasted_us: u64::try_from(value(self.lasted)?).ok()?,
            },
            Meaning::Chooses => WaitStep::Of { tid: small(self.pid)?, kind: WaitKind::Oom },
            Meaning::Caches => {
                return Some(PointData::Cached(CacheInsertion {
                    device: small(self.device)?,
                    inode: value(self.inode)?.cast_unsigned(),
                    // Before kernel 5.16 or so a record was of one page.
                    pages: 1_u64.checked_shl(order.unwrap_or(0)).unwrap_or(1),
                }));
            }
        };
        Some(PointData::Step(step))
    }
}

/// Node of the zone that starts at a page frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct Zones(Vec<(u64, u32)>);

impl Zones {
    /// Reads /proc/zoneinfo; empty where that cannot be read.
    pub(crate) fn read() -> Self {
        let text = mw_sys::kernel_file::read("/proc/zoneinfo").unwrap_or_default();
        let mut zoneinfo = mw_proc::zoneinfo::Zoneinfo::default();
        let _ = zoneinfo.parse_into(&text);
        let start = |zone: &mw_proc::zoneinfo::Zone| Some((zone.start_pfn?, zone.node));
        Self(zoneinfo.zones.iter().filter(|zone| zone.is_populated()).filter_map(start).collect())
    }

    fn node(&self, start: u64) -> Option<u32> {
        self.0.iter().find(|(zone, _)| *zone == start).map(|(_, node)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: [(&str, &str); 3] = [
        ("6.1", include_str!("../tests/formats/6.1.txt")),
        ("6.12", include_str!("../tests/formats/6.12.txt")),
        ("6.18", include_str!("../tests/formats/6.18.txt")),
    ];

    /// The format of a tracepoint among those of a kernel.
    fn format(kernel: &str, path: &str) -> TracepointFormat {
        let name = path.rsplit('/').next().unwrap();
        let all = kernel.split("name: ").find(|text| text.lines().next() == Some(name));
        TracepointFormat::parse(all.unwrap_or_else(|| unreachable!("{path}"))).unwrap()
    }

    /// A record with these fields at their usual places.
    fn record(numbers: &[(usize, &[u8])]) -> Vec<u8> {
        let mut record = vec![0; 144];
        for (offset, bytes) in numbers {
            record[*offset..*offset + bytes.len()].copy_from_slice(bytes);
        }
        record
    }

    fn check(path: &str, fields: &[(usize, &[u8])], expected: Option<PointData>) {
        let point = WAITS.iter().chain([&FLOOD]).find(|point| point.path == path).unwrap();
        let zones = Zones(vec![(4096, 0), (1_048_576, 1)]);
        for (version, kernel) in KERNELS {
            let decoder = Decoder::new(point, &format(kernel, path));
            assert_eq!(decoder.read(&record(fields), &zones), expected, "{path} of {version}");
        }
    }

    fn step(step: WaitStep) -> Option<PointData> {
        Some(PointData::Step(step))
    }

    #[test]
    fn every_kernel_says_the_same() {
        let nine = 9_i32.to_ne_bytes();
        let one = 1_i32.to_ne_bytes();
        let kind = WaitKind::DirectReclaim;
        check(
            "vmscan/mm_vmscan_direct_reclaim_begin",
            &[(8, &nine)],
            step(WaitStep::Begin { kind, order: Some(9), node: None }),
        );
        check("vmscan/mm_vmscan_direct_reclaim_end", &[], step(WaitStep::End { kind }));
        let kind = WaitKind::CgroupReclaim;
        check(
            "vmscan/mm_vmscan_memcg_reclaim_begin",
            &[],
            step(WaitStep::Begin { kind, order: Some(0), node: None }),
        );
        check("vmscan/mm_vmscan_memcg_reclaim_end", &[], step(WaitStep::End { kind }));
        let kind = WaitKind::NodeReclaim;
        check(
            "vmscan/mm_vmscan_node_reclaim_begin",
            &[(8, &one), (12, &nine)],
            step(WaitStep::Begin { kind, order: Some(9), node: Some(1) }),
        );
        check("vmscan/mm_vmscan_node_reclaim_end", &[], step(WaitStep::End { kind }));
        check(
            "compaction/mm_compaction_try_to_compact_pages",
            &[(8, &nine)],
            step(WaitStep::Wants { order: 9 }),
        );
        let kind = WaitKind::Compaction;
        check(
            "compaction/mm_compaction_begin",
            &[(8, &1_048_576_u64.to_ne_bytes())],
            step(WaitStep::Begin { kind, order: None, node: Some(1) }),
        );
        check("compaction/mm_compaction_end", &[], step(WaitStep::End { kind }));
    }

    #[test]
    fn throttled_chosen_and_cached() {
        let paused = |ms: i64| [(112, ms.to_ne_bytes())];
        let kind = WaitKind::DirtyThrottle;
        for (ms, expected) in [
            (200, step(WaitStep::Whole { kind, node: None, lasted_us: 200_000 })),
            (0, None),
            (-3, None),
        ] {
            let fields = paused(ms);
            check("writeback/balance_dirty_pages", &[(fields[0].0, &fields[0].1)], expected);
        }
        check(
            "vmscan/mm_vmscan_throttled",
            &[(8, &1_i32.to_ne_bytes()), (16, &4000_i32.to_ne_bytes())],
            step(WaitStep::Whole {
                kind: WaitKind::ReclaimThrottle,
                node: Some(1),
                lasted_us: 4000,
            }),
        );
        let formats = KERNELS.map(|(_, kernel)| format(kernel, FLOOD.path));
        let currents = formats.map(|format| {
            Decoder::new(&FLOOD, &format).current(&record(&[(4, &77_i32.to_ne_bytes())]))
        });
        assert_eq!(currents, [Some(77); 3]);
        check(
            "oom/mark_victim",
            &[(8, &77_i32.to_ne_bytes())],
            step(WaitStep::Of { tid: 77, kind: WaitKind::Oom }),
        );
        check(
            "filemap/mm_filemap_add_to_page_cache",
            &[(16, &123_u64.to_ne_bytes()), (32, &(254_u32 << 20 | 1).to_ne_bytes()), (36, &[4])],
            Some(PointData::Cached(CacheInsertion {
                device: 254 << 20 | 1,
                inode: 123,
                pages: 16,
            })),
        );
    }

    #[test]
    fn a_record_that_is_cut_says_nothing_wrong() {
        let decoder = Decoder::new(&FLOOD, &format(KERNELS[0].1, FLOOD.path));
        assert_eq!(decoder.read(&[0; 20], &Zones::default()), None);
    }

    #[test]
    fn zones_have_nodes() {
        let zones = Zones::read();
        assert!(!zones.0.is_empty());
        assert_eq!(zones.node(zones.0[0].0), Some(zones.0[0].1));
        assert_eq!(zones.node(u64::MAX), None);
    }

    /// Tracepoints of a kernel in kernels/, each with its fields.
    fn stored_points(keys: &str) -> Vec<(&str, TracepointFormat)> {
        let (_, section) = keys.split_once("[tracepoints]\n").unwrap();
        let section = section.split("\n[").next().unwrap();
        let points = section.split("== ").filter_map(|point| point.split_once('\n'));
        let with_fields = points.filter(|(_, fields)| fields.contains("field:"));
        let format = |fields: &str| TracepointFormat::parse(&format!("ID:1\n{fields}")).unwrap();
        with_fields.map(|(path, fields)| (path, format(fields))).collect()
    }

    fn has_fields(decoder: &Decoder) -> bool {
        let own = match decoder.meaning {
            Meaning::Begins(WaitKind::Compaction) => decoder.zone_start.is_some(),
            Meaning::Begins(WaitKind::NodeReclaim) => decoder.node.is_some(),
            Meaning::Begins(_) | Meaning::Wants => decoder.order.is_some(),
            Meaning::Ends(_) => true,
            Meaning::Pauses | Meaning::Throttles => decoder.lasted.is_some(),
            Meaning::Chooses => decoder.pid.is_some(),
            Meaning::Caches => decoder.device.is_some() && decoder.inode.is_some(),
        };
        own && decoder.current.is_some()
    }

    #[test]
    fn stored_kernels_have_the_points_and_their_fields() {
        let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels");
        for entry in std::fs::read_dir(kernels).unwrap() {
            let dir = entry.unwrap().path();
            let keys = std::fs::read_to_string(dir.join("keys.txt")).unwrap();
            let stored = stored_points(&keys);
            for point in WAITS.iter().chain([&FLOOD]) {
                let format = stored.iter().find(|(path, _)| *path == point.path);
                // Added in 5.16.
                let is_absent = point.path == "vmscan/mm_vmscan_throttled"
                    && dir.to_string_lossy().contains("/5.10-");
                assert_eq!(format.is_none(), is_absent, "{} of {}", point.path, dir.display());
                let complete =
                    format.is_none_or(|(_, format)| has_fields(&Decoder::new(point, format)));
                assert!(complete, "{} of {}", point.path, dir.display());
            }
        }
    }
}
