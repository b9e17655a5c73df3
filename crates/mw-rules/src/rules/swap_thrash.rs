//! # swap-thrash
//!
//! Pages are swapped out and needed again at once.
//!
//! ## What it finds
//! At least 256 pages a second (1 MiB/s) are swapped in while as many are written to a swap device; or 25,600 a second
//! (100 MiB/s) are compressed by zswap and decompressed again. Where there is only one sample: half of the
//! swap is used and memory pressure (kswapd's own time included) was `full` for a tenth of the last minute; a note, or a warning
//! with less than a fifth of memory available.
//!
//! Also a program of which 256 MiB and more are in swap on a disk, while kswapd scans, pages are swapped out and in (32 a second
//! each), no cgroup swaps at its own limit, and files have 15% of memory and more in the page cache: a note, or a warning where
//! 64 pages a second are, over 5 s or more.
//!
//! A note, where pages are in swap and `vm.swappiness` is at most 10: a cgroup of version 1 whose own `memory.swappiness` is
//! higher. Groups take it from the one above when they are made (mm/memcontrol.c, `mem_cgroup_css_alloc()`).
//!
//! As the cause of a stall: pages were swapped in and out at such rates and tasks waited for memory; or
//! tasks waited for their own pages to be swapped in.
//!
//! ## Why it hurts
//! The programs' working set does not fit into memory. Everything runs at the speed of the swap device.
//! A node that has thrashed may be fragmented afterwards; fragmented-node reports that where it is so.
//!
//! ## What it looks like
//! `si` and `so` of vmstat(8) are both large; one CPU is busy with system time while programs make no
//! progress. Pages in zswap are not in `pswpin` and `pswpout`, but in `zswpin` and `zswpout` (mm/page_io.c,
//! `swap_writeout()` and `swap_read_folio()`); `zswpwb` counts what zswap writes to the device.
//!
//! ## How to fix it
//! Limit the program that outgrew the machine: with its cgroup
//! (`systemd-run -p MemoryMax=20G -p MemorySwapMax=0`), a smaller heap or a smaller buffer pool. Without
//! the second limit it thrashes inside the first: in our measurements the next job then got half of its
//! huge pages, all of them with both limits, and none without any. Swap settings only move the problem.
//!
//! Where a cgroup has most of what is in swap, and with it more than its limit, while the machine has room, its own limit
//! swaps: raise it, or forbid the cgroup swap (`memory.swap.max`; in version 1 `memory.memsw.limit_in_bytes`, of memory and
//! swap together), which a limit of memory does not bound.
//!
//! Where the kernel keeps files and swaps out a program: MySQL and MariaDB, which have a cache of their own, read past the page
//! cache with `innodb_flush_method=O_DIRECT`. Other services are protected with `MemoryLow=` of their unit (version 2).
//!
//! ## Threshold
//! Traffic in one direction is harmless: idle pages are swapped out, or come back after a peak. 1 MiB/s
//! in both directions, over a second at least, is more than such an exchange causes on an idle machine. zswap serves a
//! page in microseconds, without a device: only 100 times that rate takes a large part of a CPU, and is a warning. Ten
//! times that, or memory pressure above 10%, is critical, unless a large request is served without swap
//! all the same: then a cgroup thrashes at its own limit.
//!
//! ## References
//! Linux, Documentation/accounting/psi.rst; proc_vmstat(5).

use crate::cause_score::CauseScore;
use crate::group_settings::{GroupSetting, set};
use crate::largest_holders::program_words;
use crate::outlook;
use crate::share::percent;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::SWAP;
use mw_model::{
    Area, Cgroup, CgroupVersion, Cgroups, Finding, Missing, Process, Quantity, Remedy, Severity,
    Snapshot, Step, Subject, Sysctl, WaitKind, Window, format_bytes,
};
use mw_proc::swaps::Swap;
use mw_proc::vmstat::Counter;

const PAGES_PER_S: f64 = 256.0;
const COMPRESSED_PAGES_PER_S: f64 = 25_600.0;
const CRITICAL_PAGES_PER_S: f64 = 2560.0;
const PRESSURE_PERCENT: f64 = 10.0;
const USED_PERCENT: f64 = 50.0;
/// Less available memory is short.
const SHORT_PERCENT: f64 = 20.0;
/// Traffic of swap beside a page cache of this share of memory.
const BESIDE_PAGES_PER_S: f64 = 32.0;
const STEADY_PAGES_PER_S: f64 = 64.0;
const LONG_MS: f64 = 5000.0;
const CACHE_PERCENT: f64 = 15.0;

