//! Flags of an allocation (`gfp_mask`, `mode`): names that the kernel prints from 4.6 on, and bits by version before.

use schemars::JsonSchema;
use serde::Serialize;

/// Flags of a request for pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GfpFlags(u32);

impl GfpFlags {
    pub(crate) const DMA: Self = Self(1);
    pub(crate) const HIGHMEM: Self = Self(1 << 1);
    pub(crate) const DMA32: Self = Self(1 << 2);
    pub(crate) const MOVABLE: Self = Self(1 << 3);
    pub(crate) const RECLAIMABLE: Self = Self(1 << 4);
    pub(crate) const HIGH: Self = Self(1 << 5);
    pub(crate) const IO: Self = Self(1 << 6);
    pub(crate) const FS: Self = Self(1 << 7);
    pub(crate) const DIRECT_RECLAIM: Self = Self(1 << 8);
    pub(crate) const KSWAPD_RECLAIM: Self = Self(1 << 9);
    pub(crate) const COLD: Self = Self(1 << 10);
    pub(crate) const NOWARN: Self = Self(1 << 11);
    pub(crate) const RETRY: Self = Self(1 << 12);
    pub(crate) const NOFAIL: Self = Self(1 << 13);
    pub(crate) const NORETRY: Self = Self(1 << 14);
    pub(crate) const MEMALLOC: Self = Self(1 << 15);
    pub(crate) const COMP: Self = Self(1 << 16);
    pub(crate) const ZERO: Self = Self(1 << 17);
    pub(crate) const NOMEMALLOC: Self = Self(1 << 18);
    pub(crate) const HARDWALL: Self = Self(1 << 19);
    pub(crate) const THISNODE: Self = Self(1 << 20);
    pub(crate) const ACCOUNT: Self = Self(1 << 21);
    pub(crate) const WRITE: Self = Self(1 << 22);
    pub(crate) const ATOMIC: Self = Self(1 << 23);

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

use GfpFlags as Gfp;

const RECLAIM: Gfp = Gfp::DIRECT_RECLAIM.and(Gfp::KSWAPD_RECLAIM);
const KERNEL: Gfp = RECLAIM.and(Gfp::IO).and(Gfp::FS);
const USER: Gfp = KERNEL.and(Gfp::HARDWALL);
const HIGHUSER: Gfp = USER.and(Gfp::HIGHMEM);
const HIGHUSER_MOVABLE: Gfp = HIGHUSER.and(Gfp::MOVABLE);
const HUGE: Gfp = HIGHUSER_MOVABLE.and(Gfp::COMP).and(Gfp::NOMEMALLOC).and(Gfp::NOWARN);

/// Combinations with a name, the largest first.
const NAMES: &[(&str, Gfp)] = &[
    ("GFP_TRANSHUGE", HUGE),
    ("GFP_HIGHUSER_MOVABLE", HIGHUSER_MOVABLE),
    ("GFP_HIGHUSER", HIGHUSER),
    ("GFP_USER", USER),
    ("GFP_KERNEL_ACCOUNT", KERNEL.and(Gfp::ACCOUNT)),
    ("GFP_KERNEL", KERNEL),
    ("GFP_NOFS", RECLAIM.and(Gfp::IO)),
    ("GFP_ATOMIC", Gfp::HIGH.and(Gfp::KSWAPD_RECLAIM)),
    ("GFP_NOIO", RECLAIM),
    ("GFP_NOWAIT", Gfp::KSWAPD_RECLAIM),
    ("GFP_DMA32", Gfp::DMA32),
    ("GFP_DMA", Gfp::DMA),
];

/// Names that only appear in a log.
const ALIASES: &[(&str, Gfp)] = &[
    ("GFP_TRANSHUGE_LIGHT", Gfp(HUGE.0 & !RECLAIM.0)),
    ("GFP_TEMPORARY", KERNEL.and(Gfp::RECLAIMABLE)),
    ("__GFP_RECLAIM", RECLAIM),
    ("__GFP_WAIT", RECLAIM),
];

const FLAGS: &[(&str, Gfp)] = &[
    ("__GFP_DMA", Gfp::DMA),
    ("__GFP_HIGHMEM", Gfp::HIGHMEM),
    ("__GFP_DMA32", Gfp::DMA32),
    ("__GFP_MOVABLE", Gfp::MOVABLE),
    ("__GFP_RECLAIMABLE", Gfp::RECLAIMABLE),
    ("__GFP_HIGH", Gfp::HIGH),
    ("__GFP_IO", Gfp::IO),
    ("__GFP_FS", Gfp::FS),
    ("__GFP_DIRECT_RECLAIM", Gfp::DIRECT_RECLAIM),
    ("__GFP_KSWAPD_RECLAIM", Gfp::KSWAPD_RECLAIM),
    ("__GFP_COLD", Gfp::COLD),
    ("__GFP_NOWARN", Gfp::NOWARN),
    ("__GFP_RETRY_MAYFAIL", Gfp::RETRY),
    ("__GFP_REPEAT", Gfp::RETRY),
    ("__GFP_NOFAIL", Gfp::NOFAIL),
    ("__GFP_NORETRY", Gfp::NORETRY),
    ("__GFP_MEMALLOC", Gfp::MEMALLOC),
    ("__GFP_COMP", Gfp::COMP),
    ("__GFP_ZERO", Gfp::ZERO),
    ("__GFP_NOMEMALLOC", Gfp::NOMEMALLOC),
    ("__GFP_HARDWALL", Gfp::HARDWALL),
    ("__GFP_THISNODE", Gfp::THISNODE),
    ("__GFP_ACCOUNT", Gfp::ACCOUNT),
    ("__GFP_WRITE", Gfp::WRITE),
    ("__GFP_ATOMIC", Gfp::ATOMIC),
];

/// Bits that are the same up to 5.0.
const BITS_BEFORE_5_1: &[(u32, Gfp)] = &[
    (0x1, Gfp::DMA),
    (0x2, Gfp::HIGHMEM),
    (0x4, Gfp::DMA32),
    (0x8, Gfp::MOVABLE),
    (0x20, Gfp::HIGH),
    (0x40, Gfp::IO),
    (0x80, Gfp::FS),
    (0x200, Gfp::NOWARN),
    (0x400, Gfp::RETRY),
    (0x800, Gfp::NOFAIL),
    (0x1000, Gfp::NORETRY),
    (0x2000, Gfp::MEMALLOC),
    (0x4000, Gfp::COMP),
    (0x8000, Gfp::ZERO),
    (0x1_0000, Gfp::NOMEMALLOC),
    (0x2_0000, Gfp::HARDWALL),
    (0x4_0000, Gfp::THISNODE),
    (0x10_0000, Gfp::ACCOUNT),
];

/// The others up to 4.3. `__GFP_WAIT` is what later kernels call `__GFP_RECLAIM`; all requests woke kswapd.
const BITS_OF_2_6: &[(u32, Gfp)] =
    &[(0x10, RECLAIM), (0x100, Gfp::COLD), (0x8_0000, Gfp::RECLAIMABLE), (0x100_0000, Gfp::WRITE)];

/// The others from 4.4 to 4.16: those of reclaim moved once more in 4.10.
const BITS_OF_4_4: &[(u32, Gfp)] = &[
    (0x10, Gfp::RECLAIMABLE),
    (0x100, Gfp::COLD),
    (0x8_0000, Gfp::ATOMIC),
    (0x40_0000, Gfp::DIRECT_RECLAIM),
    (0x200_0000, Gfp::KSWAPD_RECLAIM),
];

/// From 4.10 to 4.16.
const KSWAPD_OF_4_10: u32 = 0x100_0000;

/// The others from 4.17 to 5.0.
const BITS_OF_4_17: &[(u32, Gfp)] = &[
    (0x10, Gfp::RECLAIMABLE),
    (0x100, Gfp::WRITE),
    (0x8_0000, Gfp::ATOMIC),
    (0x20_0000, Gfp::DIRECT_RECLAIM),
    (0x40_0000, Gfp::KSWAPD_RECLAIM),
];

/// Bits from 5.1 on.
const BITS_OF_5_1: &[(u32, Gfp)] = &[
    (0x1, Gfp::DMA),
    (0x2, Gfp::HIGHMEM),
    (0x4, Gfp::DMA32),
    (0x8, Gfp::MOVABLE),
    (0x10, Gfp::RECLAIMABLE),
    (0x20, Gfp::HIGH),
    (0x40, Gfp::IO),
    (0x80, Gfp::FS),
    (0x100, Gfp::ZERO),
    (0x400, Gfp::DIRECT_RECLAIM),
    (0x800, Gfp::KSWAPD_RECLAIM),
    (0x1000, Gfp::WRITE),
    (0x2000, Gfp::NOWARN),
    (0x4000, Gfp::RETRY),
    (0x8000, Gfp::NOFAIL),
    (0x1_0000, Gfp::NORETRY),
    (0x2_0000, Gfp::MEMALLOC),
    (0x4_0000, Gfp::COMP),
    (0x8_0000, Gfp::NOMEMALLOC),
    (0x10_0000, Gfp::HARDWALL),
    (0x20_0000, Gfp::THISNODE),
    (0x40_0000, Gfp::ACCOUNT),
];

/// A mask as it was logged, and its meaning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GfpMask {
    /// The number that was logged.
    pub mask: u64,
    /// Names of the flags, those that the kernel printed or those of its version.
    pub names: String,
    #[serde(skip)]
    pub(crate) flags: GfpFlags,
}

