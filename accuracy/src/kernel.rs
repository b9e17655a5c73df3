//! Kernels that the tables of functions, counters and files are compared with: `cargo xtask kernel NAME` stores one in
//! kernels/, and `cargo xtask ci` compares the tables with all of them.

mod absent;
mod boot;
mod changes;
mod check;
mod first_causes;
mod guest_waits;
mod package;
mod sets;
mod store;
mod symbols;
mod waits;

use package::KernelName;
use store::StoredKernel;

/// Stores the kernel `name`, and prints the work that it makes.
pub(crate) fn add(name: &str) -> anyhow::Result<()> {
    let name = KernelName::parse(name)?;
    let unpacked = package::download(&name)?;
    let texts = boot::texts(&name, &unpacked)?;
    let image = texts.get("symbols").map_or("", String::as_str);
    let functions = symbols::of_kernel(&unpacked, image)?;
    let kernel = StoredKernel::new(name, &functions, &texts)?;
    let bytes = kernel.save()?;
    println!(
        "stored {}: {} functions, {} KiB",
        kernel.release,
        kernel.names().count(),
        bytes >> 10
    );
    let all = StoredKernel::all()?;
    if let Some(older) = changes::nearest_older(&kernel.name, &all) {
        println!("{}", changes::list(&kernel, older).join("\n"));
    }
    report(&all)
}

/// Compares the tables with the stored kernels.
pub(crate) fn check() -> anyhow::Result<()> {
    report(&StoredKernel::all()?)
}

fn report(kernels: &[StoredKernel]) -> anyhow::Result<()> {
    for line in waits::unasked(kernels) {
        println!("{line}");
    }
    let problems = check::problems(kernels)?;
    anyhow::ensure!(
        problems.is_empty(),
        "correct the tables, or accuracy/src/kernel/absent.rs:\n{}",
        problems.join("\n")
    );
    Ok(())
}
