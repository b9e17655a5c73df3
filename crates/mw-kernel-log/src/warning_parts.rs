//! Names and amounts within warnings of the kernel.

use crate::heads;
use mw_memory::{format_bytes, format_count};

/// `__vm_enough_memory: pid: 812, comm: NAME, bytes: 4096`: the name, which may have anything in it. Before 6.9 the size is
/// missing.
pub(crate) fn committing_program(before: &str) -> Option<&str> {
    let (_, rest) = before.split_once(", comm: ")?;
    let rest = rest.rsplit_once(", bytes: ").map_or(rest, |(name, _)| name);
    Some(rest.trim_end().trim_end_matches(','))
}

pub(crate) fn requested(before: &str) -> Option<String> {
    let (_, bytes) = before.rsplit_once(", bytes: ")?;
    Some(format_bytes(bytes.trim().parse().ok()?))
}

/// `mmap: NAME (812): VmData 8192`.
pub(crate) fn mapping_program(before: &str) -> Option<&str> {
    let (name, _) = before.rsplit_once(" (")?;
    Some(name.strip_prefix("mmap: ").unwrap_or(name))
}

pub(crate) fn data_size(before: &str, after: &str) -> Option<String> {
    let (_, size) = before.rsplit_once("VmData ")?;
    let limit = after.split('.').next()?;
    let bytes = |text: &str| Some(format_bytes(text.trim().parse().ok()?));
    Some(format!("{} of {}", bytes(size)?, bytes(limit)?))
}

/// `CPU#0Channel#2_DIMM#0 (channel:2 slot:0 …)`, `read error on DIMM_A1 (…)`, `0x0, offset 0x0, …, label "DIMM_A1"`.
pub(crate) fn memory_module<'a>(words: &str, after: &'a str) -> Option<&'a str> {
    let label = match after.split_once("label \"") {
        Some((_, rest)) => rest.split('"').next()?,
        None if words.ends_with(" on ") => after,
        None => after.split_once(" on ")?.1,
    };
    label.split(" (").next().map(str::trim)
}

/// `Block size [0x40000000] unaligned …`.
pub(crate) fn block_size(before: &str) -> Option<String> {
    let (_, rest) = before.split_once("[0x")?;
    let digits = rest.split(']').next()?;
    Some(format_bytes(u64::from_str_radix(digits, 16).ok()?))
}

/// `8:0:353315392)`: the device's number, and the sector.
pub(crate) fn device_number(after: &str) -> Option<&str> {
    Some(after.split(')').next()?.rsplit_once(':')?.0)
}

/// `swapon: swapfile has holes`, `swapon: file /swap is not committed`, `BTRFS warning (device sda1): swapfile must not be
/// copy-on-write`: what is wrong.
pub(crate) fn refusal(message: &str) -> &str {
    let message = message.strip_prefix("swapon: ").unwrap_or(message);
    message.find("swapfile must ").and_then(|at| message.get(at..)).unwrap_or(message)
}

/// `ERROR: 256 KiB atomic DMA …`, `DMA: failed to allocate 256 KiB GFP_KERNEL …`.
pub(crate) fn pool_size(before: &str) -> Option<String> {
    let (size, _) = before.split_once(" KiB ")?;
    let number: u64 = size.rsplit(' ').next()?.parse().ok()?;
    Some(format_bytes(number.checked_mul(1024)?))
}

/// `… on port 9002. Dropping request.  Check SNMP counters.`, from 6.2 on `… on port [::]:9002. …`.
pub(crate) fn listen_port(message: &str) -> Option<&str> {
    let (_, address) = message.split_once("on port ")?;
    address.split(". ").next()?.rsplit(':').next()
}

/// `BUG NAME (Tainted: …`, `kmem_cache_destroy NAME`.
pub(crate) fn left_cache(before: &str) -> Option<&str> {
    let name = before.split(" (").next()?;
    name.rsplit(' ').next()
}

/// `exposure attempt detected from SLUB object 'NAME' (offset 4, size 4)!`: the cache; else what was copied.
pub(crate) fn copied_cache(after: &str) -> Option<&str> {
    match after.split_once(" object '") {
        Some((_, name)) => name.split('\'').next(),
        None => after.split(" (offset ").next(),
    }
}

