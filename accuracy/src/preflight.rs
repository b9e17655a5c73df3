//! The preflight campaign: in many conditions, memory of many sizes is asked for with `memwright check --for`, then
//! really taken, and the answer and the time are compared with what happened.

mod account;
mod condition;
mod figures;
mod host;
mod page;
mod request;
mod results;

use crate::campaign;
use account::ConditionAccount;
use anyhow::Context;
use condition::PreflightCondition;
pub(crate) use condition::SizeChoice;
use mw_lab::Lab;
use mw_lab::vm::guest::GuestRole;
use mw_lab::{Case, GuestKernel};
use request::RequestRecord;
use results::ResultLine;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Default path of the results.
const RESULTS: &str = "preflight/results.jsonl";
const KERNELS: [&str; 3] = ["6.1", "6.12", condition::HOST];

pub(crate) struct PreflightSelection {
    /// All, where there is none.
    pub(crate) conditions: Vec<String>,
    /// All of [`KERNELS`], where there is none.
    pub(crate) kernels: Vec<String>,
    pub(crate) sizes: SizeChoice,
    pub(crate) results: Option<PathBuf>,
    pub(crate) program: Option<PathBuf>,
    pub(crate) jobs: usize,
}

impl PreflightSelection {
    fn all() -> Self {
        Self {
            conditions: Vec::new(),
            kernels: Vec::new(),
            sizes: SizeChoice::default(),
            results: None,
            program: None,
            jobs: 1,
        }
    }
}

/// Writes eval/results/preflight.md from the stored results.
pub(crate) fn report() -> anyhow::Result<()> {
    page::write()
}

/// Of requests that were answered with yes, slowly or no, how many may be answered wrongly.
const MAX_WRONG_SHARE: f64 = 0.005;

pub(crate) fn run(choice: &PreflightSelection) -> anyhow::Result<()> {
    ask(choice).map(drop)
}

/// For CI: what holds memory without looking like it, and a limit that no file shows. Most of the time of a guest goes
/// into the search for edges.
pub(crate) fn quick() -> anyhow::Result<()> {
    const EDGE_PARTS: u32 = 10;
    for (condition, kernel) in [("pipes", "6.12"), ("policy-bind", "6.1")] {
        let (conditions, kernels) = (vec![condition.to_owned()], vec![kernel.to_owned()]);
        let all = PreflightSelection::all();
        let sizes = SizeChoice { edge_parts: EDGE_PARTS, ..all.sizes };
        judge(&ask(&PreflightSelection { conditions, kernels, sizes, ..all })?)?;
    }
    Ok(())
}

/// For the long CI: every condition.
///
/// Promise (Findings): What `check --for` says a pool can be grown to at least, `make-room` provides, and nothing
/// provides more than the most above the watermarks.
pub(crate) fn full() -> anyhow::Result<()> {
    judge(&ask(&PreflightSelection::all())?)
}

fn judge(records: &[RequestRecord]) -> anyhow::Result<()> {
    let counts = figures::AnswerCounts::of(records);
    anyhow::ensure!(counts.right > 0, "nothing was asked");
    let (wrong, decided) = (counts.wrong(), counts.wrong() + counts.right);
    let most = decided as f64 * MAX_WRONG_SHARE;
    anyhow::ensure!(wrong as f64 <= most, "{wrong} of {decided} answers are wrong");
    Ok(())
}

/// Asks in every condition that was chosen, and appends to the results.
fn ask(choice: &PreflightSelection) -> anyhow::Result<Vec<RequestRecord>> {
    let target = crate::workspace::target_dir();
    let program = choice.program.clone().unwrap_or_else(|| target.join("debug/memwright"));
    let results = choice.results.clone().unwrap_or_else(|| target.join(RESULTS));
    let lab = Lab::new(&program)?;
    let mut boots = Vec::new();
    for condition in condition::chosen(&choice.conditions)? {
        for kernel in KERNELS {
            let is_chosen = choice.kernels.is_empty() || choice.kernels.iter().any(|k| k == kernel);
            if is_chosen && condition.runs_on(kernel) {
                boots.push((condition.clone(), kernel));
            }
        }
    }
    let all = Mutex::new(Vec::new());
    campaign::each(boots, choice.jobs, |(condition, kernel)| {
        let played = play(&lab, &program, &condition, kernel, choice.sizes);
        let kept = played.and_then(|lines| {
            lines.iter().try_for_each(|line| campaign::append(&results, line))?;
            Ok(lines)
        });
        match kept {
            Ok(lines) => all.lock().iter_mut().for_each(|all| all.extend(lines.clone())),
            Err(error) => println!("{} {kernel}: {error:#}", condition.name),
        }
    });
    let requests = |line| match line {
        ResultLine::Request(record) => Some(record),
        ResultLine::Account(_) => None,
    };
    let all = all.into_inner().map_err(|_| anyhow::anyhow!("a guest's thread panicked"))?;
    Ok(all.into_iter().filter_map(requests).collect())
}

/// Makes the condition; what was asked for and got.
fn play(
    lab: &Lab,
    program: &Path,
    condition: &PreflightCondition,
    kernel: &str,
    sizes: SizeChoice,
) -> anyhow::Result<Vec<ResultLine>> {
    let (files, release) = match kernel {
        condition::HOST => host::ask(condition, program, sizes)?,
        kernel => in_guest(lab, condition, kernel, sizes)?,
    };
    let of = request::GuestBoot { condition: &condition.name, release: &release, seed: sizes.seed };
    let mut lines = Vec::new();
    let mut asked: BTreeMap<u32, &[u8]> = BTreeMap::new();
    for (name, bytes) in &files {
        match name.parse() {
            Ok(number) => drop(asked.insert(number, bytes)),
            Err(_) => lines.push(ResultLine::Account(ConditionAccount::read(bytes, &of)?)),
        }
    }
    for text in asked.into_values() {
        let record = request::read(&String::from_utf8_lossy(text), &of)?;
        println!("{}", record.line());
        lines.push(ResultLine::Request(record));
    }
    Ok(lines)
}

/// The answers by their numbers, and the kernel's release. What was asked before a guest broke counts.
fn in_guest(
    lab: &Lab,
    condition: &PreflightCondition,
    kernel: &str,
    sizes: SizeChoice,
) -> anyhow::Result<(BTreeMap<String, Vec<u8>>, String)> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("preflight");
    fs::create_dir(&folder)?;
    condition.write_case(&folder, kernel, sizes)?;
    let variant = Case::read(&folder)?.variants.pop().context("no variant")?;
    let kernel = GuestKernel::get(kernel)?;
    let release = kernel.release.clone();
    let (outcome, run) = lab.run(&variant, &kernel, &release, GuestRole::Play, &mut |_| true);
    let run = run.with_context(|| outcome.outcome.to_string())?;
    let logs = crate::workspace::target_dir().join("preflight/logs");
    fs::create_dir_all(&logs)?;
    fs::write(logs.join(format!("{}-{release}", condition.name)), &run.console)?;
    let kept = |(name, bytes): (&String, &Vec<u8>)| {
        Some((name.strip_prefix("keep/")?.to_owned(), bytes.clone()))
    };
    let files: BTreeMap<_, _> = run.frames.files.iter().filter_map(kept).collect();
    if !run.frames.done || files.is_empty() {
        println!("{} {release}: {}", condition.name, outcome.outcome);
    }
    Ok((files, release))
}
