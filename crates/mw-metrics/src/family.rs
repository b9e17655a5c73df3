//! The table of all metrics.

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Gauge,
    Counter,
    Histogram,
    /// A gauge of value 1 whose labels are the information.
    Info,
}

impl MetricKind {
    /// As in a TYPE line of OpenMetrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// With the suffix `_total` of a counter and `_info` of an info.
    pub name: &'static str,
    pub kind: MetricKind,
    /// The base unit, the name's last word before the suffix, or empty.
    pub unit: &'static str,
    pub labels: &'static [&'static str],
    /// True if only the recorder has it.
    pub recorder_only: bool,
    pub help: &'static str,
}

macro_rules! families {
    ($($constant:ident $name:literal $kind:ident $unit:literal [$($label:literal)*] $only:literal $help:literal)*) => {
        $(
            pub(crate) const $constant: &Family = &Family {
                name: $name,
                kind: MetricKind::$kind,
                unit: $unit,
                labels: &[$($label),*],
                recorder_only: $only,
                help: $help,
            };
        )*

        /// All metrics, in the order in which they are written.
        pub const FAMILIES: &[&Family] = &[$($constant),*];
    };
}

families! {
    BUILD "memwright_build_info" Info "" ["version"] false
        "Version of memwright."
    CHECKED "memwright_checked" Gauge "" [] false
        "1 if the machine could be checked, 0 if what a check needs could not be read."
    CHECK_TIME "memwright_check_timestamp_seconds" Gauge "seconds" [] false
        "When the memory metrics were read, in seconds since 1970."
    FINDING "memwright_finding" Gauge "" ["rule" "severity"] false
        "Findings of a rule; absent without findings."
    RULES "memwright_rules" Gauge "" ["state"] false
        "Rules by outcome: found, passed, or unchecked because a file could not be read."
    MEMORY "memwright_memory_bytes" Gauge "bytes" [] false
        "Memory of the machine."
    READY "memwright_ready_bytes" Gauge "bytes" [] false
        "Memory available on the machine without writeback or swap."
    ALLOCATABLE "memwright_allocatable_bytes" Gauge "bytes" ["numa_node" "page_size"] false
        "Largest request from one NUMA node that memwright check --for answers with yes, for a process without limits of its own."
    SECONDS_PER_GIB "memwright_allocation_seconds_per_gib" Gauge "" ["page_size"] false
        "Expected time in which one thread populates 1 GiB, measured on at most 64 MiB."
    UNUSABLE "memwright_unusable_free_ratio" Gauge "ratio" ["numa_node" "zone" "order"] false
        "Share of a zone's free memory in blocks too small for a request of this order (the kernel's unusable free space index)."
    EXHAUSTION "memwright_exhaustion_seconds" Gauge "seconds" ["supply" "page_size"] false
        "Expected time until huge pages run out, by the recorder's hourly forecast: of the pool, or of the pool and what it can be grown by. Absent where they do not decline steadily."
    HELD "memwright_held_bytes" Gauge "bytes" ["numa_node" "by"] false
        "Memory that reclaim cannot free without swap: shared (tmpfs, System V segments, memfds), mlock, hugetlb pools. Locked shared memory counts in both."
    HUGE_PAGES "memwright_hugepages" Gauge "" ["page_size" "state"] false
        "Pages of the hugetlb pools: available (free and not reserved), reserved, used, and surplus (part of used or free)."
    SETTING "memwright_setting" Gauge "" ["name"] false
        "Value of a kernel setting below /proc/sys."
    POOL "memwright_pool_bytes" Gauge "bytes" ["pool" "state"] true
        "Memory of the pools of memwright pool."
    STALLS "memwright_stalls_total" Counter "" ["probe" "cause"] true
        "Stalls by probe and by the rule that explains most of them; unknown if none does."
    STALL_SECONDS "memwright_stall_seconds" Histogram "seconds" ["probe"] true
        "Duration of stalls."
    BLAME "memwright_blame_seconds_total" Counter "seconds" ["victim" "culprit" "cause"] true
        "Time that victims lost in stalls, by culprit and by rule. The culprit is the victim where it met a limit of its own, and unknown where the evidence proves none. Of 64 combinations each has a series; others is the sum of the rest."
    PRESSURE "memwright_pressure_seconds_total" Counter "seconds" ["victim" "resource" "origin"] true
        "Time that some task of the cgroup of a probed service waited for memory, io or cpu (pressure stall information of cgroup v2), by who made it wait: own-limit, limit-above (of a group above), itself, neighbour, machine (its own reclaim), unknown."
    STALLS_OPEN "memwright_stalls_open" Gauge "" ["probe"] true
        "Stalls that have begun and are not yet over and explained."
    RECORDING "memwright_recording_up" Gauge "" [] true
        "1 if the recording is being written, 0 if something prevents it."
    SAMPLE_TIME "memwright_sample_timestamp_seconds" Gauge "seconds" [] true
        "When the recorder last sampled the counters, in seconds since 1970."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        for family in FAMILIES {
            let name = family.name;
            assert!(name.starts_with("memwright_"), "{name}");
            assert_eq!(name.ends_with("_total"), family.kind == MetricKind::Counter, "{name}");
            assert_eq!(name.ends_with("_info"), family.kind == MetricKind::Info, "{name}");
            assert!(name.trim_end_matches("_total").ends_with(family.unit), "{name}");
            assert!(!family.labels.contains(&"node"), "{name}: Kubernetes has that label");
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{name}");
        }
    }
}