/// Highest zone that a request may be served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ZoneKind {
    Dma,
    Dma32,
    Normal,
    HighMem,
    Movable,
    Device,
}

impl GfpMask {
    /// Reads `0x100cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP)`, `0xd0`; the version is that of the kernel.
    pub(crate) fn parse(text: &str, version: Option<(u32, u32)>) -> Option<Self> {
        let (number, names) = match text.split_once('(') {
            Some((number, names)) => (number, names.split(')').next().unwrap_or_default()),
            None => (text, ""),
        };
        let number = number.trim().trim_end_matches([',', ')']);
        let mask = u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
        let (flags, names) = match names {
            "" => {
                let flags = from_bits(u32::try_from(mask).ok()?, version);
                (flags, if mask == 0 { String::new() } else { named(flags) })
            }
            names => (from_names(names), names.to_owned()),
        };
        Some(Self { mask, names, flags })
    }

    /// The same mask as another version understands it, where no names were logged.
    pub(crate) fn of_version(&self, version: (u32, u32)) -> Self {
        let number = format!("{:#x}", self.mask);
        Self::parse(&number, Some(version)).unwrap_or_else(|| self.clone())
    }

    /// `GFP_KERNEL (0xcc0)`.
    pub(crate) fn text(&self) -> String {
        match self.names.as_str() {
            "" => format!("gfp_mask {:#x}", self.mask),
            names => format!("{names} ({:#x})", self.mask),
        }
    }

