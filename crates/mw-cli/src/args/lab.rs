//! Arguments of `lab`.

use super::{FormatArgs, Formats};
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// The most guests at once.
const MAX_JOBS: usize = 64;

/// Arguments of `lab`.
#[derive(Debug, Clone, ClapArgs)]
pub struct LabArgs {
    /// The cases to play, or single variants of them [default: all but the evaluations]
    #[arg(value_name = "CASE[/VARIANT]")]
    pub names: Vec<String>,
    /// The kernels to play on, 6.1 or 6.12 or the path of a kernel image, which has a slash in it
    /// [default: the one that each case names]
    #[arg(long, value_name = "KERNEL", value_delimiter = ',')]
    pub kernel: Vec<String>,
    /// Play on every kernel that there is a package of
    #[arg(long, conflicts_with = "kernel")]
    pub all_kernels: bool,
    /// Only cases of this kind
    #[arg(long, value_enum, value_delimiter = ',')]
    pub kind: Vec<CaseKind>,
    /// A folder with cases of one's own instead of those that come with memwright
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// How the guest's instructions are carried out
    #[arg(long, value_enum, default_value_t = Acceleration::Auto)]
    pub accel: Acceleration,
    /// Have the recorder watch instead: it must see each case's stall and name its cause
    #[arg(long)]
    pub watch: bool,
    /// Play each so many times, and say of each how often it did what it says
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Play so many at once; a guest keeps one or two processors busy
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = jobs)]
    pub jobs: usize,
    /// Play what fails up to so many times more: on a machine with much else to do, an effect that is
    /// a matter of time may not show
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u16,
    /// List the cases and play none
    #[arg(long)]
    pub list: bool,
    /// Exit with 1 also where a case was skipped
    #[arg(long)]
    pub strict: bool,
    /// Keep each guest's console, and what it sent, in this folder
    #[arg(long, value_name = "DIR")]
    pub keep_logs: Option<PathBuf>,
    /// How to print it.
    #[command(flatten)]
    pub format: FormatArgs<LabFormat>,
}

/// Output formats of `lab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a page like docs/lab.md
    Markdown,
}

impl Formats for LabFormat {
    const DEFAULT: Self = Self::Text;
    const JSON: Self = Self::Json;
}

/// What a case is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CaseKind {
    /// A field report, re-enacted
    Tale,
    /// What a rule of the catalogue finds
    Rule,
    /// Something is wrong, and memory is not to blame
    Decoy,
    /// Options, measured against each other
    Evaluation,
}

/// How the guest's instructions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Acceleration {
    /// Hardware virtualisation where a small guest comes up on it, or else software
    Auto,
    /// Software, which works everywhere
    Tcg,
    /// Hardware virtualisation; nothing is played where it does not work
    Kvm,
}

fn jobs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|jobs| (1..=MAX_JOBS).contains(jobs));
    number.ok_or_else(|| format!("{text:?} is no number from 1 to {MAX_JOBS}"))
}
