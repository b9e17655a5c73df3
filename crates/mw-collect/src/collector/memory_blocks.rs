//! /sys/devices/system/memory: blocks of memory that are set online and offline one by one.

use crate::source::Source;
use mw_model::{Absence, MemoryBlocks, Missing};
use mw_proc::zoneinfo::Zoneinfo;

const DIR: &str = "/sys/devices/system/memory";

/// The most blocks whose state is read; the size of a block is hexadecimal.
const MAX_READ: usize = 4096;

/// Blocks behind the end of all zones that are offline: memory that was added and never set online, or taken offline at the
/// end. A block within the zones was online before. None where the kernel cannot add memory.
///
/// # Errors
/// The size of a block cannot be read.
pub(crate) fn collect(
    source: &Source,
    zoneinfo: &Zoneinfo,
    page_bytes: u64,
) -> Result<MemoryBlocks, Missing> {
    let names = match source.list(DIR) {
        Err(missing) if missing.absence == Absence::Absent => return Ok(MemoryBlocks::default()),
        names => names?,
    };
    let size_file = format!("{DIR}/block_size_bytes");
    let size = source.read(&size_file)?;
    let size = String::from_utf8_lossy(&size);
    let block_bytes = u64::from_str_radix(size.trim(), 16)
        .map_err(|_| Missing::failed(size_file, "it is not a number"))?;
    let end = zones_end_bytes(zoneinfo, page_bytes);
    let mut numbers: Vec<u64> = names
        .iter()
        .filter_map(|name| name.strip_prefix("memory")?.parse().ok())
        .filter(|number: &u64| number.saturating_mul(block_bytes) >= end)
        .collect();
    numbers.sort_unstable();
    numbers.truncate(MAX_READ);
    let is_offline = |number: &u64| {
        source.read(&state_file(*number)).is_ok_and(|state| state.trim_ascii() == b"offline")
    };
    let offline: Vec<u64> = numbers.into_iter().filter(is_offline).collect();
    let policy = source.read(&format!("{DIR}/auto_online_blocks")).ok();
    Ok(MemoryBlocks {
        block_bytes,
        offline,
        auto_online: policy.map(|text| String::from_utf8_lossy(&text).trim().to_owned()),
    })
}

/// Files of a capture: of the blocks those that are offline.
pub(crate) fn files(blocks: &MemoryBlocks) -> Vec<String> {
    let common = ["block_size_bytes", "auto_online_blocks"].map(|name| format!("{DIR}/{name}"));
    common.into_iter().chain(blocks.offline.iter().map(|number| state_file(*number))).collect()
}

fn state_file(number: u64) -> String {
    format!("{DIR}/memory{number}/state")
}

/// The end of the last zone that has memory.
fn zones_end_bytes(zoneinfo: &Zoneinfo, page_bytes: u64) -> u64 {
    let ends = zoneinfo.zones.iter().filter(|zone| zone.is_populated());
    let ends = ends.map(|zone| zone.start_pfn.unwrap_or(0).saturating_add(zone.spanned_pages));
    ends.max().unwrap_or(0).saturating_mul(page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_proc::zoneinfo::Zone;

    #[test]
    fn only_blocks_behind_the_zones_are_read() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("/sys/devices/system/memory/block_size_bytes", "8000000\n");
        for (number, state) in [(0, "online"), (3, "offline"), (8, "offline"), (9, "online")] {
            write(&state_file(number), &format!("{state}\n"));
        }
        let zone = Zone {
            start_pfn: Some(4096),
            spanned_pages: 258_048,
            present_pages: 200_000,
            ..Zone::default()
        };
        let zoneinfo = Zoneinfo { zones: vec![zone], ..Zoneinfo::default() };
        let blocks = collect(&Source::tree(root.path()).unwrap(), &zoneinfo, 4096).unwrap();
        assert_eq!((blocks.block_bytes, blocks.offline), (128 << 20, vec![8]));
    }

    #[test]
    fn a_kernel_that_cannot_add_memory_has_no_blocks() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/meminfo"), "MemTotal: 1 kB\n").unwrap();
        let source = Source::tree(root.path()).unwrap();
        assert_eq!(collect(&source, &Zoneinfo::default(), 4096), Ok(MemoryBlocks::default()));
    }
}
