//! Everything that has to pass, in one command. Its last line counts what passed, failed and was skipped.

mod step;
mod verdict;

use crate::share::{CommitShare, SHARES};
use crate::tests::{self, TestGroups, TestPrograms, TestResults, TestTarget};
use crate::workspace::{self, EVAL_MANIFEST, built, cargo};
use crate::{
    ages, arch, circles, compiled_crates, defences, dist, lab, links, locks, names, new, packages,
    pictures, python, tools, units, words,
};
use anyhow::Context;
use std::ffi::OsString;
use std::fmt::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use step::{CiStep, StepOutcome};
use verdict::CiVerdict;

/// Debian packages that the build uses, each with a program or file that tells whether it is there.
const BUILD_PACKAGES: &[(&str, &str)] = &[
    ("gcc", "/usr/bin/gcc"),
    ("libc6-dev", "/usr/include/stdio.h"),
    ("make", "/usr/bin/make"),
    ("pkg-config", "/usr/bin/pkg-config"),
];

/// Those that the tests use.
const TEST_PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86", "/usr/bin/qemu-system-x86_64"),
    ("busybox-static", "/bin/busybox"),
    ("bindfs", "/usr/bin/bindfs"),
    ("bubblewrap", "/usr/bin/bwrap"),
    ("binutils", "/usr/bin/strip"),
    ("groff-base", "/usr/bin/groff"),
    ("man-db", "/usr/bin/lexgrog"),
    ("chromium", "/usr/bin/chromium"),
    ("clang", "/usr/bin/clang"),
    ("libclang-rt-dev", "/usr/share/doc/libclang-rt-dev"),
    ("mariadb-server", "/usr/sbin/mariadbd"),
    ("postgresql", "/usr/share/doc/postgresql"),
    ("python3-jsonschema", "/usr/share/doc/python3-jsonschema"),
    ("python3-numpy", "/usr/share/doc/python3-numpy"),
    ("python3-setuptools", "/usr/share/doc/python3-setuptools"),
    ("python3-venv", "/usr/share/doc/python3-venv"),
    ("zstd", "/usr/bin/zstd"),
    ("prometheus", "/usr/bin/prometheus"),
    ("prometheus-alertmanager", "/usr/bin/prometheus-alertmanager"),
    ("redis-server", "/usr/bin/redis-server"),
    ("strace", "/usr/bin/strace"),
    ("systemd", "/usr/bin/systemd-analyze"),
    ("xfsprogs", "/usr/sbin/mkfs.xfs"),
    ("btrfs-progs", "/usr/sbin/mkfs.btrfs"),
    ("fio", "/usr/bin/fio"),
    ("stress-ng", "/usr/bin/stress-ng"),
    ("default-jdk-headless", "/usr/bin/javac"),
    ("nginx-light", "/usr/sbin/nginx"),
    ("dmsetup", "/usr/sbin/dmsetup"),
    ("iproute2", "/usr/sbin/tc"),
    ("slurmctld", "/usr/sbin/slurmctld"),
    ("slurmd", "/usr/sbin/slurmd"),
    ("slurm-client", "/usr/bin/scontrol"),
    ("munge", "/usr/sbin/munged"),
];

type StepFn = fn() -> anyhow::Result<()>;

/// What is no test, and needs no guest.
const CHECKS: &[(&str, StepFn)] = &[
    ("documentation", documentation),
    ("ages of generated pages", ages::run),
    ("links of the documentation", links::run),
    ("words of the glossary", words::run),
    ("picture of a report", pictures::check),
    ("defences", defences::run),
    ("architecture", arch::run),
    ("circles between files", circles::run),
    ("names of types", names::run),
    ("names of functions in kernels", || campaign(&["kernel"])),
    ("answers to public reports", || campaign(&["reports"])),
    ("lock files", locks::run),
    ("systemd units", units::run),
];

