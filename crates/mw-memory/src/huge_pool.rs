//! The kernel's pools of hugetlb pages in /sys.

/// A pool of huge pages of one size, of the machine or of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugePool {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Pages in the pool, surplus pages included.
    pub total_pages: u64,
    /// Pages that nobody has touched yet, reserved ones included.
    pub free_pages: u64,
    /// Free pages that are promised to a mapping; a node does not say (0).
    pub reserved_pages: u64,
    /// Pages above the configured number, released when freed.
    pub surplus_pages: u64,
    /// Maximum number of surplus pages; unknown for a node (0).
    pub overcommit_pages: u64,
}

impl HugePool {
    /// Pages that a new mapping can have: free and not promised.
    #[must_use]
    pub fn available_pages(&self) -> u64 {
        self.free_pages.saturating_sub(self.reserved_pages)
    }

    /// The same in bytes.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.available_pages().saturating_mul(self.page_bytes)
    }

    /// Of the pools of a machine or of a node, that of pages of this size.
    #[must_use]
    pub fn find(pools: &[Self], page_bytes: u64) -> Option<&Self> {
        pools.iter().find(|pool| pool.page_bytes == page_bytes)
    }

    /// Surplus pages that the kernel may still allocate.
    #[must_use]
    pub fn surplus_left_pages(&self) -> u64 {
        self.overcommit_pages.saturating_sub(self.surplus_pages)
    }
}

/// The directory of the pool of pages of this size: of a node, or of the machine.
#[must_use]
pub fn huge_pool_dir(page_bytes: u64, node: Option<u32>) -> String {
    let of = match node {
        Some(node) => format!("/sys/devices/system/node/node{node}"),
        None => "/sys/kernel/mm".to_owned(),
    };
    format!("{of}/hugepages/hugepages-{}kB", page_bytes >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_each_node_have_a_pool_of_each_size() {
        let machine = huge_pool_dir(2 << 20, None);
        assert_eq!(machine, "/sys/kernel/mm/hugepages/hugepages-2048kB");
        let node = huge_pool_dir(1 << 30, Some(3));
        assert_eq!(node, "/sys/devices/system/node/node3/hugepages/hugepages-1048576kB");
    }
}
