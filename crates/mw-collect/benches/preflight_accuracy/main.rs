//! How right preflight is, on the running machine.
//!
//! Every case asks preflight as `check --for` does, with a fresh look and a fresh calibration, and
//! then really takes the memory with one thread: mmap, populate, and mlock where requested.
//! `--assert` exits with 1 unless nine predictions of ten are within 25%, all are within a factor
//! of two, every "yes" was allocated and every "no" was refused. `--quick` takes fewer sizes, and
//! `--answers` times nothing: it only holds "yes" and "no" against what the kernel does.
//! `--ranges SECONDS` judges the stated ranges in many conditions (`--only warm,cold,…`, `--seed N`).
//!
//! It needs root for huge pages (their number is put back) and for cgroups, and about 12 GiB.

mod accuracy;
mod ranges;
mod refusals;

use mw_collect::Source;
use mw_model::{Calibration, Preflight, Request};
use std::process::ExitCode;

/// What anything here fails with; it ends up in one line.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if let Some(position) = arguments.iter().position(|argument| argument == "--child") {
        return refusals::child(&arguments[position + 1..]);
    }
    if has("--hog") {
        ranges::hog();
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped: it makes huge pages and cgroups, and that needs root");
        return ExitCode::SUCCESS;
    }
    let outcome = if has("--answers") {
        refusals::run()
    } else if has("--ranges") {
        let only = mw_test::measure::option("--only");
        let number = |name, default| mw_test::measure::number(name, default) as u64;
        ranges::run(number("--ranges", 600), number("--seed", 1), only.as_deref())
    } else {
        run(has("--quick"), has("--no-cold"))
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) if has("--assert") => ExitCode::FAILURE,
        Ok(false) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("preflight_accuracy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(quick: bool, no_cold: bool) -> Result<bool, Failure> {
    let accurate = accuracy::run(quick, no_cold)?;
    let right = refusals::run()?;
    Ok(accurate && right)
}

/// Asks as `check --for` does.
fn ask(request: &Request) -> Result<(Preflight, Option<Calibration>), Failure> {
    let source = Source::live()?;
    let window = mw_collect::window(&source);
    let calibration = mw_collect::calibrate::calibrate(request, &window.now).ok();
    let mut assessment = mw_rules::preflight::assess(&window, request)?;
    if let Some(calibration) = &calibration {
        mw_rules::preflight::add_time(&mut assessment, &window, calibration);
    }
    Ok((mw_render::preflight_words::describe(&assessment), calibration))
}