const MORE_STEPS: &[(&str, StepFn)] = &[
    ("lab: every case", || eval(&["step", "lab"])),
    ("blind trials", || campaign(&["step", "trials"])),
    ("preflight campaign", || campaign(&["step", "preflight"])),
    ("heartbeats of real cluster software", || eval(&["cluster"])),
    ("a real cluster with a starved node", || eval(&["step", "starve"])),
    ("fencing under memory shortage", || eval(&["step", "fence"])),
    ("cluster software on a starved node", || eval(&["step", "cluster-software"])),
    ("queries over a fleet, on two engines", || campaign(&["ship"])),
    ("Python package with torch and AddressSanitizer", python::full),
    ("check in other environments", || eval(&["environments"])),
    ("campaigns: lint and tests", eval_tests),
    ("licences and sources of dependencies", tools::dependencies),
    ("packages: built twice and installed", dist::check),
    ("the package under a real systemd", || eval(&["step", "system"])),
    ("other people's test suites", || eval(&["suites"])),
];

/// Steps that take a minute of CPU time.
const SHARED_STEPS: [(&str, StepFn); SHARES] = [
    ("skeletons of cargo xtask new", new::compile),
    ("queries over a fleet", || campaign(&["step", "ship-quick"])),
    ("notebook of the Python package", python::notebook),
];

/// The longest that everything may take without `--full`. Something hangs beyond it; better said here, with what was
/// running, than by a limit from outside, which leaves no output.
const LIMIT: Duration = Duration::from_secs(55 * 60);

/// What is run beside what always is.
#[derive(Clone, Copy)]
pub(crate) struct CiOptions {
    /// All shares of what is divided.
    pub(crate) whole: bool,
    /// Long campaigns, and all shares.
    pub(crate) full: bool,
}

