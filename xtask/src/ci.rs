//! Everything that has to pass, in one command.

use crate::{arch, cargo, docs, environments, lab, packages, promises, suites, test_all, units};
use anyhow::Context;
use std::time::Instant;

/// Debian packages that the tests use, each with a program or file that tells whether it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("busybox-static", "/bin/busybox"),
    ("bindfs", "/usr/bin/bindfs"),
    ("binutils", "/usr/bin/strip"),
    ("gcc", "/usr/bin/gcc"),
    ("libc6-dev", "/usr/include/stdio.h"),
    ("make", "/usr/bin/make"),
    ("chromium", "/usr/bin/chromium"),
    ("clang", "/usr/bin/clang"),
    ("libclang-rt-dev", "/usr/share/doc/libclang-rt-dev"),
    ("mariadb-server", "/usr/sbin/mariadbd"),
    ("pkg-config", "/usr/bin/pkg-config"),
    ("postgresql", "/usr/share/doc/postgresql"),
    ("python3-venv", "/usr/share/doc/python3-venv"),
    ("zstd", "/usr/bin/zstd"),
    ("redis-server", "/usr/bin/redis-server"),
    ("strace", "/usr/bin/strace"),
    ("systemd", "/usr/bin/systemd-analyze"),
    ("xfsprogs", "/usr/sbin/mkfs.xfs"),
    ("btrfs-progs", "/usr/sbin/mkfs.btrfs"),
    ("fio", "/usr/bin/fio"),
    ("stress-ng", "/usr/bin/stress-ng"),
    ("default-jdk-headless", "/usr/bin/javac"),
];

/// A step: its name and what it does.
type Step = (&'static str, fn() -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("lint", || {
        cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("build", || cargo(&["build", "--locked", "--workspace"])),
    ("documentation", || docs::run(true)),
    ("promises", promises::run),
    ("architecture", arch::run),
    ("systemd units", units::run),
    ("test", test_all::run),
    ("preflight's answers", || {
        let bench = ["bench", "--locked", "--package", "mw-collect", "--bench"];
        cargo(&[&bench[..], &["preflight_accuracy", "--", "--answers", "--assert"]].concat())
    }),
    ("lab: field reports and decoys", lab::quick),
];

/// What `--full` adds.
const MORE_STEPS: &[Step] = &[
    ("check in other environments", || environments::run(&[], None, false)),
    ("lab: every case", lab::full),
    ("other people's test suites", || suites::run(&suites::Choice::default())),
];

pub(crate) fn run(full: bool) -> anyhow::Result<()> {
    packages::install(PACKAGES)?;
    let started = Instant::now();
    for (name, step) in STEPS.iter().chain(if full { MORE_STEPS } else { &[] }) {
        let begun = Instant::now();
        println!("== {name}");
        step().with_context(|| format!("step '{name}'"))?;
        println!("== {name}: {:.0} s", begun.elapsed().as_secs_f64());
    }
    println!("== all passed in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
