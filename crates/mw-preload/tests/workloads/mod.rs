//! Workloads of well-known programs: each starts, works and ends, and its output is recorded. The tests
//! run them with little memory, with and without the library, and compare the output; `cargo bench -p
//! mw-preload
//! --bench programs` runs them with much memory, and writes how long each part took.

#![allow(dead_code, unused_imports, reason = "tests and benches use parts")]

mod fio;
mod harness;
mod jvm;
mod mariadb;
pub(crate) mod postgres;
mod qemu;
mod redis;
mod stress_ng;

pub(crate) use harness::{Harness, NOBODY, Outcome, Scale, Service, unprivileged, wait_until};

/// An option of `memwright run`, and the variable that it sets.
pub(crate) struct RunOption {
    pub(crate) text: &'static str,
    pub(crate) variable: (&'static str, &'static str),
}

const PREFAULT: RunOption = RunOption { text: "--prefault", variable: ("MEMWRIGHT_PREFAULT", "1") };
const PREFAULT_NOW: RunOption =
    RunOption { text: "--prefault=now", variable: ("MEMWRIGHT_PREFAULT", "now") };
const HUGE: RunOption = RunOption { text: "--huge auto", variable: ("MEMWRIGHT_HUGE", "auto") };
const LOCK: RunOption = RunOption { text: "--lock", variable: ("MEMWRIGHT_LOCK", "1") };

/// The options of one run under `memwright run`.
pub(crate) struct Variant {
    pub(crate) options: &'static [RunOption],
    /// True if the library reports parallel calls: the program makes large calls itself, and its processes
    /// end such that the library can report.
    pub(crate) has_calls: bool,
}

const fn variant(options: &'static [RunOption]) -> Variant {
    Variant { options, has_calls: true }
}

const fn variant_without_calls(options: &'static [RunOption]) -> Variant {
    Variant { options, has_calls: false }
}

/// A program, and how it is run.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// Its configuration, for the table.
    pub(crate) about: &'static str,
    /// The runs with the library.
    pub(crate) variants: &'static [Variant],
    /// None if the program is not installed.
    pub(crate) run: fn(&Harness) -> Option<()>,
}

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "PostgreSQL, mmap",
        about: "`shared_memory_type=mmap`; killed (-9) while pgbench runs",
        variants: &[variant_without_calls(&[PREFAULT]), variant(&[PREFAULT_NOW])],
        run: |harness| postgres::run_workload(harness, "mmap"),
    },
    Workload {
        name: "PostgreSQL, sysv",
        about: "`shared_memory_type=sysv`; killed (-9) while pgbench runs",
        variants: &[variant_without_calls(&[PREFAULT]), variant(&[PREFAULT_NOW])],
        run: |harness| postgres::run_workload(harness, "sysv"),
    },
    Workload {
        name: "MariaDB",
        about: "`--memlock`; killed (-9) while it inserts",
        variants: &[variant(&[]), variant(&[HUGE]), variant(&[LOCK])],
        run: mariadb::run_workload,
    },
    Workload {
        name: "Redis",
        about: "saves by fork",
        variants: &[variant_without_calls(&[]), variant_without_calls(&[PREFAULT])],
        run: redis::run_workload,
    },
    Workload {
        name: "JVM, serial collector",
        about: "`-XX:+AlwaysPreTouch`: one thread touches the heap",
        variants: &[
            variant_without_calls(&[]),
            variant_without_calls(&[PREFAULT]),
            variant_without_calls(&[PREFAULT, HUGE]),
            variant(&[PREFAULT_NOW, HUGE]),
        ],
        run: |harness| jvm::run_workload(harness, "-XX:+UseSerialGC"),
    },
    Workload {
        name: "JVM, G1",
        about: "`-XX:+AlwaysPreTouch`: parallel threads touch the heap",
        variants: &[
            variant_without_calls(&[]),
            variant_without_calls(&[PREFAULT]),
            variant(&[PREFAULT_NOW]),
        ],
        run: |harness| jvm::run_workload(harness, "-XX:+UseG1GC"),
    },
    Workload {
        name: "QEMU, ram",
        about: "`memory-backend-ram,prealloc=on`, stopped before its first instruction",
        variants: &[variant(&[]), variant(&[PREFAULT, HUGE])],
        run: |harness| qemu::run_workload(harness, "memory-backend-ram"),
    },
    Workload {
        name: "QEMU, memfd",
        about: "`memory-backend-memfd,share=on,prealloc=on`",
        variants: &[variant(&[])],
        run: |harness| qemu::run_workload(harness, "memory-backend-memfd"),
    },
    Workload {
        name: "stress-ng",
        about: "its memory stressors with `--verify`, one after the other",
        variants: &[variant_without_calls(&[]), variant_without_calls(&[PREFAULT, HUGE])],
        run: stress_ng::run_workload,
    },
    Workload {
        name: "fio, ext4",
        about: "`verify=crc32c`, memory locked with `lockmem`",
        variants: &[variant(&[])],
        run: |harness| fio::run_workload(harness, "ext4"),
    },
    Workload {
        name: "fio, xfs",
        about: "as for ext4",
        variants: &[variant(&[])],
        run: |harness| fio::run_workload(harness, "xfs"),
    },
    Workload {
        name: "fio, tmpfs",
        about: "as for ext4",
        variants: &[variant(&[])],
        run: |harness| fio::run_workload(harness, "tmpfs"),
    },
];