const SWAPPINESS: &str = "vm.swappiness";
/// A machine with this swappiness, or less, is meant to swap little.
const MOST_OF_LITTLE: u64 = 10;
/// Less in swap is not worth a finding.
const LEAST_SWAPPED: u64 = 256 << 20;

/// The highest score while pages are only swapped in.
const ONE_WAY_MOST: f64 = 85.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let mut found = thrashing(window)?;
    if found.is_empty() {
        found.extend(beside_page_cache(window));
    }
    found.extend(own_swappiness(&window.now));
    Ok(found)
}

/// A group that swaps as it was made to, while the machine is set to swap little.
fn own_swappiness(snapshot: &Snapshot) -> Option<Finding> {
    let cgroups = snapshot.cgroups.value()?;
    let of_machine =
        snapshot.sysctl.number(SWAPPINESS).ok().filter(|value| *value <= MOST_OF_LITTLE)?;
    let meminfo = snapshot.sample.meminfo.value()?;
    let used = meminfo.swap_total_bytes?.saturating_sub(meminfo.swap_free_bytes?);
    if used < LEAST_SWAPPED {
        return None;
    }
    let more = cgroups.swappiness.iter().filter(|(_, value)| *value > of_machine);
    let (path, value) = more.max_by_key(|(_, value)| *value)?;
    let file = format!("{}{path}/memory.swappiness", cgroups.mount);
    let headline =
        format!("memory.swappiness of the group is {value}, although {SWAPPINESS} is {of_machine}");
    let finding =
        Finding::new(Severity::Note, Subject::Cgroup(Some(path.clone())), headline)
            .with_evidence("memory.swappiness", Quantity::Count(*value), file.clone())
            .with_evidence(SWAPPINESS, Quantity::Count(of_machine), Sysctl::path(SWAPPINESS))
            .with_evidence("swap in use", Quantity::Bytes(used), "/proc/meminfo")
            .with_impact(
                "With version 1 each cgroup swaps by its own setting, which it got when it was made, and which \
                 vm.swappiness changes for the root alone.",
            )
            .with_remedy(Remedy::named(
                "set it in the group and those below it",
                vec![Step::manual(format!("echo {of_machine} > {file}"))],
            ));
    Some(finding)
}

/// A program in swap while the machine's reclaim swaps out and in, and the page cache stays large.
fn beside_page_cache(window: &Window) -> Option<Finding> {
    let snapshot = &window.now;
    let swaps = snapshot.swaps.value()?;
    if !window.is_sustained() || swaps.iter().any(Swap::is_zram) || limited(snapshot).is_some() {
        return None;
    }
    let rate = |counter| window.rate(counter).ok();
    let (into, out) = (rate(Counter::Pswpin)?, rate(Counter::Pswpout)?);
    let is_by_kswapd = rate(Counter::PgscanKswapd)? >= out;
    let meminfo = snapshot.sample.meminfo.value()?;
    let cache = meminfo.active_file_bytes?.saturating_add(meminfo.inactive_file_bytes?);
    let is_large = percent(cache, meminfo.mem_total_bytes?) >= CACHE_PERCENT;
    if into.min(out) < BESIDE_PAGES_PER_S || !is_by_kswapd || !is_large {
        return None;
    }
    let processes = snapshot.processes.value()?.list.iter();
    let of_process = |process: &Process| Some((process.status.vm_swap_bytes?, process.status.pid?));
    let most = processes.filter_map(|process| Some((process, of_process(process)?)));
    let (process, (swapped, pid)) = most.max_by_key(|(_, (swapped, _))| *swapped)?;
    if swapped < LEAST_SWAPPED {
        return None;
    }
    let name = &process.status.name;
    let headline = format!(
        "{name} ({pid}) has {} in swap and pages are swapped out and in, while files have {} in the page cache",
        format_bytes(swapped),
        format_bytes(cache)
    );
    let is_long = window.span_ms().is_some_and(|ms| ms >= LONG_MS);
    let is_steady = is_long && into.min(out) >= STEADY_PAGES_PER_S;
    let severity = if is_steady { Severity::Warning } else { Severity::Note };
    let finding = Finding::new(severity, Area::Swap, headline)
        .with_evidence("VmSwap", Quantity::Bytes(swapped), format!("/proc/{pid}/status"))
        .with_evidence("Active(file) and Inactive(file)", Quantity::Bytes(cache), "/proc/meminfo")
        .with_evidence("pswpin", Quantity::PerSecond(into), "/proc/vmstat")
        .with_evidence("pswpout", Quantity::PerSecond(out), "/proc/vmstat")
        .with_impact("Requests wait for pages of programs, although memory that could be freed is in the page cache.");
    let has_own_cache = ["mysqld", "mariadbd"].contains(&name.as_str());
    let remedy = if has_own_cache {
        Remedy::named(
            "let it read past the page cache, since it has a cache of its own",
            vec![Step::manual(
                "innodb_flush_method=O_DIRECT in its configuration, then restart it",
            )],
        )
    } else {
        Remedy::named(
            "protect the memory of the service, or limit the cgroup that reads the files",
            vec![Step::manual("systemctl set-property UNIT MemoryLow=SIZE")],
        )
    };
    Some(finding.with_remedy(remedy))
}

