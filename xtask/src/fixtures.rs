//! Makes the fixtures again: each case's condition is made on a real kernel in a virtual machine,
//! and captured there by memwright itself.

use crate::{cargo, root};

pub(crate) fn run(names: &[String]) -> anyhow::Result<()> {
    cargo(&["build", "--locked", "--release", "--package", "mw-cli"])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let binary = target.join("release/memwright");
    mw_lab::fixtures::make(&root(), names, &binary, &mut |line| println!("{line}"))?;
    Ok(())
}
