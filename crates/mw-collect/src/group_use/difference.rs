//! What changed between two samples.

use super::files::{CgroupCounters, GroupLimits};
use super::sample::{GroupReading, GroupSample};
use mw_model::{GroupIo, GroupUse};
use mw_proc::cgroup::{BlockDevice, DeviceBytes, DeviceLimit};
use mw_sys::kernel_file;
use std::time::Duration;

/// The most groups of a difference.
pub const MAX_USES: usize = 64;

/// Readings of the limits of a group within one sample.
const MOST_LIMITS: usize = 4;

/// A group that used at least this share of a CPU did something.
const LEAST_CPU_SHARE: u64 = 50;
/// Waits below this are of no interest: some task of a busy group always waits a little.
const LEAST_PRESSURE_US: u64 = 1_000;

impl GroupSample {
    /// Use of the groups since `earlier`: those of the service, and others in which something happened,
    /// the most eventful first; without limits.
    pub(super) fn since(&self, earlier: &Self) -> Vec<GroupUse> {
        let over = self.at.saturating_duration_since(earlier.at);
        let present = self.groups.iter().filter_map(|(path, group)| {
            let before = match earlier.groups.get(path) {
                Some(before) => Some(before),
                // It is new, and its counters began at zero.
                None if earlier.complete => None,
                None => return None,
            };
            let group_use = difference(path, group, before, over);
            (group.of_service || is_eventful(&group_use)).then_some(group_use)
        });
        // The group of a service that was killed goes with it.
        let gone = earlier
            .groups
            .iter()
            .filter(|(path, group)| group.of_service && !self.groups.contains_key(path.as_str()));
        let gone = gone.map(|(path, group)| GroupUse {
            path: path.clone(),
            of_service: true,
            over_ms: millis(over),
            frozen: group.counters.frozen,
            ..GroupUse::default()
        });
        let mut uses: Vec<GroupUse> = present.chain(gone).collect();
        uses.sort_by_cached_key(|group| std::cmp::Reverse((group.of_service, weight(group))));
        uses.truncate(MAX_USES);
        uses
    }

    /// Limits of a group of a service, the latest first.
    pub(super) fn limits(&self, path: &str) -> impl Iterator<Item = &GroupLimits> {
        self.groups.get(path).into_iter().flat_map(|group| group.limits.iter().rev())
    }

    /// Adds limits that were read later, where they differ from those before.
    pub(super) fn add_limits(&mut self, path: &str, limits: GroupLimits) {
        let Some(group) = self.groups.get_mut(path) else { return };
        if group.limits.len() < MOST_LIMITS && group.limits.last() != Some(&limits) {
            group.limits.push(limits);
        }
    }

    /// Number of groups that were read.
    pub fn groups(&self) -> usize {
        self.groups.len()
    }

