//! Huge pages that are reserved for the bench and given back at its end. The reservation stands in
//! the journal like any other change, so that `memwright undo` gives back what a bench that was
//! killed has left.

use crate::args::Place;
use crate::command::fix::{journal_exit, lock};
use crate::{Exit, Failure, advice, terminal};
use mw_model::Step;
use mw_remedy::{Kernel, Plan, Which, apply, nobody, undo};
use std::fs;
use std::path::{Path, PathBuf};

/// Pages that were added to a pool; taken away again when it is dropped.
#[derive(Debug)]
pub(crate) struct Pool {
    state_dir: PathBuf,
    /// The change's number in the journal; none where the pool was large enough.
    change: Option<u64>,
}

impl Pool {
    /// Has the pools of this page size hold `bytes` more than they have promised: an equal part on
    /// each of the nodes that the memory is to come from.
    pub(crate) fn reserve_for(
        place: &Place,
        page_bytes: u64,
        bytes: u64,
        state_dir: &Path,
    ) -> Result<Vec<Self>, Failure> {
        let pool = format!("hugepages/hugepages-{}kB", page_bytes >> 10);
        let reserve = |dir: String, bytes| Self::reserve(&dir, page_bytes, bytes, state_dir);
        let nodes = match place {
            Place::Uniform(policy) => policy.nodes(),
            Place::Split(nodes) => nodes,
        };
        if nodes.is_empty() {
            return Ok(vec![reserve(format!("/sys/kernel/mm/{pool}"), bytes)?]);
        }
        let part = bytes.div_ceil(page_bytes).div_ceil(nodes.len() as u64) * page_bytes;
        let dir = |node: &u32| format!("/sys/devices/system/node/node{node}/{pool}");
        nodes.iter().map(|node| reserve(dir(node), part)).collect()
    }

    fn reserve(dir: &str, page_bytes: u64, bytes: u64, state_dir: &Path) -> Result<Self, Failure> {
        let path = format!("{dir}/nr_hugepages");
        let read = |name: &str| number(&format!("{dir}/{name}"));
        let promised = read("resv_hugepages").unwrap_or(0);
        let free = read("free_hugepages").unwrap_or(0).saturating_sub(promised);
        let missing = bytes.div_ceil(page_bytes).saturating_sub(free);
        let mut pool = Self { state_dir: state_dir.to_owned(), change: None };
        if missing > 0 {
            let value = (read("nr_hugepages").unwrap_or(0) + missing).to_string();
            pool.change = set(&path, value, state_dir)?;
        }
        Ok(pool)
    }
}

/// Writes a setting as a change of the journal, and says which.
fn set(path: &str, value: String, state_dir: &Path) -> Result<Option<u64>, Failure> {
    let refused = |error: &dyn std::fmt::Display| {
        let line = format!("cannot reserve huge pages for --reserve: {error}");
        Failure::new(Exit::PermissionDenied, line)
    };
    let kernel = Kernel::live();
    let step = Step::Write { path: path.to_owned(), value };
    let plan = Plan::from_step(&kernel, "bench", &step).map_err(|error| refused(&error))?;
    if !plan.absent.is_empty() {
        return Err(refused(&format!("{path} not found: this kernel has no such pages")));
    }
    let mut journal = lock(state_dir).map_err(|error| {
        Failure::new(journal_exit(&error), advice::with_sudo(&error, error.is_privilege()))
    })?;
    let applied = apply(&kernel, &mut journal, &plan, false, &mut nobody);
    let applied = applied.map_err(|error| refused(&error))?;
    Ok(applied.changes.first().map(|change| change.id))
}

impl Drop for Pool {
    fn drop(&mut self) {
        let Some(id) = self.change else { return };
        let left = |why: &dyn std::fmt::Display| {
            terminal::tell(format_args!(
                "memwright: huge pages remain reserved: {why}; see 'memwright changes'"
            ));
        };
        let mut journal = match lock(&self.state_dir) {
            Ok(journal) => journal,
            Err(error) => return left(&error),
        };
        match undo(&Kernel::live(), &mut journal, &Which::Ids(vec![id]), false, &mut nobody) {
            Ok(undone) => {
                let kept = undone.iter().filter(|change| !change.outcome.is_gone());
                kept.for_each(|change| left(&format!("{} {}", change.path, change.outcome)));
            }
            Err(error) => left(&error),
        }
    }
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}
