//! Makes the fixtures again: each case's condition is made on a real kernel in a virtual machine,
//! and captured there by memwright itself.

use crate::workspace::{cargo, root, target_dir};

pub(crate) fn run(names: &[String]) -> anyhow::Result<()> {
    cargo(&["build", "--locked", "--release", "--package", "mw-cli"])?;
    let binary = target_dir().join("release/memwright");
    mw_lab::fixtures::make(&root(), names, &binary, &mut |line| println!("{line}"))?;
    Ok(())
}
