//! `memwright check` in many environments: what its first line and its exit code must be, and what
//! they are.

mod answer;
mod guests;
mod host;
mod trees;

use crate::{lab, packages};
use std::path::PathBuf;

/// Programs that make environments, with a file that tells whether each exists.
const PACKAGES: &[(&str, &str)] = &[
    ("bubblewrap", "/usr/bin/bwrap"),
    ("busybox-static", "/bin/busybox"),
    ("lxcfs", "/usr/bin/lxcfs"),
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
];

/// Runs `check` everywhere, or in those environments whose names begin with one of `names`.
///
/// Promise (Checking): In containers, with masked /proc or /sys, in cgroups v1, v2 and hybrid, on the kernels of
/// Debian 11 to 13, and on trees of gVisor and WSL, the verdict and the exit code are right in every format.
pub(crate) fn run(names: &[String], program: Option<PathBuf>) -> anyhow::Result<()> {
    let is_wanted = |name: &str| {
        names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted.as_str()))
    };
    packages::install(PACKAGES)?;
    let binary = program.map_or_else(lab::build, Ok)?.canonicalize()?;
    let mut rows = host::rows(&binary, &is_wanted)?;
    rows.extend(trees::rows(&binary, &is_wanted)?);
    let (of_guests, absent) = guests::rows(&binary, &is_wanted)?;
    rows.extend(of_guests);
    anyhow::ensure!(!rows.is_empty(), "no environment has such a name");
    let mut failed = 0;
    for row in &rows {
        let code = row.answer.text.code;
        println!("{}: exit code {code}: {}", row.name, row.answer.text.first_line());
        if let Err(why) = &row.verdict {
            failed += 1;
            println!("  expected {}, but {why}; made by: {}", row.expected, row.made);
        }
    }
    absent.iter().for_each(|absent| println!("not there: {absent}"));
    anyhow::ensure!(failed == 0, "{failed} of {} environments have another answer", rows.len());
    println!("{} environments, each with the right first line and exit code", rows.len());
    Ok(())
}
