//! Commands that must succeed, and what they say if they do not.

use anyhow::{Context, ensure};
use std::process::{Command, Output};

pub(super) fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// The output of a command that must succeed.
pub(super) fn checked(command: &mut Command) -> anyhow::Result<Output> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", said(&output));
    Ok(output)
}