fn thrashing(window: &Window) -> Result<Vec<Finding>, Missing> {
    let swaps = window.now.swaps.required()?;
    if swaps.is_empty() {
        return Ok(Vec::new());
    }
    let pressure = window.now.sample.pressure.memory.required();
    let some = pressure.as_ref().map_or(0.0, |p| p.some.avg10_percent);
    let traffic = match (SwapTraffic::new(|counters| window.rate_of(counters)), pressure) {
        (Ok(traffic), _) => traffic,
        (Err(_), Ok(pressure)) => {
            let stopped = pressure.full.map_or(0.0, |full| full.avg60_percent);
            return Ok(after_the_fact(window, stopped).into_iter().collect());
        }
        (Err(missing), Err(_)) => return Err(missing),
    };
    if !traffic.is_on_device() && !traffic.is_compressed() {
        return Ok(Vec::new());
    }
    let per_s = traffic.device_in + traffic.device_out;
    let heavy = per_s >= CRITICAL_PAGES_PER_S || some >= PRESSURE_PERCENT;
    let heavy = heavy && traffic.is_on_device();
    let severity = match (window.is_sustained(), outlook::is_served(&window.now)) {
        (false, _) => Severity::Note,
        (true, false) if heavy => Severity::Critical,
        _ => Severity::Warning,
    };
    let finding = Finding::new(severity, Area::Swap, traffic.headline());
    let finding = traffic.add_evidence(finding).with_evidence(
        "memory pressure, some, 10 s",
        Quantity::Percent(some),
        "/proc/pressure/memory",
    );
    Ok(vec![complete(finding, &window.now)])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    if stall.window.now.swaps.required()?.is_empty() {
        return Ok(None);
    }
    let traffic = SwapTraffic::new(|counters| stall.rate(counters)).unwrap_or_default();
    let both_ways = traffic.is_on_device() || traffic.is_compressed();
    let base = if both_ways { CauseScore::for_reclaim(stall) } else { CauseScore::new(stall) };
    let score = base
        .waits(&[WaitKind::Swap])
        .blocked_in(SWAP)
        .rate("pswpin and pswpout", &[Counter::Pswpin, Counter::Pswpout], PAGES_PER_S * 2.0)
        .rate(
            "zswpin and zswpout",
            &[Counter::Zswpin, Counter::Zswpout],
            COMPRESSED_PAGES_PER_S * 2.0,
        )
        .at_most(if both_ways { 100.0 } else { ONE_WAY_MOST });
    let waited = score.longest_waiter().is_some() || stall.blocked_in(SWAP).is_some();
    if !both_ways && !waited {
        return score.no_cause();
    }
    let headline =
        if both_ways { "pages were swapped out and in again" } else { "tasks waited for swap-in" };
    let finding = Finding::new(Severity::Critical, Area::Swap, headline);
    score.cause(complete(traffic.add_evidence(finding), &stall.window.now))
}

/// Pages a second that go to swap and come back.
#[derive(Default)]
struct SwapTraffic {
    device_in: f64,
    device_out: f64,
    decompressed: f64,
    compressed: f64,
    written_back: f64,
}

impl SwapTraffic {
    fn new(rate: impl Fn(&[Counter]) -> Result<f64, Missing>) -> Result<Self, Missing> {
        // A kernel without zswap lacks its counters.
        let of_zswap = |counter| rate(&[counter]).unwrap_or(0.0);
        Ok(Self {
            device_in: rate(&[Counter::Pswpin])?,
            device_out: rate(&[Counter::Pswpout])?,
            decompressed: of_zswap(Counter::Zswpin),
            compressed: of_zswap(Counter::Zswpout),
            written_back: of_zswap(Counter::Zswpwb),
        })
    }

