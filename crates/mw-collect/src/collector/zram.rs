//! /sys/block/zramN: swap that is kept in memory, compressed.

use crate::source::Source;
use mw_model::{Missing, Reading, Zram};
use mw_proc::mm_stat::MmStat;
use mw_proc::swaps::Swap;

/// The most devices that are looked at.
const MAX_DEVICES: usize = 64;

/// Those of the swaps that are zram devices.
pub(crate) fn collect(source: &Source, swaps: &Reading<Vec<Swap>>) -> Result<Vec<Zram>, Missing> {
    let names = swaps.required()?.iter().filter_map(|swap| name(&swap.path));
    names.take(MAX_DEVICES).map(|name| device(source, name)).collect()
}

/// `zram0` of `/dev/zram0`.
fn name(path: &str) -> Option<&str> {
    let name = path.strip_prefix("/dev/")?;
    let number = name.strip_prefix("zram")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(name)
}

fn device(source: &Source, name: &str) -> Result<Zram, Missing> {
    Ok(Zram {
        name: name.to_owned(),
        size_bytes: source.number(&format!("/sys/block/{name}/disksize"))?,
        mm_stat: source.parse(&format!("/sys/block/{name}/mm_stat"), MmStat::parse)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_zram_device_has_its_name() {
        assert_eq!(name("/dev/zram12"), Some("zram12"));
        assert_eq!(name("/dev/nvme0n1"), None);
        assert_eq!(name("/swap/dev/zram0"), None);
        assert_eq!(name("/dev/zram0/../../etc"), None, "of a captured tree");
    }
}
