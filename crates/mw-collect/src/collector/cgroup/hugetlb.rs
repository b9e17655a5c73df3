//! What our own group and its ancestors may have of huge pages: the hugetlb controller.

use super::hierarchy::{self, ancestry};
use crate::source::Source;
use mw_model::{CgroupVersion, HugetlbLimit};
use mw_proc::cgroup;

/// Limits and what counts towards each: of pages in use, which a page fault runs into, and of those that mmap(2)
/// reserves (5.7 and later).
const FILES_V1: [(&str, &str); 2] =
    [("limit_in_bytes", "usage_in_bytes"), ("rsvd.limit_in_bytes", "rsvd.usage_in_bytes")];
const FILES_V2: [(&str, &str); 2] = [("max", "current"), ("rsvd.max", "rsvd.current")];

/// The limits that there are, of pages of these sizes.
pub(super) fn limits(source: &Source, page_bytes: &[u64]) -> Vec<HugetlbLimit> {
    let Ok(hierarchy) = hierarchy::find_with(source, "hugetlb") else { return Vec::new() };
    let Ok(own) = &hierarchy.own else { return Vec::new() };
    let files = match hierarchy.version {
        CgroupVersion::V1 => FILES_V1,
        CgroupVersion::V2 => FILES_V2,
    };
    let mut limits = Vec::new();
    for path in ancestry(own) {
        let dir = format!("{}{}", hierarchy.mount, path.trim_end_matches('/'));
        for (page_bytes, (limit, used)) in
            page_bytes.iter().flat_map(|bytes| files.map(|files| (*bytes, files)))
        {
            let of_size = format!("hugetlb.{}", size_name(page_bytes));
            let file = format!("{of_size}.{limit}");
            let limit = source.parse(&format!("{dir}/{file}"), cgroup::parse_limit);
            if let Ok(Some(limit_bytes)) = limit {
                let used_bytes = source.number(&format!("{dir}/{of_size}.{used}")).unwrap_or(0);
                let path = path.clone();
                limits.push(HugetlbLimit { path, page_bytes, file, limit_bytes, used_bytes });
            }
        }
    }
    limits
}

/// As the kernel names a size in these files (`mem_fmt()`).
fn size_name(page_bytes: u64) -> String {
    match page_bytes {
        bytes if bytes >= 1 << 30 => format!("{}GB", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("{}MB", bytes >> 20),
        bytes => format!("{}KB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_tree::tree;
    use super::*;

    #[test]
    fn limits_of_both_versions_are_found() {
        let v2 = tree(&[
            ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("proc/self/cgroup", "0::/job\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory hugetlb\n"),
            ("sys/fs/cgroup/job/hugetlb.2MB.max", "41943040\n"),
            ("sys/fs/cgroup/job/hugetlb.2MB.current", "2097152\n"),
            ("sys/fs/cgroup/job/hugetlb.2MB.rsvd.max", "max\n"),
        ]);
        let v1 = tree(&[
            ("proc/mounts", "cgroup /sys/fs/cgroup/hugetlb cgroup rw,hugetlb 0 0\n"),
            ("proc/self/cgroup", "4:hugetlb:/job\n3:memory:/other\n"),
            ("sys/fs/cgroup/hugetlb/job/hugetlb.2MB.limit_in_bytes", "41943040\n"),
            ("sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes", "9223372036852678656\n"),
        ]);
        for (root, used_bytes) in [(v2, 2 << 20), (v1, 0)] {
            let limits = limits(&Source::tree(root.path()).unwrap(), &[2 << 20]);
            let found: Vec<_> =
                limits.iter().map(|l| (l.path.as_str(), l.limit_bytes, l.used_bytes)).collect();
            assert_eq!(found, [("/job", 40 << 20, used_bytes)]);
        }
    }
}