    /// True if a swap device is written to while pages come back, if only from zswap, which is too small then.
    fn is_on_device(&self) -> bool {
        let from_device = self.device_in.min(self.device_out);
        let from_zswap = self.decompressed.min(self.written_back);
        from_device >= PAGES_PER_S || from_zswap >= PAGES_PER_S
    }

    /// True if zswap takes a large part of a CPU.
    fn is_compressed(&self) -> bool {
        self.decompressed.min(self.compressed) >= COMPRESSED_PAGES_PER_S
    }

    fn headline(&self) -> String {
        match self.is_on_device() {
            true => format!(
                "{:.0} pages a second are swapped out while {:.0} are swapped in",
                self.device_out,
                self.device_in + self.decompressed
            ),
            false => format!(
                "zswap compresses {:.0} pages a second while it decompresses {:.0}",
                self.compressed, self.decompressed
            ),
        }
    }

    fn add_evidence(&self, finding: Finding) -> Finding {
        let finding = finding
            .with_evidence("pswpin", Quantity::PerSecond(self.device_in), "/proc/vmstat")
            .with_evidence("pswpout", Quantity::PerSecond(self.device_out), "/proc/vmstat");
        if self.decompressed + self.compressed <= 0.0 {
            return finding;
        }
        finding
            .with_evidence("zswpin", Quantity::PerSecond(self.decompressed), "/proc/vmstat")
            .with_evidence("zswpout", Quantity::PerSecond(self.compressed), "/proc/vmstat")
            .with_evidence("zswpwb", Quantity::PerSecond(self.written_back), "/proc/vmstat")
    }
}

/// Without a rate: swap that is in use, and pressure, which contains kswapd's own time.
fn after_the_fact(window: &Window, stopped_percent: f64) -> Option<Finding> {
    let meminfo = window.now.sample.meminfo.value()?;
    let total = meminfo.swap_total_bytes?;
    let used = total.saturating_sub(meminfo.swap_free_bytes?);
    if percent(used, total) < USED_PERCENT || stopped_percent < PRESSURE_PERCENT {
        return None;
    }
    let headline = format!(
        "swap is {:.0}% used, and memory pressure was full for {stopped_percent:.0}% of the last minute",
        percent(used, total)
    );
    let share = |bytes| Some(percent(bytes, meminfo.mem_total_bytes?));
    let available = meminfo.mem_available_bytes.and_then(share);
    let is_short = available.is_some_and(|percent| percent < SHORT_PERCENT);
    let severity = if is_short { Severity::Warning } else { Severity::Note };
    let finding = Finding::new(severity, Area::Swap, headline)
        .with_evidence("swap used", Quantity::Bytes(used), "/proc/meminfo")
        .with_evidence(
            "memory pressure, full, 60 s",
            Quantity::Percent(stopped_percent),
            "/proc/pressure/memory",
        );
    Some(complete(finding, &window.now))
}

fn complete(finding: Finding, snapshot: &Snapshot) -> Finding {
    let finding = finding.with_impact("Programs run at the speed of the swap device.");
    if let Some(swapping) = limited(snapshot) {
        return swapping.complete(finding);
    }
    finding.with_remedy(Remedy::named(
        format!(
            "limit the memory of the program that outgrew the machine{}",
            program_words(snapshot)
        ),
        vec![Step::manual("systemd-run -p MemoryMax=SIZE -p MemorySwapMax=0 COMMAND")],
    ))
}

/// A cgroup whose limit swaps.
struct LimitedSwap<'a> {
    groups: &'a Cgroups,
    group: &'a Cgroup,
    limit_bytes: u64,
    swap_bytes: u64,
}