    /// True if the task may wait for reclaim.
    pub(crate) fn may_wait(&self) -> bool {
        self.flags.has(Gfp::DIRECT_RECLAIM)
    }

    /// True if it has a share of the reserve below min.
    pub(crate) fn is_high(&self) -> bool {
        self.flags.has(Gfp::HIGH)
    }

    /// True if the caller has another way: it asked not to try hard.
    pub(crate) fn is_optional(&self) -> bool {
        self.flags.has(Gfp::NORETRY) || (!self.may_wait() && !self.is_high())
    }

    pub(crate) fn is_movable(&self) -> bool {
        self.flags.has(Gfp::MOVABLE)
    }

    pub(crate) fn highest_zone(&self) -> ZoneKind {
        let flags = self.flags;
        if flags.has(Gfp::DMA) {
            ZoneKind::Dma
        } else if flags.has(Gfp::DMA32) {
            ZoneKind::Dma32
        } else if flags.has(Gfp::HIGHMEM.and(Gfp::MOVABLE)) {
            ZoneKind::Movable
        } else if flags.has(Gfp::HIGHMEM) {
            ZoneKind::HighMem
        } else {
            ZoneKind::Normal
        }
    }
}

fn from_names(names: &str) -> Gfp {
    names.split('|').fold(Gfp::default(), |flags, name| {
        let mut all = NAMES.iter().chain(ALIASES).chain(FLAGS);
        all.find(|(known, _)| *known == name.trim()).map_or(flags, |(_, more)| flags.and(*more))
    })
}

