//! Blocks of a huge page's size, by what their pages are: a sample of the flags of pages.

/// A sample of one zone's blocks. A block counts once, as the worst of its pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageBlocks {
    /// The node's number.
    pub node: u32,
    /// Size of a block in bytes.
    pub block_bytes: u64,
    /// All blocks of the zone.
    pub blocks: u64,
    /// Blocks that were sampled: spread evenly over the zone.
    pub sampled: u64,
    /// All pages are free or can be moved.
    pub movable: u64,
    /// As movable, except for pages on their way to a list.
    pub uncertain: u64,
    /// Held by pages without a flag alone: kernel memory, or free pages on the lists of CPUs.
    pub unflagged: u64,
    /// Held by kernel objects, which the kernel may free, and pages without a flag.
    pub slab: u64,
    /// Free pages in the other blocks, those with a page that cannot be moved.
    pub stuck_free_pages: u64,
}

impl PageBlocks {
    /// The line of a captured tree: the fields in their order, with spaces between them.
    #[must_use]
    pub fn line(&self) -> String {
        let Self { node, block_bytes, blocks, sampled, .. } = self;
        let Self { movable, uncertain, unflagged, slab, stuck_free_pages, .. } = self;
        format!(
            "{node} {block_bytes} {blocks} {sampled} {movable} {uncertain} {unflagged} {slab} {stuck_free_pages}"
        )
    }

    /// The blocks of such a line; `None` where it is not one, or counts more than it sampled.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let fields: Vec<u64> =
            line.split(' ').map(|field| field.parse().ok()).collect::<Option<_>>()?;
        let [node, block_bytes, blocks, sampled, movable, uncertain, unflagged, slab, stuck] =
            fields[..]
        else {
            return None;
        };
        let counted = [movable, uncertain, unflagged, slab];
        let counted = counted.into_iter().try_fold(0_u64, u64::checked_add)?;
        (counted <= sampled && sampled <= blocks).then_some(Self {
            node: u32::try_from(node).ok()?,
            block_bytes,
            blocks,
            sampled,
            movable,
            uncertain,
            unflagged,
            slab,
            stuck_free_pages: stuck,
        })
    }

    /// Memory in movable blocks at least, in bytes.
    #[must_use]
    pub fn least_bytes(&self) -> u64 {
        self.bounds(self.movable).0.saturating_mul(self.block_bytes)
    }

    /// Memory in movable and uncertain blocks at most, in bytes.
    #[must_use]
    pub fn most_bytes(&self) -> u64 {
        self.most(self.movable.saturating_add(self.uncertain))
    }

    /// Memory in blocks that free pages on lists of CPUs, and reclaimable pages of kernel objects may hold, in
    /// bytes.
    #[must_use]
    pub fn released_bytes(&self, cpu_list_pages: u64, slab_pages: u64) -> u64 {
        let by =
            |count: u64, pages: u64| self.most(count).min(pages.saturating_mul(self.block_bytes));
        by(self.unflagged, cpu_list_pages).saturating_add(by(self.slab, slab_pages))
    }

    fn most(&self, count: u64) -> u64 {
        self.bounds(count).1.saturating_mul(self.block_bytes)
    }

    /// Free memory in blocks that cannot become whole, in bytes.
    #[must_use]
    pub fn stuck_free_bytes(&self, page_bytes: u64) -> u64 {
        self.scaled(self.stuck_free_pages as f64).saturating_mul(page_bytes)
    }

    fn scaled(&self, count: f64) -> u64 {
        if self.sampled == 0 {
            0
        } else {
            (count * self.blocks as f64 / self.sampled as f64) as u64
        }
    }

    /// A count of all blocks, two standard deviations down and up: of a sample without replacement.
    fn bounds(&self, count: u64) -> (u64, u64) {
        let (all, sampled) = (self.blocks as f64, self.sampled as f64);
        if self.sampled == 0 {
            return (0, 0);
        }
        // A sample that found none, or nothing else, still leaves room for some.
        let share = (count as f64 / sampled).clamp(0.5 / sampled, 1.0 - 0.5 / sampled);
        let rest = (all - sampled).max(0.0) / (all - 1.0).max(1.0);
        let off = 2.0 * all * (share * (1.0 - share) / sampled * rest).sqrt();
        let likely = count as f64 * all / sampled;
        ((likely - off).max(0.0) as u64, (likely + off).ceil().min(all) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_blocks_leave_no_doubt_and_a_sample_does() {
        let block_bytes = 2 << 20;
        let all = PageBlocks {
            block_bytes,
            blocks: 400,
            sampled: 400,
            movable: 300,
            uncertain: 10,
            unflagged: 20,
            slab: 30,
            stuck_free_pages: 50,
            ..PageBlocks::default()
        };
        assert_eq!((all.least_bytes(), all.most_bytes()), (600 << 20, 620 << 20));
        assert_eq!(all.released_bytes(7, 1000), (7 + 30) * (2 << 20));
        assert_eq!(all.stuck_free_bytes(4096), 50 * 4096);
        let some = PageBlocks { blocks: 4000, ..all };
        let (least, most) = (some.least_bytes(), some.most_bytes());
        assert!(least < 6000 << 20 && 5600 << 20 < least, "{}", least >> 20);
        assert!(6200 << 20 < most && most < 6600 << 20, "{}", most >> 20);
        assert_eq!(PageBlocks::default().most_bytes(), 0);
    }

    #[test]
    fn a_line_holds_all_and_a_forged_one_none() {
        let blocks = PageBlocks {
            node: 1,
            block_bytes: 2 << 20,
            blocks: 4000,
            sampled: 400,
            movable: 300,
            uncertain: 10,
            unflagged: 20,
            slab: 30,
            stuck_free_pages: 50,
        };
        assert_eq!(PageBlocks::parse(&blocks.line()), Some(blocks));
        for line in ["", "1 2 3", "0 2 9 8 9 0 0 0 0", "0 2 7 8 1 0 0 0 0", "-1 2 9 8 1 0 0 0 0"] {
            assert_eq!(PageBlocks::parse(line), None, "{line}");
        }
    }
}
