//! The kernel's pools of hugetlb pages in /sys.

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