/// Flags of a number without names, which kernels before 4.6 log. Without a version the bits of reclaim tell.
fn from_bits(mask: u32, version: Option<(u32, u32)>) -> Gfp {
    let (common, table) = match version {
        Some(version) if version < (4, 4) => (BITS_BEFORE_5_1, BITS_OF_2_6),
        Some(version) if version < (4, 17) => (BITS_BEFORE_5_1, BITS_OF_4_4),
        Some(version) if version < (5, 1) => (BITS_BEFORE_5_1, BITS_OF_4_17),
        Some(_) => (&[][..], BITS_OF_5_1),
        None if mask & 0x340_0000 != 0 => (BITS_BEFORE_5_1, BITS_OF_4_4),
        None => (BITS_BEFORE_5_1, BITS_OF_2_6),
    };
    let of_table = common.iter().chain(table).filter(|(bit, _)| mask & bit != 0);
    let flags = of_table.fold(Gfp::default(), |flags, (_, more)| flags.and(*more));
    let is_4_10 = table == BITS_OF_4_4 && mask & KSWAPD_OF_4_10 != 0 && mask & 0x200_0000 == 0;
    let is_old = table == BITS_OF_2_6;
    if is_4_10 || is_old { flags.and(Gfp::KSWAPD_RECLAIM) } else { flags }
}

/// Names of flags, as the kernel would print them.
fn named(flags: Gfp) -> String {
    let mut left = flags;
    let mut names = Vec::new();
    for (name, all) in NAMES.iter().chain(FLAGS) {
        let is_whole = left.has(*all) && *all != Gfp::default();
        // GFP_NOWAIT is a part of all others.
        if is_whole && !(names.is_empty() && *name == "GFP_NOWAIT" && left.has(Gfp::HIGH)) {
            names.push(*name);
            left = left.without(*all);
        }
    }
    names.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, version: Option<(u32, u32)>, names: &str) {
        assert_eq!(GfpMask::parse(text, version).unwrap().names, names, "{text}");
    }

    #[test]
    fn numbers_have_the_names_of_their_version() {
        check("0x20", Some((3, 6)), "GFP_ATOMIC");
        check("0xd0", Some((2, 6)), "GFP_KERNEL");
        check("0x201da", Some((3, 10)), "GFP_HIGHUSER_MOVABLE|__GFP_COLD");
        check("0x280da", None, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO");
        check("0x24201ca", Some((4, 4)), "GFP_HIGHUSER_MOVABLE|__GFP_COLD");
        check("0x2080020", None, "GFP_ATOMIC|__GFP_ATOMIC");
        check("0x14000c0", Some((4, 13)), "GFP_KERNEL");
        check("0x6000c0", Some((4, 19)), "GFP_KERNEL");
        check("0x100cca", Some((5, 15)), "GFP_HIGHUSER_MOVABLE");
        check("0x0", Some((4, 15)), "");
        check("0x0()", Some((4, 15)), "");
        check("0x50cc2(GFP_HIGHUSER|__GFP_ACCOUNT)", None, "GFP_HIGHUSER|__GFP_ACCOUNT");
        check("0x2400240)", Some((4, 4)), "GFP_NOFS|__GFP_NOWARN");
        assert_eq!(GfpMask::parse("order", None), None);
    }

    #[test]
    fn flags_say_what_a_request_may() {
        let mask = |text| GfpMask::parse(text, None).unwrap();
        let kernel = mask("0xcc0(GFP_KERNEL)");
        assert!(kernel.may_wait() && kernel.highest_zone() == ZoneKind::Normal);
        let atomic = mask("0x820(GFP_ATOMIC)");
        assert!(!atomic.may_wait() && atomic.is_high() && !atomic.is_optional());
        assert!(mask("0x2800(GFP_NOWAIT|__GFP_NOWARN)").is_optional());
        assert_eq!(mask("0x1(GFP_DMA)").highest_zone(), ZoneKind::Dma);
        assert_eq!(mask("0x500cc2(GFP_HIGHUSER|__GFP_ACCOUNT)").highest_zone(), ZoneKind::HighMem);
        assert_eq!(mask("0x100cca(GFP_HIGHUSER_MOVABLE)").highest_zone(), ZoneKind::Movable);
        assert!(!mask("0xd0").of_version((3, 10)).is_high());
    }
}
