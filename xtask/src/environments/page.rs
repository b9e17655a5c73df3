//! docs/environments.md.

use super::Row;
use crate::root;
use anyhow::Context;
use std::fmt::Write;

const PAGE: &str = "docs/environments.md";
const HEAD: &str = "\
# `check` in other environments

<!-- made by `cargo xtask environments --write` -->

In each environment `memwright check` was run in every format (text, Nagios, JSON), and a program judged
the first line, the exit code (0: checked, 3: could not be checked), the Nagios state and the rules that
found something. Scripts are run by `sh` in a mount namespace of their own; in them `\"$@\"` is the check,
`group` makes a control group with a limit of 256 MiB, and `inside` runs a command in it. Guests are
virtual machines with the kernel of that Debian release. The trees of gVisor and WSL are made up, after
what those kernels have. `oom-kill` may be found where this machine's kernel has counted one.

";

/// Writes the page.
pub(super) fn write(rows: &[Row], absent: &[String]) -> anyhow::Result<()> {
    let path = root().join(PAGE);
    std::fs::write(&path, page(rows, absent)).with_context(|| path.display().to_string())?;
    println!("== {PAGE}");
    Ok(())
}

fn page(rows: &[Row], absent: &[String]) -> String {
    let mut out = HEAD.to_owned();
    out += "| environment | how it is made | first line | exit code | expected | |\n";
    out += "|---|---|---|---|---|---|\n";
    for row in rows {
        let answer = &row.answer.text;
        let right = if row.verdict.is_ok() { "right" } else { "WRONG" };
        let cells = [
            cell(&row.name),
            code(&row.made),
            cell(answer.first_line()),
            answer.code.to_string(),
            cell(&row.expected.to_string()),
            right.to_owned(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    if !absent.is_empty() {
        out += "\nNot there:\n\n";
        absent.iter().for_each(|absent| out += &format!("- {}\n", cell(absent)));
    }
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// A script, in one line; plain words stay as they are.
fn code(text: &str) -> String {
    if !text.contains("\"$@\"") {
        return cell(text);
    }
    let is_code = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_code).collect();
    format!("`{}`", lines.join("; ").replace('|', "\\|"))
}
