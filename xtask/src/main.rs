//! Development tasks: `cargo xtask --help`.

fn main() -> anyhow::Result<std::process::ExitCode> {
    xtask::run()
}