/// The cgroup that has most of what is in swap, and with it more than its limit, where the machine itself has room: its own
/// reclaim swaps. A limit of memory does not bound swap: memory.swap.max does, and in version 1 the limit of both together.
fn limited(snapshot: &Snapshot) -> Option<LimitedSwap<'_>> {
    if !outlook::is_served(snapshot) {
        return None;
    }
    let meminfo = snapshot.sample.meminfo.value()?;
    let used = meminfo.swap_total_bytes?.saturating_sub(meminfo.swap_free_bytes?);
    let groups = snapshot.cgroups.value()?;
    let limited = groups.limited.iter().filter_map(|group| {
        let (limit_bytes, swap_bytes) = (group.max_bytes?, in_swap(group, groups.version)?);
        let wants = group.current_bytes?.saturating_add(swap_bytes);
        let is_it = wants > limit_bytes && percent(swap_bytes, used) >= USED_PERCENT;
        is_it.then_some(LimitedSwap { groups, group, limit_bytes, swap_bytes })
    });
    limited.max_by_key(|swapping| swapping.swap_bytes)
}

/// What a cgroup has in swap, in bytes. Version 1 counts memory and swap together.
fn in_swap(group: &Cgroup, version: CgroupVersion) -> Option<u64> {
    match version {
        CgroupVersion::V1 => group.swap_current_bytes?.checked_sub(group.current_bytes?),
        CgroupVersion::V2 => group.swap_current_bytes,
    }
}

impl LimitedSwap<'_> {
    fn complete(&self, finding: Finding) -> Finding {
        let (limit, swap) = (format_bytes(self.limit_bytes), format_bytes(self.swap_bytes));
        let (file, or) = match self.groups.version {
            CgroupVersion::V1 => ("memory.memsw.usage_in_bytes", "limit memory and swap together"),
            CgroupVersion::V2 => ("memory.swap.current", "forbid it swap"),
        };
        let settings = [GroupSetting::MemoryMax, GroupSetting::SwapMax];
        let set = |setting| set(setting, None, Some(&self.group.path), Some(self.groups));
        finding
            .with_evidence(
                format!("in swap of {}", self.group.path),
                Quantity::Bytes(self.swap_bytes),
                file,
            )
            .with_evidence(
                "its limit",
                Quantity::Bytes(self.limit_bytes),
                self.groups.limit_file(self.group, self.limit_bytes),
            )
            .with_remedy(Remedy::named(
                format!(
                    "raise the memory limit of cgroup {} ({limit}), which has {swap} in swap beside it; or {or}, so that it \
                     is killed at its limit",
                    self.group.path
                ),
                settings.map(set).into(),
            ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::Reading;
    use mw_proc::meminfo::Meminfo;

    const MIB: u64 = 1 << 20;

    fn snapshot(current_mib: u64, swap_mib: u64, available_mib: u64) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.sample.meminfo = Reading::Value(Meminfo {
            mem_total_bytes: Some(8192 * MIB),
            mem_free_bytes: Some(available_mib * MIB),
            mem_available_bytes: Some(available_mib * MIB),
            swap_total_bytes: Some(2048 * MIB),
            swap_free_bytes: Some(1748 * MIB),
            ..Meminfo::default()
        });
        let group = Cgroup {
            path: "/app".to_owned(),
            current_bytes: Some(current_mib * MIB),
            max_bytes: Some(64 * MIB),
            swap_current_bytes: Some(swap_mib * MIB),
            ..Cgroup::default()
        };
        snapshot.cgroups = Reading::Value(Cgroups {
            mount: "/sys/fs/cgroup".to_owned(),
            limited: vec![group],
            ..Cgroups::default()
        });
        snapshot
    }

    /// Promise (Findings): Where a cgroup's own limit swaps, the remedy is about that limit, and not about the machine.
    #[test]
    fn a_limit_that_swaps_is_named() {
        let remedy = |snapshot: &Snapshot| {
            let finding = complete(Finding::new(Severity::Warning, Area::Swap, ""), snapshot);
            format!("{:?}", finding.remedy)
        };
        assert!(remedy(&snapshot(60, 200, 5000)).contains("/app (64 MiB), which has 200 MiB"));
        assert!(!remedy(&snapshot(60, 2, 5000)).contains("/app"), "others have the swap");
        assert!(!remedy(&snapshot(20, 40, 5000)).contains("/app"), "all of it fits");
        assert!(!remedy(&snapshot(60, 200, 50)).contains("/app"), "the machine is short");
        let mut old = snapshot(60, 260, 5000);
        if let Reading::Value(cgroups) = &mut old.cgroups {
            cgroups.version = CgroupVersion::V1;
        }
        let remedy = remedy(&old);
        assert!(remedy.contains("/app (64 MiB), which has 200 MiB in swap"), "{remedy}");
        assert!(remedy.contains("memory.memsw.limit_in_bytes"), "{remedy}");
    }
}
