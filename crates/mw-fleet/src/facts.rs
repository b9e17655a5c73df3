//! Settings of this machine, as names and values. `fleet drift` compares them.

use mw_model::{Severity, Snapshot, Window, derived, format_bytes};
use mw_proc::choice::Choice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The version of what is printed as JSON.
pub const FACTS_SCHEMA: u32 = 1;

/// Output of `fleet facts --json`.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NodeFacts {
    /// The version of the format.
    schema: u32,
    /// Names and values: the kernel, memory, settings by file, findings by rule, changes of memwright by file, pools.
    pub facts: BTreeMap<String, String>,
}

impl NodeFacts {
    /// Facts of a captured tree.
    #[must_use]
    pub fn of_window(window: &Window) -> Self {
        Self { schema: FACTS_SCHEMA, facts: of_window(window) }
    }

    /// Facts of this machine: those of the window, the changes of the journal in `state_dir`, and the pools of the
    /// server at `socket`.
    #[must_use]
    pub fn of_this_machine(window: &Window, state_dir: &Path, socket: &Path) -> Self {
        let mut facts = of_window(window);
        facts.insert("memwright".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        // With the distribution's part, which a tree may lack.
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        facts.insert("kernel".to_owned(), release);
        add_changes(state_dir, &mut facts);
        add_pools(socket, &mut facts);
        Self { schema: FACTS_SCHEMA, facts }
    }

    /// A fact in each line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.facts {
            let _ = writeln!(text, "{name}: {value}");
        }
        text
    }
}

/// Facts that a captured tree has, too.
fn of_window(window: &Window) -> BTreeMap<String, String> {
    let snapshot = &window.now;
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
    if let Some(kernel) = &snapshot.origin.kernel {
        add("kernel", kernel.to_string());
    }
    if let Some(cpus) = snapshot.origin.cpus {
        add("CPUs", cpus.to_string());
    }
    if let Ok(bytes) = derived::memory_bytes(&snapshot.sample) {
        add("memory, KiB", (bytes >> 10).to_string());
    }
    if let Some(nodes) = snapshot.nodes.value() {
        add("NUMA nodes", nodes.len().to_string());
    }
    for (name, value) in settings(snapshot) {
        add(&name, value);
    }
    for finding in mw_rules::check(window, None).findings {
        if finding.severity >= Severity::Warning {
            // The worst of a rule comes first.
            facts
                .entry(format!("finding {}", finding.rule))
                .or_insert(finding.severity.to_string());
        }
    }
    facts
}

/// Settings by file.
fn settings(snapshot: &Snapshot) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (name, value) in &snapshot.sysctl.values {
        // The pool of the usual size, which is listed below.
        let is_listed = name == "vm.nr_hugepages";
        if let (Ok(value), false) = (value, is_listed || mw_model::Sysctl::is_count(name)) {
            let words: Vec<&str> = value.split_whitespace().collect();
            settings.push((mw_model::Sysctl::path(name), words.join(" ")));
        }
    }
    if let Some(thp) = snapshot.thp.value() {
        const DIR: &str = "/sys/kernel/mm/transparent_hugepage";
        let mut add = |file: &str, choice: &Choice| {
            let chosen = choice.selected.and_then(|at| choice.options.get(at));
            settings.extend(chosen.map(|word| (format!("{DIR}/{file}"), word.clone())));
        };
        add("enabled", &thp.enabled);
        add("defrag", &thp.defrag);
        if let Some(shmem) = &thp.shmem_enabled {
            add("shmem_enabled", shmem);
        }
        for size in &thp.sizes {
            add(&format!("hugepages-{}kB/enabled", size.page_bytes >> 10), &size.enabled);
        }
        for (name, value) in thp.khugepaged.iter().filter(|(name, _)| !is_counter(name)) {
            settings.push((format!("{DIR}/khugepaged/{name}"), value.to_string()));
        }
    }
    for pool in snapshot.hugepages.value().into_iter().flatten() {
        let dir = format!("/sys/kernel/mm/hugepages/hugepages-{}kB", pool.page_bytes >> 10);
        let pages = pool.total_pages.saturating_sub(pool.surplus_pages);
        settings.push((format!("{dir}/nr_hugepages"), pages.to_string()));
    }
    if let Some(swaps) = snapshot.swaps.value() {
        let bytes = swaps.iter().fold(0_u64, |sum, swap| sum.saturating_add(swap.size_bytes));
        settings.push(("swap, KiB".to_owned(), (bytes >> 10).to_string()));
    }
    settings
}

/// True if a file of khugepaged counts what it has done.
fn is_counter(name: &str) -> bool {
    matches!(name, "full_scans" | "pages_collapsed")
}

/// Changes in force that memwright has made. Without the right to read its journal there is none.
fn add_changes(state_dir: &Path, facts: &mut BTreeMap<String, String>) {
    let Ok(history) = mw_remedy::History::read(state_dir) else { return };
    for change in mw_remedy::changes(&mw_remedy::Kernel::live(), &history).changes {
        if matches!(change.state, mw_remedy::ChangeState::InForce) {
            let kept = if change.kept_in.is_some() { ", persisted" } else { "" };
            let value = format!("{} ({}{kept})", change.value, change.rule);
            facts.insert(format!("change {}", change.path), value);
        }
    }
}

/// Pools of the server that runs, if one does.
fn add_pools(socket: &Path, facts: &mut BTreeMap<String, String>) {
    let client = mw_pool::Client::new(socket);
    for pool in client.pools().unwrap_or_default() {
        let value = format!("{} on {} pages", format_bytes(pool.spec.bytes), pool.spec.pages);
        facts.insert(format!("pool {}", pool.spec.name), value);
    }
}