    /// True if all groups were read within the limits of number and time.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

fn difference(
    path: &str,
    group: &GroupReading,
    before: Option<&GroupReading>,
    over: Duration,
) -> GroupUse {
    let (now, was) = (&group.counters, before.map(|group| &group.counters));
    let rise = |counter: fn(&CgroupCounters) -> Option<u64>| rise(counter(now), was.map(counter));
    let is_frozen = now.frozen || was.is_some_and(|was| was.frozen);
    GroupUse {
        path: path.to_owned(),
        of_service: group.of_service,
        over_ms: millis(over),
        refaults_file: rise(|counters| counters.memory.refault_file),
        refaults_anon: rise(|counters| counters.memory.refault_anon),
        pgscan: rise(|counters| counters.memory.pgscan),
        high_events: rise(|counters| counters.memory.events.high),
        max_events: rise(|counters| counters.memory.events.max),
        swap_high_events: rise(|counters| counters.memory.swap_high_events),
        memory_dirty_bytes: now.memory.dirty_bytes,
        memory_growth_bytes: growth(now.memory.held_bytes, was.map(|was| was.memory.held_bytes)),
        oom_kills: rise(|counters| counters.memory.events.oom_kill),
        cpu_us: rise(|counters| counters.cpu.usage_us),
        throttled_us: rise(|counters| counters.cpu.throttled_us),
        throttled_periods: rise(|counters| counters.cpu.throttled_periods),
        cpu_pressure_us: rise(|counters| counters.cpu_pressure_us),
        io_pressure_us: rise(|counters| counters.memory.io_pressure_us),
        memory_pressure_us: rise(|counters| counters.memory.pressure_us),
        io: io(&now.io, was.map_or(&[], |was| was.io.as_slice())),
        frozen: is_frozen,
        ..GroupUse::default()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Sets the limits that are not set yet.
pub(super) fn set_limits(group: &mut GroupUse, limits: &GroupLimits) {
    group.memory_current_bytes = group.memory_current_bytes.or(limits.memory_current_bytes);
    // That of the quota; without one, the latest that was read.
    if group.cpu_quota_us.is_none() && group.cpu_period_us.is_none() {
        group.cpu_period_us = limits.cpu_max.period_us;
    }
    group.keep_limits(&GroupUse {
        memory_max_bytes: limits.memory_max_bytes,
        memory_high_bytes: limits.memory_high_bytes,
        memory_swap_high_bytes: limits.memory_swap_high_bytes,
        cpu_quota_us: limits.cpu_max.quota_us,
        cpu_period_us: limits.cpu_max.period_us,
        io_limits: io_limits(&limits.io_max),
        ..GroupUse::default()
    });
}

/// The growth of an amount: a group that is new had nothing.
fn growth(now: Option<u64>, was: Option<Option<u64>>) -> Option<u64> {
    Some(now?.saturating_sub(was.unwrap_or(Some(0))?))
}

/// The rise of a counter. A group that was removed and created again counts from zero.
fn rise(now: Option<u64>, was: Option<Option<u64>>) -> Option<u64> {
    let now = now?;
    match was {
        None => Some(now),
        Some(was) => was.map(|was| now.checked_sub(was).unwrap_or(now)),
    }
}

fn io(now: &[DeviceBytes], was: &[DeviceBytes]) -> Vec<GroupIo> {
    let rise = |now: u64, was: u64| now.checked_sub(was).unwrap_or(now);
    let of_device = |now: &DeviceBytes| {
        let was = was.iter().find(|was| was.device == now.device).copied().unwrap_or_default();
        (now.read_bytes > 0 || now.written_bytes > 0).then(|| GroupIo {
            device: device_name(now.device),
            read_bytes: rise(now.read_bytes, was.read_bytes),
            written_bytes: rise(now.written_bytes, was.written_bytes),
        })
    };
    now.iter().filter_map(of_device).collect()
}

/// `sda rbps=2097152 wiops=120`, one text a device.
fn io_limits(limits: &[DeviceLimit]) -> Vec<String> {
    let mut lines: Vec<(BlockDevice, String)> = Vec::new();
    for DeviceLimit { device, limit } in limits {
        match lines.iter_mut().find(|(known, _)| known == device) {
            Some((_, line)) => {
                line.push(' ');
                line.push_str(limit);
            }
            None => lines.push((*device, format!("{} {limit}", device_name(*device)))),
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}

/// The kernel's name of a device, or its numbers where it is gone.
fn device_name(device: BlockDevice) -> String {
    let BlockDevice { major, minor } = device;
    let link = kernel_file::read_link(format!("/sys/dev/block/{major}:{minor}")).ok();
    let name = link.as_deref().and_then(|link| link.file_name()).and_then(|name| name.to_str());
    name.map_or_else(|| format!("{major}:{minor}"), str::to_owned)
}

fn is_eventful(group: &GroupUse) -> bool {
    let GroupUse { over_ms, cpu_us, .. } = group;
    let counters = [
        group.refaults_file,
        group.refaults_anon,
        group.pgscan,
        group.high_events,
        group.max_events,
        group.swap_high_events,
        group.oom_kills,
        group.throttled_periods,
        group.throttled_us,
    ];
    let waits = [group.cpu_pressure_us, group.io_pressure_us, group.memory_pressure_us];
    group.frozen
        || group.io.iter().any(|io| io.read_bytes > 0 || io.written_bytes > 0)
        || counters.into_iter().flatten().any(|count| count > 0)
        || waits.into_iter().flatten().any(|wait_us| wait_us >= LEAST_PRESSURE_US)
        || cpu_us.is_some_and(|cpu_us| {
            cpu_us.saturating_mul(LEAST_CPU_SHARE) >= over_ms.saturating_mul(1000)
        })
}

/// Amount of activity, about in microseconds of waiting: an order, no measure.
fn weight(group: &GroupUse) -> u64 {
    const KILLED_US: u64 = 1_000_000_000;
    const EVENT_US: u64 = 1_000;
    const REFAULT_US: u64 = 100;
    const BYTES_PER_US: u64 = 100;
    let io: u64 = group.io.iter().map(|io| io.read_bytes.saturating_add(io.written_bytes)).sum();
    [
        (Some(u64::from(group.frozen)), KILLED_US),
        (group.oom_kills, KILLED_US),
        (group.high_events, EVENT_US),
        (group.max_events, EVENT_US),
        (group.swap_high_events, EVENT_US),
        (group.refaults_file, REFAULT_US),
        (group.refaults_anon, REFAULT_US),
        (group.throttled_us, 1),
        (group.cpu_pressure_us, 1),
        (group.io_pressure_us, 1),
        (group.memory_pressure_us, 1),
        (Some(io / BYTES_PER_US), 1),
    ]
    .into_iter()
    .fold(0, |sum, (count, us)| sum.saturating_add(count.unwrap_or(0).saturating_mul(us)))
}