/// `3189 __alloc_pages_nodemask+0x45c/0xbe0`, from 6.19 on `5216 at __alloc_frozen_pages_noprof+0x1/0x2, CPU#1: NAME/272`. Other
/// functions of the file warn of other things.
pub(crate) fn is_of_page_allocator(after: &str) -> bool {
    const FUNCTIONS: [&str; 4] = [
        "__alloc_pages_nodemask",
        "__alloc_pages",
        "__alloc_pages_noprof",
        "__alloc_frozen_pages_noprof",
    ];
    let mut words = after.split(' ').filter_map(|word| word.split_once("+0x"));
    words.next().is_some_and(|(function, _)| FUNCTIONS.contains(&function))
}

/// `CPU: 30 PID: 9311 Comm: NAME Kdump: loaded Not tainted 3.10.0 #1`, `…, CPU#1: NAME/272`: the name, which may have anything
/// in it.
pub(crate) fn program_of_trace(message: &str) -> Option<&str> {
    if let Some((_, rest)) = message.split_once(", CPU#") {
        return rest.split_once(": ")?.1.rsplit_once('/').map(|(name, _)| name);
    }
    if message.starts_with("File: ") {
        // A worker of the kernel completes asynchronous writes.
        let (_, name) = message.rsplit_once(" Comm: ")?;
        return Some(name.trim()).filter(|name| !name.starts_with("kworker/"));
    }
    let (_, rest) = message.split_once(" Comm: ")?;
    let ends = [" Kdump: ", " Tainted: ", " Not tainted "].iter().filter_map(|end| rest.rfind(end));
    rest.get(..ends.min()?)
}

/// `PC is at zs_map_object+0xac/0x1dc [zsmalloc]`.
pub(crate) fn crash_place(message: &str) -> Option<String> {
    let (name, module) = heads::function(message)?;
    let module = module.map_or(String::new(), |module| format!(" of module {module}"));
    Some(format!("{name}(){module}"))
}

/// `illegal size (32792) or align (8)`.
pub(crate) fn percpu_size(before: &str) -> Option<String> {
    let (_, rest) = before.split_once("size (")?;
    let bytes = rest.split(')').next()?.parse::<u64>().ok()?;
    Some(format_count(bytes, "byte"))
}

/// `allocation failed, size=9352 align=8 atomic=1, `.
pub(crate) fn percpu_request(before: &str) -> Option<String> {
    let (_, rest) = before.split_once("size=")?;
    Some(format_count(rest.split(' ').next()?.parse::<u64>().ok()?, "byte"))
}

/// `73728, 0x1000), please file an issue at:`.
pub(crate) fn kmem_size(after: &str) -> Option<String> {
    let (bytes, _) = after.split_once(',')?;
    Some(format_bytes(bytes.parse().ok()?))
}

/// `33408MB of RAM.`, in units of 1024.
pub(crate) fn megabytes(after: &str) -> Option<String> {
    let number: u64 = after.split_once("MB")?.0.parse().ok()?;
    Some(format_bytes(number.checked_mul(1 << 20)?))
}

/// `64 MiB) above limit (32 MiB).`
pub(crate) fn host_memory(after: &str) -> Option<String> {
    let (wanted, rest) = after.split_once(" MiB)")?;
    let (_, limit) = rest.split_once("limit (")?;
    let mib = |number: &str| number.parse::<u64>().ok();
    Some(format!("it wants {} MiB, and may have {}", mib(wanted)?, mib(limit.split(' ').next()?)?))
}

/// `… mlx5_cmd_check:795:(pid 53945): ALLOC_UAR(0x802) op_mod(0x0)`.
pub(crate) fn command_of(before: &str) -> Option<String> {
    let name = before.rsplit(": ").next()?.split('(').next()?;
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    };
    Some(name).filter(is_name).map(str::to_owned)
}

/// `total 32768 (slots), used 32766 (slots)`.
pub(crate) fn slots(text: &str) -> Option<String> {
    let number = |key: &str| {
        let (_, after) = text.split_once(key)?;
        after.split(' ').next()?.parse::<u64>().ok()
    };
    Some(format!("{} of {}", number(", used ")?, number(", total ")?))
}
