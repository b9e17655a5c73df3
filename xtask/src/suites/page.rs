//! docs/suites.md.

use super::{Compared, Difference, OPTION_SETS};
use crate::root;
use anyhow::Context;
use std::fmt::Write;

const PAGE: &str = "docs/suites.md";
const HEAD: &str = "\
# Other people's test suites under `memwright run`

<!-- made by `cargo xtask suites --write` -->

Each test is run without the library and under `memwright run` with several sets of options. Its outcome
must be the same. A test whose outcome differs is run again twice, both ways, and differs only if the
two ways have no outcome in common. Skipped tests are those that the suite itself skips without the
library. Tests that fail both ways, for example because this kernel lacks a feature, count as the same.

LTP is in no package registry: it is run where it is installed (`cargo xtask suites --ltp DIR`, or
`$LTPROOT`; /opt/ltp by default), in the release named below. `cargo xtask ci --full` counts it as
skipped elsewhere. Programs of LTP that change the whole machine or use up its memory are left out
(xtask/src/suites/ltp.rs lists them).

";

/// Writes the page.
pub(super) fn write(compared: &[Compared]) -> anyhow::Result<()> {
    let path = root().join(PAGE);
    std::fs::write(&path, page(compared)).with_context(|| path.display().to_string())?;
    println!("== {PAGE}");
    Ok(())
}

fn page(compared: &[Compared]) -> String {
    let uname = rustix::system::uname();
    let mut out = format!("{HEAD}Kernel {}.\n\n", uname.release().to_string_lossy());
    out += "| options | `memwright run` |\n|---|---|\n";
    for set in OPTION_SETS {
        let _ = writeln!(
            out,
            "| {} | `{}` |",
            set.name,
            ["run"].iter().chain(set.options).copied().collect::<Vec<_>>().join(" ")
        );
    }
    out += "\n| suite | options | the same | known differences | other differences | skipped |\n";
    out += "|---|---|---|---|---|---|\n";
    for one in compared {
        let known = one.differences.iter().filter(|difference| difference.known.is_some()).count();
        let other = one.differences.len() - known;
        let Compared { suite, version, set, same, skipped, .. } = one;
        let _ =
            writeln!(out, "| {suite} {version} | {set} | {same} | {known} | {other} | {skipped} |");
    }
    let differing = compared.iter().filter(|one| !one.differences.is_empty());
    for one in differing {
        let _ = writeln!(out, "\n## {}, {}\n", one.suite, one.set);
        for difference in &one.differences {
            let _ = writeln!(out, "- {}", self::difference(difference));
        }
    }
    out
}

/// One difference, in one line.
pub(super) fn difference(difference: &Difference) -> String {
    let Difference { test, plain, with, known } = difference;
    let known = known.as_ref().map_or(String::new(), |reason| format!(" (known: {reason})"));
    format!("{test}: {plain} without the library, {with} with it{known}")
}
