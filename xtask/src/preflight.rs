//! The preflight campaign: in many conditions, memory of many sizes is asked for with `memwright check --for`, then
//! really taken, and the answer and the time are compared with what happened.

mod condition;
mod figures;
mod page;
mod request;

use condition::Condition;
use mw_lab::Lab;
use mw_lab::vm::guest::Role;
use mw_lab::{Case, Kernel};
use request::Record;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Where results go that are not asked for elsewhere.
const RESULTS: &str = "preflight/results.jsonl";
const KERNELS: [&str; 2] = ["6.1", "6.12"];

pub(crate) struct Choice {
    /// All, where there is none.
    pub(crate) conditions: Vec<String>,
    /// All of [`KERNELS`], where there is none.
    pub(crate) kernels: Vec<String>,
    pub(crate) seed: u32,
    pub(crate) results: Option<PathBuf>,
    pub(crate) program: Option<PathBuf>,
    pub(crate) jobs: usize,
}

/// Writes docs/preflight.md from the stored results.
pub(crate) fn report() -> anyhow::Result<()> {
    page::write()
}

pub(crate) fn run(choice: &Choice) -> anyhow::Result<()> {
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
    let queue = Mutex::new(boots.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..choice.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some((condition, kernel)) = next else { return };
                    let played = play(&lab, &condition, kernel, choice.seed)
                        .and_then(|records| append(&results, &records));
                    if let Err(error) = played {
                        println!("{} {kernel}: {error:#}", condition.name);
                    }
                }
            });
        }
    });
    Ok(())
}

/// Boots a guest in the condition; what it asked for and got.
fn play(lab: &Lab, condition: &Condition, kernel: &str, seed: u32) -> anyhow::Result<Vec<Record>> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("preflight");
    fs::create_dir(&folder)?;
    condition.write(&folder, kernel, seed)?;
    let mut variants = Case::read(&folder)?.variants;
    let variant = variants.pop().ok_or_else(|| anyhow::anyhow!("no variant"))?;
    let kernel = Kernel::get(kernel)?;
    let (outcome, run) = lab.run(&variant, &kernel, &kernel.release, Role::Play, &mut |_| true);
    let logs = crate::workspace::target_dir().join("preflight/logs");
    fs::create_dir_all(&logs)?;
    let run = run.ok_or_else(|| anyhow::anyhow!("{}", outcome.outcome))?;
    fs::write(logs.join(format!("{}-{}", condition.name, kernel.release)), &run.console)?;
    let mut asked: BTreeMap<u32, &[u8]> = BTreeMap::new();
    for (name, bytes) in &run.frames.files {
        if let Some(number) = name.strip_prefix("keep/").and_then(|name| name.parse().ok()) {
            asked.insert(number, bytes);
        }
    }
    let mut records = Vec::new();
    for text in asked.into_values() {
        let of = request::Boot { condition: &condition.name, release: &kernel.release, seed };
        let record = request::read(&String::from_utf8_lossy(text), &of)?;
        println!("{}", record.line());
        records.push(record);
    }
    // What was asked before the guest broke counts.
    if !run.frames.done || records.is_empty() {
        println!("{} {}: {}", condition.name, kernel.release, outcome.outcome);
    }
    Ok(records)
}

fn append(path: &Path, records: &[Record]) -> anyhow::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let mut file = fs::File::options().append(true).create(true).open(path)?;
    for record in records {
        // One write, so that two runs may extend the file at once.
        file.write_all(format!("{}\n", serde_json::to_string(record)?).as_bytes())?;
    }
    Ok(())
}
