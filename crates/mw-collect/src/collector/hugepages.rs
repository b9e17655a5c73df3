//! Huge page pools, of the machine (/sys/kernel/mm/hugepages) and of each node; and how many huge
//! pages the boot line and the sysctl files ask for.

use crate::source::Source;
use mw_model::{Absence, HugePool, HugepagesWanted, Missing, parse_size};
use mw_proc::meminfo::Meminfo;
use mw_proc::{cmdline, sysctl};

/// The pools of the whole machine. Before 2.6.27 there is one, and meminfo has it; a tree may lack the directory as well.
pub(crate) fn collect(source: &Source) -> Result<Vec<HugePool>, Missing> {
    pools(source, "/sys/kernel/mm/hugepages").or_else(|missing| {
        let meminfo = source.parse("/proc/meminfo", Meminfo::parse);
        let only = meminfo.ok().filter(|_| missing.absence == Absence::Absent).and_then(only_pool);
        only.map(|pool| vec![pool]).ok_or(missing)
    })
}

/// The pool of the default size; the only one where no other size takes memory (`Hugetlb`).
fn only_pool(meminfo: Meminfo) -> Option<HugePool> {
    let pool = HugePool {
        page_bytes: meminfo.hugepagesize_bytes?,
        total_pages: meminfo.hugepages_total_pages?,
        free_pages: meminfo.hugepages_free_pages?,
        reserved_pages: meminfo.hugepages_rsvd_pages.unwrap_or(0),
        surplus_pages: meminfo.hugepages_surp_pages.unwrap_or(0),
        overcommit_pages: 0,
    };
    let bytes = pool.total_pages.checked_mul(pool.page_bytes)?;
    meminfo.hugetlb_bytes.is_none_or(|all| all == bytes).then_some(pool)
}

/// The pools below a `hugepages` directory.
pub(crate) fn pools(source: &Source, dir: &str) -> Result<Vec<HugePool>, Missing> {
    let mut pools = Vec::new();
    for name in source.list(dir)? {
        let Some(page_bytes) = page_bytes(&name) else { continue };
        let number = |file: &str| source.number(&format!("{dir}/{name}/{file}"));
        pools.push(HugePool {
            page_bytes,
            total_pages: number("nr_hugepages")?,
            free_pages: number("free_hugepages")?,
            reserved_pages: number("resv_hugepages").unwrap_or(0),
            surplus_pages: number("surplus_hugepages").unwrap_or(0),
            overcommit_pages: number("nr_overcommit_hugepages").unwrap_or(0),
        });
    }
    pools.sort_unstable_by_key(|pool| pool.page_bytes);
    Ok(pools)
}

/// The page size in a name such as `hugepages-2048kB`.
pub(crate) fn page_bytes(name: &str) -> Option<u64> {
    let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

const SYSCTL_DIRS: [&str; 4] =
    ["/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d"];

/// The huge pages that the boot line and the sysctl files ask for.
pub(crate) fn wanted(
    source: &Source,
    default_page_bytes: u64,
) -> Result<Vec<HugepagesWanted>, Missing> {
    let cmdline = source.read("/proc/cmdline")?;
    let mut wanted = on_boot_line(&cmdline, default_page_bytes);
    let mut files: Vec<String> = SYSCTL_DIRS
        .iter()
        .flat_map(|dir| {
            let names = source.list(dir).unwrap_or_default();
            names.into_iter().filter(|n| n.ends_with(".conf")).map(move |n| format!("{dir}/{n}"))
        })
        .collect();
    files.push("/etc/sysctl.conf".to_owned());
    for file in files {
        let Ok(text) = source.read(&file) else { continue };
        let pages = sysctl::parse_dump(&text)
            .iter()
            .rev()
            .find(|(key, _)| key == "vm.nr_hugepages")
            .and_then(|(_, value)| value.trim().parse().ok());
        if let Some(pages) = pages {
            wanted.push(HugepagesWanted { source: file, page_bytes: default_page_bytes, pages });
        }
    }
    Ok(wanted)
}

fn on_boot_line(cmdline: &[u8], default_page_bytes: u64) -> Vec<HugepagesWanted> {
    let mut wanted = Vec::new();
    let mut page_bytes = default_page_bytes;
    for (key, value) in cmdline::parse(cmdline) {
        let value = value.unwrap_or_default();
        match key.as_str() {
            "hugepagesz" => page_bytes = parse_size(&value).unwrap_or(page_bytes),
            "hugepages" => wanted.extend(boot_pages(&value).map(|pages| HugepagesWanted {
                source: "/proc/cmdline".to_owned(),
                page_bytes,
                pages,
            })),
            _ => {}
        }
    }
    wanted
}

/// `512`, or per node `0:512,1:512`.
fn boot_pages(value: &str) -> Option<u64> {
    if let Ok(pages) = value.parse() {
        return Some(pages);
    }
    value.split(',').try_fold(0_u64, |sum, part| {
        let (_, pages) = part.split_once(':')?;
        sum.checked_add(pages.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_line_asks_per_size_and_per_node() {
        let line =
            b"quiet hugepages=4 hugepagesz=1G hugepages=2 hugepagesz=2M hugepages=0:8,1:16\n";
        let wanted: Vec<(u64, u64)> =
            on_boot_line(line, 2 << 20).iter().map(|w| (w.page_bytes, w.pages)).collect();
        assert_eq!(wanted, [(2 << 20, 4), (1 << 30, 2), (2 << 20, 24)]);
    }

    #[test]
    fn meminfo_has_the_pool_where_no_other_size_takes_memory() {
        let lines = b"HugePages_Total: 600\nHugePages_Free: 276\nHugePages_Rsvd: 195\nHugepagesize: 2048 kB\n";
        let mut meminfo = Meminfo::parse(lines).unwrap();
        let pool = only_pool(meminfo).unwrap();
        assert_eq!((pool.total_pages, pool.free_pages, pool.reserved_pages), (600, 276, 195));
        meminfo.hugetlb_bytes = Some(600 << 21);
        assert!(only_pool(meminfo).is_some());
        meminfo.hugetlb_bytes = Some(700 << 21);
        assert_eq!(only_pool(meminfo), None, "another size has the rest");
    }

    #[test]
    fn only_pool_names_are_pools() {
        assert_eq!(page_bytes("hugepages-2048kB"), Some(2 << 20));
        assert_eq!(page_bytes("hugepages-18446744073709551615kB"), None);
        assert_eq!(page_bytes("stats"), None);
    }
}
