//! Arguments of `lab`.

use super::{FormatArgs, Formats};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// Limit of --jobs.
const MAX_JOBS: usize = 64;

#[derive(Debug, Clone, ClapArgs)]
pub struct LabArgs {
    /// Cases or variants to run [default: all but the evaluations]
    #[arg(value_name = "CASE[/VARIANT]")]
    pub names: Vec<String>,
    /// Kernels to run on: a version such as 6.1, or the path of an image, with a slash [default:
    /// the kernel that each case names]
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    pub kernel: Vec<String>,
    /// Run on every kernel that is packaged
    #[arg(long, conflicts_with = "kernel")]
    pub all_kernels: bool,
    /// Run only cases of this kind
    #[arg(long, value_enum, value_delimiter = ',')]
    pub kind: Vec<CaseKindArg>,
    /// Directory of cases to run instead of the built-in ones
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Acceleration of the guests
    #[arg(long, value_enum, default_value_t = Acceleration::Auto)]
    pub accel: Acceleration,
    /// Run the recorder in the guest instead; it must detect each stall and name its cause
    #[arg(long)]
    pub watch: bool,
    /// Run each variant this many times, and report how often it passed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Run this many guests at once; each uses one or two CPUs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = jobs)]
    pub jobs: usize,
    /// Repeat a failed run up to this many times; timing effects may not show on a busy machine
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u16,
    /// List the cases without running them
    #[arg(long)]
    pub list: bool,
    /// Exit with 1 if a case was skipped, too
    #[arg(long)]
    pub strict: bool,
    /// Save each guest's console and output in this directory
    #[arg(long, value_name = "DIR")]
    pub keep_logs: Option<PathBuf>,
    #[command(flatten)]
    pub format: FormatArgs<LabFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// Markdown, as in lab.md of the documentation
    Markdown,
}

impl Formats for LabFormat {
    const DEFAULT: Self = Self::Text;
    const JSON: Self = Self::Json;
}

/// The kind of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CaseKindArg {
    /// Field reports
    Tale,
    /// Cases of one rule
    Rule,
    /// Decoys: memory is not the cause
    Decoy,
    /// Comparisons of options
    Evaluation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Acceleration {
    /// KVM if a guest boots on it, otherwise software emulation
    Auto,
    /// Software emulation
    Tcg,
    /// KVM, or fail
    Kvm,
}

fn jobs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|jobs| (1..=MAX_JOBS).contains(jobs));
    number.ok_or_else(|| format!("expected a number from 1 to {MAX_JOBS}, got {text:?}"))
}
