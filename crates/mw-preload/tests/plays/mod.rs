//! Programs that people run, each played through: it starts, works, ends, and what it said is kept.
//! The tests play them small, with the library and without, and want the same said; `cargo bench -p
//! mw-preload --bench programs` plays them large, and writes how long each part took.

#![allow(dead_code, unused_imports, reason = "tests and benches use parts")]

mod fio;
mod jvm;
mod mariadb;
pub(crate) mod postgres;
mod qemu;
mod redis;
mod stage;
mod stress_ng;

pub(crate) use stage::{NOBODY, Outcome, Scale, Service, Stage, unprivileged, wait_until};

/// An option of `memwright run`, and the variable that it sets.
pub(crate) struct RunOption {
    pub(crate) text: &'static str,
    pub(crate) variable: (&'static str, &'static str),
}

const PREFAULT: RunOption = RunOption { text: "--prefault", variable: ("MEMWRIGHT_PREFAULT", "1") };
const HUGE: RunOption = RunOption { text: "--huge auto", variable: ("MEMWRIGHT_HUGE", "auto") };
const LOCK: RunOption = RunOption { text: "--lock", variable: ("MEMWRIGHT_LOCK", "1") };

/// What `memwright run` is told.
pub(crate) struct Way {
    pub(crate) options: &'static [RunOption],
    /// Whether the library is seen to help: what the program maps and locks itself is large, and its
    /// processes end in a way that lets the library say so.
    pub(crate) helps: bool,
}

const fn way(options: &'static [RunOption]) -> Way {
    Way { options, helps: true }
}

const fn way_without_help(options: &'static [RunOption]) -> Way {
    Way { options, helps: false }
}

/// A program, and how it is played.
pub(crate) struct Play {
    pub(crate) name: &'static str,
    /// What is special about it, for the table.
    pub(crate) about: &'static str,
    /// How it is played with the library.
    pub(crate) ways: &'static [Way],
    /// None where the program is not there.
    pub(crate) play: fn(&Stage) -> Option<()>,
}

pub(crate) const PLAYS: &[Play] = &[
    Play {
        name: "PostgreSQL, mmap",
        about: "`shared_memory_type=mmap`; killed (-9) while pgbench runs",
        ways: &[way(&[PREFAULT])],
        play: |stage| postgres::play(stage, "mmap"),
    },
    Play {
        name: "PostgreSQL, sysv",
        about: "`shared_memory_type=sysv`; killed (-9) while pgbench runs",
        ways: &[way(&[PREFAULT])],
        play: |stage| postgres::play(stage, "sysv"),
    },
    Play {
        name: "MariaDB",
        about: "`--memlock`; killed (-9) while it inserts",
        ways: &[way(&[]), way(&[HUGE]), way(&[LOCK])],
        play: mariadb::play,
    },
    Play {
        name: "Redis",
        about: "saves by fork",
        ways: &[way_without_help(&[])],
        play: redis::play,
    },
    Play {
        name: "JVM, serial collector",
        about: "`-XX:+AlwaysPreTouch`: one thread touches the heap",
        ways: &[way_without_help(&[]), way(&[PREFAULT]), way(&[PREFAULT, HUGE])],
        play: |stage| jvm::play(stage, "-XX:+UseSerialGC"),
    },
    Play {
        name: "JVM, G1",
        about: "`-XX:+AlwaysPreTouch`: parallel threads touch the heap",
        ways: &[way_without_help(&[]), way(&[PREFAULT])],
        play: |stage| jvm::play(stage, "-XX:+UseG1GC"),
    },
    Play {
        name: "QEMU, ram",
        about: "`memory-backend-ram,prealloc=on`, stopped before its first instruction",
        ways: &[way(&[]), way(&[PREFAULT, HUGE])],
        play: |stage| qemu::play(stage, "memory-backend-ram"),
    },
    Play {
        name: "QEMU, memfd",
        about: "`memory-backend-memfd,share=on,prealloc=on`",
        ways: &[way(&[])],
        play: |stage| qemu::play(stage, "memory-backend-memfd"),
    },
    Play {
        name: "stress-ng",
        about: "its memory stressors with `--verify`, one after the other",
        ways: &[way_without_help(&[]), way_without_help(&[PREFAULT, HUGE])],
        play: stress_ng::play,
    },
    Play {
        name: "fio, ext4",
        about: "`verify=crc32c`, memory locked with `lockmem`",
        ways: &[way(&[])],
        play: |stage| fio::play(stage, "ext4"),
    },
    Play {
        name: "fio, xfs",
        about: "as for ext4",
        ways: &[way(&[])],
        play: |stage| fio::play(stage, "xfs"),
    },
    Play {
        name: "fio, tmpfs",
        about: "as for ext4",
        ways: &[way(&[])],
        play: |stage| fio::play(stage, "tmpfs"),
    },
];
