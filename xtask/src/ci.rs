//! Everything that has to pass, in one command.

use crate::{arch, cargo, docs, lab, promises};
use anyhow::Context;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Debian packages that the tests use, each with a program or file that tells whether it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("busybox-static", "/bin/busybox"),
    ("binutils", "/usr/bin/strip"),
    ("gcc", "/usr/bin/gcc"),
    ("libc6-dev", "/usr/include/stdio.h"),
    ("make", "/usr/bin/make"),
    ("pkg-config", "/usr/bin/pkg-config"),
    ("zstd", "/usr/bin/zstd"),
];

/// A step: its name and what it does.
type Step = (&'static str, fn() -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("lint", || {
        cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("build", || cargo(&["build", "--locked", "--workspace"])),
    ("test", || cargo(&["test", "--locked", "--workspace"])),
    ("preflight's answers", || {
        let bench = ["bench", "--locked", "--package", "mw-collect", "--bench"];
        cargo(&[&bench[..], &["preflight_accuracy", "--", "--answers", "--assert"]].concat())
    }),
    ("lab: field reports and decoys", lab::ci),
    ("documentation", || docs::run(true)),
    ("promises", promises::run),
    ("architecture", arch::run),
];

pub(crate) fn run() -> anyhow::Result<()> {
    install()?;
    let started = Instant::now();
    for (name, step) in STEPS {
        let begun = Instant::now();
        println!("== {name}");
        step().with_context(|| format!("step '{name}'"))?;
        println!("== {name}: {:.0} s", begun.elapsed().as_secs_f64());
    }
    println!("== all passed in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Installs what is missing, or says exactly what to install.
fn install() -> anyhow::Result<()> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(_, file)| !std::path::Path::new(file).exists())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "the tests need packages that are not installed; run: sudo apt-get install {list}"
    );
    println!("== installing {list}");
    let apt = |args: &[&str]| -> anyhow::Result<()> {
        let status = Command::new("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("apt-get; install by hand: {list}"))?;
        anyhow::ensure!(status.success(), "apt-get {} failed", args.join(" "));
        Ok(())
    };
    apt(&["update"])?;
    apt(&[&["install", "-y", "--no-install-recommends"], missing.as_slice()].concat())
}