pub(crate) fn run(CiOptions { whole, full }: CiOptions) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let share = CommitShare::of(whole || full);
    if !full {
        std::thread::spawn(|| end_after(LIMIT));
    }
    let options = tests::TestOptions { full, ..tests::TestOptions::default() };
    let mut built = None;
    let mut steps = prepared(&mut built)?;
    let mut results = TestResults::default();
    let is_ready = steps.iter().all(|step| step.result.is_ok());
    if let Some(TestPrograms { tests, preflight }) = built.filter(|_| is_ready) {
        let groups = TestGroups::of(tests, share);
        steps.extend(side_by_side(&groups, share, options, &mut results));
        steps.push(test("tests that measure", &mut results, || groups.run_measuring(options)));
        steps.push(step("failed tests, once more", || {
            tests::again(&mut results, options)?;
            Ok(StepOutcome::Done(results.summary()))
        }));
        steps.extend(played_in_guests(share));
        steps.push(simple("preflight's answers", || preflight_answers(&preflight)));
        if full {
            steps.extend(MORE_STEPS.iter().map(|(name, run)| simple(name, run)));
        }
        steps.push(step("advisories of RustSec", || match full {
            true => tools::advisories().map(StepOutcome::Done),
            false => Ok(StepOutcome::Done("read with --full".to_owned())),
        }));
    }
    let verdict = CiVerdict::of(&steps, &results, is_root())?;
    println!("{}{}{verdict}", summary(&steps, &results, started.elapsed()), left_out(share));
    Ok(if verdict.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The format, the build with its lints, and the checks that are no test.
pub(crate) fn checks() -> anyhow::Result<()> {
    format()?;
    tests::build()?;
    let steps: Vec<CiStep> = CHECKS.iter().map(|(name, run)| simple(name, run)).collect();
    let failed: Vec<_> =
        steps.iter().filter(|step| step.result.is_err()).map(|step| step.name).collect();
    anyhow::ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Packages and programs. What the tests need is installed while the programs are built.
fn prepared(built: &mut Option<TestPrograms>) -> anyhow::Result<Vec<CiStep>> {
    let mut steps = vec![step("packages for the build", || installed(BUILD_PACKAGES))];
    std::thread::scope(|scope| {
        let packages = scope.spawn(|| step("packages for the tests", || installed(TEST_PACKAGES)));
        steps.push(simple("format", format));
        let has_crates = or_without(compiled_crates::restore()).unwrap_or(false);
        steps.push(step("build and lint", || {
            let TestPrograms { tests, .. } = built.insert(tests::build()?);
            let crates = if has_crates { "; crates of an earlier run" } else { "" };
            Ok(StepOutcome::Done(format!("{} test programs{crates}", tests.len())))
        }));
        steps.push(packages.join().map_err(|_| anyhow::anyhow!("a step panicked"))?);
        if built.is_some() {
            or_without(compiled_crates::store());
        }
        Ok(steps)
    })
}

/// What a run can do without: an error is shown.
fn or_without<T>(result: anyhow::Result<T>) -> Option<T> {
    result.inspect_err(|error| println!("compiled crates of the registry: {error:#}")).ok()
}

/// As root, whatever the tests need is installed; an ordinary user is told what is missing, and the rest is run.
fn installed(packages: &[(&str, &str)]) -> anyhow::Result<StepOutcome> {
    let missing = packages::missing(packages).join(" ");
    if missing.is_empty() || is_root() {
        return packages::install(packages).map(|()| StepOutcome::Done(String::new()));
    }
    let advice = format!("tests that need them fail; run: sudo apt-get install {missing}");
    println!("packages that are not installed: {advice}");
    Ok(StepOutcome::LeftOut(advice))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Ends the process after `limit`, and says which programs it was waiting for.
fn end_after(limit: Duration) {
    std::thread::sleep(limit);
    let own = std::process::id().to_string();
    let children = Command::new("ps").args(["-o", "pid,etimes,stat,args", "--ppid", &own]).output();
    let children = children.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    println!(
        "== ci has not ended within {} minutes; still running:\n{}",
        limit.as_secs() / 60,
        children.unwrap_or_else(|error| format!("ps: {error}"))
    );
    // Programs that hang would go on.
    drop(Command::new("pkill").args(["-KILL", "-P", &own]).status());
    std::process::exit(1);
}

/// The tests, and beside them what waits for nothing and measures nothing.
fn side_by_side(
    groups: &TestGroups,
    share: CommitShare,
    options: tests::TestOptions,
    results: &mut TestResults,
) -> Vec<CiStep> {
    let mut steps = Vec::new();
    let others = || {
        steps.extend(CHECKS.iter().map(|(name, run)| simple(name, run)));
        let (own, _) = share.divide(&SHARED_STEPS);
        steps.extend(own.into_iter().map(|(name, run)| simple(name, run)));
    };
    let tests = test("tests", results, || groups.run_beside(others, options));
    steps.push(tests);
    steps
}

/// What is played in guests: together it takes as long as half of the tests.
fn played_in_guests(share: CommitShare) -> Vec<CiStep> {
    const CAMPAIGNS: [(&str, &[&str]); 2] = [
        ("blind trials: two plays", &["trials", "--quick"]),
        ("preflight: two conditions", &["step", "preflight-quick"]),
    ];
    // The parts of the lab's quick list, and then the campaigns.
    let parts = lab::PARTS + CAMPAIGNS.len();
    let mut failed_runs = Vec::new();
    let mut steps = Vec::new();
    for part in (0..parts).filter(|part| share.has(*part, parts)) {
        steps.push(match part.checked_sub(lab::PARTS).and_then(|at| CAMPAIGNS.get(at)) {
            Some((name, args)) => simple(name, || campaign(args)),
            None => lab_step(lab::title(part), &mut failed_runs, || lab::run_part(part)),
        });
    }
    steps.push(simple("failed runs of the lab, once more", || lab::again(&failed_runs)));
    steps
}

/// A campaign, by the program that was built with the tests.
fn campaign(args: &[&str]) -> anyhow::Result<()> {
    workspace::run(Command::new(built("accuracy")).args(args))
}

/// A campaign of the workspace that is built for it.
fn eval(args: &[&str]) -> anyhow::Result<()> {
    workspace::eval(args.iter().map(OsString::from))
}

/// The workspace of the campaigns that are run with `--full` alone.
fn eval_tests() -> anyhow::Result<()> {
    let target = std::path::absolute(workspace::target_dir())?;
    let target = target.to_str().context("the target directory is not UTF-8")?;
    let common = ["--locked", "--manifest-path", EVAL_MANIFEST, "--target-dir", target];
    cargo(
        &[&["clippy", "--quiet"][..], &common, &["--all-targets", "--", "-D", "warnings"]].concat(),
    )?;
    cargo(&[&["test", "--quiet"][..], &common].concat())
}

/// The sources of both workspaces.
fn format() -> anyhow::Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["fmt", "--check", "--manifest-path", EVAL_MANIFEST])
}

fn documentation() -> anyhow::Result<()> {
    workspace::run(Command::new(built("docgen")).arg("--check"))
}

/// With the profile that is built already: it is the kernel that takes the time.
fn preflight_answers(bench: &TestTarget) -> anyhow::Result<()> {
    tests::bench(bench, &["--answers", "--assert"])
}

fn simple(name: &'static str, run: impl FnOnce() -> anyhow::Result<()>) -> CiStep {
    step(name, || run().map(|()| StepOutcome::Done(String::new())))
}

/// Runs of the lab; those that fail are played once more at the end.
fn lab_step(
    name: &'static str,
    failed_runs: &mut Vec<lab::FailedRun>,
    run: impl FnOnce() -> anyhow::Result<Vec<lab::FailedRun>>,
) -> CiStep {
    step(name, || {
        let failed = run()?;
        let names: Vec<String> = failed.iter().map(ToString::to_string).collect();
        failed_runs.extend(failed);
        let failed = format!("failed: {}", names.join("; "));
        Ok(StepOutcome::Done(if names.is_empty() { String::new() } else { failed }))
    })
}

fn test(
    name: &'static str,
    all: &mut TestResults,
    run: impl FnOnce() -> anyhow::Result<TestResults>,
) -> CiStep {
    step(name, || {
        let results = run()?;
        let summary = results.summary();
        all.add(results);
        Ok(StepOutcome::Done(summary))
    })
}

fn step(name: &'static str, run: impl FnOnce() -> anyhow::Result<StepOutcome>) -> CiStep {
    let begun = Instant::now();
    println!("== {name}");
    let result = run();
    let took = begun.elapsed();
    match &result {
        Ok(_) => println!("== {name}: {:.0} s", took.as_secs_f64()),
        Err(error) => println!("== {name}: failed: {error:#}"),
    }
    CiStep { name, took, result }
}

/// A line for what other commits run, where there is such.
fn left_out(share: CommitShare) -> String {
    let (_, steps) = share.divide(&SHARED_STEPS);
    let names: Vec<&str> =
        steps.into_iter().map(|(name, _)| *name).chain(tests::left_out(share)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("shares of other commits, which --whole runs too: {}\n", names.join(", "))
}

/// A table of the steps, and a line for each test that was skipped, is flaky or failed.
fn summary(steps: &[CiStep], results: &TestResults, took: Duration) -> String {
    let mut text = "== summary\n".to_owned();
    for CiStep { name, took, result } in steps {
        let said = match result {
            Ok(StepOutcome::Done(words)) => words.clone(),
            Ok(StepOutcome::LeftOut(why)) => format!("left out: {why}"),
            Err(_) => "failed".to_owned(),
        };
        let _ = writeln!(text, "{name:<34} {:>6.0} s  {said}", took.as_secs_f64());
    }
    for line in results.details() {
        let _ = writeln!(text, "{line}");
    }
    let _ = writeln!(text, "{:<34} {:>6.0} s", "all", took.as_secs_f64());
    text
}
