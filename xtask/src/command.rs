//! The command line.

use crate::workspace::{cargo_with, eval};
use crate::{ci, dist, new, pictures, python, tests};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The commands of the program accuracy, which `ci` runs in part. A test of accuracy compares.
pub const ACCURACY_CAMPAIGNS: &[&str] = &["kernel", "preflight", "reports", "ship", "trials"];

/// The commands of the program eval, a workspace of its own. A test of eval compares.
pub const CAMPAIGNS: &[&str] = &[
    "ceilings",
    "cluster",
    "environments",
    "evaluate",
    "fixtures",
    "fleet",
    "kubernetes",
    "lab",
    "lab-plots",
    "oomanalyser",
    "peers",
    "recorders",
    "suites",
    "system",
];

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks", after_help = campaigns())]
struct XtaskArgs {
    #[command(subcommand)]
    task: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Install the packages that the tests need, then run everything that must pass
    Ci {
        /// Run all of the tests and of what is played in guests, of which a commit has a share each
        #[arg(long)]
        whole: bool,
        /// Also run long campaigns, every case of the lab and the test suites of other projects (hours)
        #[arg(long)]
        full: bool,
    },
    /// Run the part of `ci` that is no test: the format, the build with its lints, and the checks of sources and
    /// documentation
    Checks,
    /// Run test programs as `ci` does (all of them, or those named), and list the slowest tests
    Test {
        /// A package, as in mw-pool, or a package and a target, as in 'mw-cli watch'
        names: Vec<String>,
        /// Run long campaigns too
        #[arg(long)]
        full: bool,
        /// Number of the slowest tests to list
        #[arg(long, default_value_t = 30)]
        slowest: usize,
    },
    /// Build what is released: Debian and RPM packages, an archive with a static program, a bill of
    /// materials and checksums
    Dist {
        /// Directory of the output [default: target/packages]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Build it twice, compare the bytes, and install it in new roots
        #[arg(long, conflicts_with = "out")]
        check: bool,
        /// Build the Debian packages alone, from the working tree with this profile of cargo, as in dev or release
        #[arg(long, conflicts_with = "check")]
        profile: Option<String>,
    },
    /// Build the Python package as a wheel, execute its notebook, test it under AddressSanitizer, or measure it
    Python {
        #[arg(default_value = "wheel")]
        action: python::PythonTask,
        /// Directory of the wheel [default: target/python]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Write eval/results/python.md from the figures
        #[arg(long)]
        write: bool,
    },
    /// Write the generated documentation: rule pages, man pages, completions, JSON schema,
    /// C header
    Docs {
        /// Write nothing; fail where something is out of date
        #[arg(long)]
        check: bool,
    },
    /// Draw the picture of a report with a browser, from the stored incident
    Pictures {
        /// Draw nothing; fail where it is out of date
        #[arg(long)]
        check: bool,
    },
    /// Create the skeleton of a rule, a cause, a probe, a collector or a lab case
    New {
        part: new::SkeletonKind,
        /// Its name in kebab-case
        name: String,
    },
    /// The same as `new rule`
    #[command(hide = true)]
    NewRule {
        /// Its id in kebab-case
        name: String,
    },
    /// A campaign, with its arguments
    #[command(external_subcommand)]
    Campaign(Vec<OsString>),
}

fn campaigns() -> String {
    format!(
        "Campaigns, each with a --help of its own; the program that has one is built when it is first needed:\n  {}",
        [ACCURACY_CAMPAIGNS, CAMPAIGNS].concat().join(", ")
    )
}

/// Runs the task that the command line names.
pub fn run() -> anyhow::Result<ExitCode> {
    match XtaskArgs::parse().task {
        XtaskCommand::Ci { whole, full } => return ci::run(ci::CiOptions { whole, full }),
        XtaskCommand::Checks => ci::checks(),
        XtaskCommand::Test { names, full, slowest } => tests::chosen(&names, full, slowest),
        XtaskCommand::Dist { check: true, .. } => dist::check(),
        XtaskCommand::Dist { out, profile: Some(profile), .. } => dist::plain(&profile, out),
        XtaskCommand::Dist { out, .. } => dist::run(out),
        XtaskCommand::Python { action, out, write } => python::run(action, out, write),
        XtaskCommand::Docs { check } => program("docgen", check.then(|| "--check".into())),
        XtaskCommand::Pictures { check } => pictures::run(check),
        XtaskCommand::New { part, name } => new::run(part, &name),
        XtaskCommand::NewRule { name } => new::run(new::SkeletonKind::Rule, &name),
        XtaskCommand::Campaign(args) => campaign(args),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn campaign(args: Vec<OsString>) -> anyhow::Result<()> {
    let name = args.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if ACCURACY_CAMPAIGNS.contains(&&*name) {
        return program("accuracy", args);
    }
    anyhow::ensure!(
        CAMPAIGNS.contains(&&*name),
        "there is no task '{name}'; 'cargo xtask --help' lists them"
    );
    eval(args)
}

/// Builds a program of the workspace, and runs it.
fn program(package: &str, args: impl IntoIterator<Item = OsString>) -> anyhow::Result<()> {
    cargo_with(&["run", "--locked", "--package", package, "--"], |cargo| {
        cargo.args(args);
    })
}
