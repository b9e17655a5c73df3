//! Holds the workspace against the rules of docs/ARCHITECTURE.md: which crate may use which, and
//! where unsafe code may be.

use crate::workspace::{EVAL_MANIFEST, cargo_command, output, read, root};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Dependencies that each crate may have on the others, tests and benches aside.
const MAY_USE: &[(&str, &[&str])] = &[
    ("mw-proc", &[]),
    ("mw-memory", &["mw-proc"]),
    ("mw-kernel-log", &["mw-memory", "mw-proc"]),
    ("mw-sys", &["mw-memory"]),
    ("mw-model", &["mw-critical-path", "mw-memory", "mw-proc"]),
    ("mw-collect", &["mw-memory", "mw-model", "mw-proc", "mw-sys"]),
    ("mw-probe", &["mw-model", "mw-sys"]),
    ("mw-rules", &["mw-critical-path", "mw-kernel-log", "mw-memory", "mw-model", "mw-proc"]),
    ("mw-remedy", &["mw-model", "mw-sys"]),
    ("mw-critical-path", &[]),
    ("mw-profile", &["mw-critical-path", "mw-model", "mw-proc", "mw-sys"]),
    ("mw-unwind", &["mw-critical-path", "mw-proc", "mw-sys"]),
    ("mw-record", &["mw-model", "mw-sys"]),
    ("mw-ship", &["mw-http", "mw-model", "mw-record", "mw-rules", "mw-sys"]),
    (
        "mw-watch",
        &[
            "mw-collect",
            "mw-critical-path",
            "mw-model",
            "mw-probe",
            "mw-profile",
            "mw-record",
            "mw-rules",
            "mw-sys",
            "mw-unwind",
        ],
    ),
    ("mw-metrics", &["mw-memory", "mw-model", "mw-rules"]),
    ("mw-render", &["mw-critical-path", "mw-kernel-log", "mw-model", "mw-proc", "mw-remedy"]),
    (
        "mw-top",
        &["mw-collect", "mw-model", "mw-proc", "mw-record", "mw-render", "mw-rules", "mw-sys"],
    ),
    ("mw-segment", &["mw-memory", "mw-proc", "mw-sys"]),
    ("mw-pool", &["mw-memory", "mw-segment", "mw-sys"]),
    ("mw-capi", &["mw-memory", "mw-pool", "mw-segment"]),
    ("mw-iotune", &[]),
    ("mw-preload", &["mw-iotune", "mw-memory", "mw-pool", "mw-segment", "mw-sys"]),
    (
        "mw-cluster",
        &["mw-collect", "mw-http", "mw-model", "mw-proc", "mw-record", "mw-rules", "mw-sys"],
    ),
    ("mw-doctor", &["mw-collect", "mw-model", "mw-proc", "mw-profile", "mw-sys"]),
    (
        "mw-fleet",
        &[
            "mw-http",
            "mw-model",
            "mw-pool",
            "mw-proc",
            "mw-remedy",
            "mw-render",
            "mw-rules",
            "mw-sys",
        ],
    ),
    (
        "mw-room",
        &[
            "mw-collect",
            "mw-memory",
            "mw-model",
            "mw-proc",
            "mw-remedy",
            "mw-rules",
            "mw-segment",
            "mw-sys",
        ],
    ),
    (
        "mw-bench",
        &["mw-memory", "mw-model", "mw-proc", "mw-remedy", "mw-rules", "mw-segment", "mw-sys"],
    ),
    ("mw-lab", &["mw-model", "mw-rules"]),
    ("mw-http", &["mw-sys"]),
    ("mw-notify", &["mw-http", "mw-model", "mw-rules", "mw-sys"]),
    ("mw-test", &[]),
    ("mw-web", &["mw-sys"]),
    (
        "mw-cli",
        &[
            "mw-bench",
            "mw-cluster",
            "mw-collect",
            "mw-critical-path",
            "mw-doctor",
            "mw-fleet",
            "mw-http",
            "mw-iotune",
            "mw-kernel-log",
            "mw-lab",
            "mw-memory",
            "mw-metrics",
            "mw-model",
            "mw-notify",
            "mw-pool",
            "mw-probe",
            "mw-proc",
            "mw-profile",
            "mw-record",
            "mw-remedy",
            "mw-render",
            "mw-room",
            "mw-rules",
            "mw-segment",
            "mw-ship",
            "mw-sys",
            "mw-top",
            "mw-unwind",
            "mw-watch",
            "mw-web",
        ],
    ),
    (
        "accuracy",
        &[
            "mw-collect",
            "mw-critical-path",
            "mw-lab",
            "mw-model",
            "mw-proc",
            "mw-record",
            "mw-rules",
            "mw-test",
        ],
    ),
    ("docgen", &["mw-cli", "mw-metrics", "mw-model", "mw-render", "mw-rules", "mw-ship"]),
    (
        "eval",
        &[
            "mw-collect",
            "mw-lab",
            "mw-model",
            "mw-pool",
            "mw-record",
            "mw-render",
            "mw-rules",
            "mw-segment",
            "mw-sys",
            "mw-test",
        ],
    ),
    ("xtask", &["mw-test"]),
];

/// Crates that may have unsafe code, item by item: system calls, and names and pointers of C.
const MAY_BE_UNSAFE: &[&str] = &["mw-sys", "mw-capi", "mw-preload"];

/// Warns of functions that open a path which another user may have replaced (clippy.toml), outside of tests.
const PATH_LINT: &str = "#![cfg_attr(not(test), warn(clippy::disallowed_methods))]";

/// Crates of developers, whose files are their own.
const MAY_OPEN_PATHS: &[&str] = &["mw-lab", "mw-test"];

const PAGE: &str = "docs/ARCHITECTURE.md";
/// Above the table of threads.
const THREADS: &str = "<!-- threads -->\n";
/// Sources whose threads are not the recorder's.
const THREADS_OF_OTHERS: &[&str] = &[
    ":!crates/mw-cli/src/command/confined.rs",
    ":!crates/mw-pool",
    ":!crates/mw-segment",
    ":!crates/mw-sys/src/bare_threads.rs",
];
/// Code before the name of a thread that is started.
const THREAD_NAMED_BY: &[&str] = &[
    "name(",
    "name(format!(",
    "let name = format!(",
    "name: c",
    "_NAME: &str = ",
    "thread(",
    "spawn(",
    "start(",
];

/// A crate of the workspaces.
struct Package {
    name: String,
    description: String,
    /// Crates of the repository that it uses, tests and benches aside.
    uses: Vec<String>,
}

pub(crate) fn run() -> anyhow::Result<()> {
    let mut problems = threads()?;
    let packages = packages()?;
    let uses: BTreeMap<&str, &[String]> =
        packages.iter().map(|package| (&*package.name, &*package.uses)).collect();
    for (name, used) in &uses {
        let Some((_, allowed)) = MAY_USE.iter().find(|(crate_name, _)| crate_name == name) else {
            problems.push(format!("{name} is not in the table of xtask/src/arch.rs"));
            continue;
        };
        let extra = used.iter().filter(|dependency| !allowed.contains(&dependency.as_str()));
        problems.extend(extra.map(|dependency| format!("{name} may not use {dependency}")));
    }
    for name in uses.keys().filter(|name| name.starts_with("mw-")) {
        check_lints(name, &mut problems)?;
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// The table of crates in docs/ARCHITECTURE.md, in the order of [`MAY_USE`].
pub fn table() -> anyhow::Result<String> {
    let mut packages = packages()?;
    let place = |package: &Package| MAY_USE.iter().position(|(name, _)| *name == package.name);
    packages.sort_by_key(|package| place(package));
    let mut table = "| crate | purpose | uses |\n|---|---|---|\n".to_owned();
    for Package { name, description, uses } in packages {
        let uses: Vec<&str> = uses.iter().map(|used| used.trim_start_matches("mw-")).collect();
        table += &format!("| `{name}` | {description} | {} |\n", uses.join(", "));
    }
    Ok(table)
}

/// Names of the crates of both workspaces.
pub(crate) fn package_names() -> anyhow::Result<BTreeSet<String>> {
    Ok(packages()?.into_iter().map(|package| package.name).collect())
}

/// The crates of both workspaces.
fn packages() -> anyhow::Result<Vec<Package>> {
    let mut all = Vec::new();
    for manifest in ["Cargo.toml", EVAL_MANIFEST] {
        let mut command = cargo_command();
        command.args(["metadata", "--no-deps", "--locked", "--format-version", "1"]);
        command.args(["--manifest-path", manifest]).current_dir(root());
        let metadata: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
        let packages = metadata["packages"].as_array().context("no packages in cargo metadata")?;
        all.extend(packages.iter().map(package));
    }
    Ok(all)
}

fn package(package: &serde_json::Value) -> Package {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let uses = dependencies
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]))
        .filter(|name| name.starts_with("mw-"))
        .collect();
    Package { name: text(&package["name"]), description: text(&package["description"]), uses }
}

/// Threads that the sources start and the page's table does not have, and the reverse.
fn threads() -> anyhow::Result<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["grep", "-h", "\"mw-", "--", "crates/*/src/*.rs"]).current_dir(root());
    let lines = output(command.args(THREADS_OF_OTHERS))?;
    let started: BTreeSet<&str> = lines.lines().filter_map(started).collect();
    let page = read(&root().join(PAGE))?;
    let (_, table) = page.split_once(THREADS).with_context(|| format!("{PAGE}: {THREADS}"))?;
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let listed: BTreeSet<&str> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(stem).collect();
    let missing = started.difference(&listed).map(|name| format!("lacks the thread {name}"));
    let surplus = listed
        .difference(&started)
        .map(|name| format!("has a thread {name}, which nothing starts"));
    Ok(missing.chain(surplus).map(|problem| format!("{PAGE}: its table {problem}")).collect())
}

/// The name of the thread that a line starts.
fn started(line: &str) -> Option<&str> {
    let name = line.find("\"mw-")?;
    let is_start = THREAD_NAMED_BY.iter().any(|end| line[..name].ends_with(end));
    line.get(name..)?.split('"').nth(1).filter(|_| is_start).map(stem)
}

/// What the names of all threads of a kind begin with.
fn stem(name: &str) -> &str {
    let is_end = |c: char| c == '{' || c == '…' || c.is_ascii_uppercase();
    name.split(is_end).next().unwrap_or(name).trim_end_matches('-')
}

/// A crate takes the workspace's lints, which forbid unsafe code, or denies what it does not allow
/// and explain.
fn check_lints(name: &str, problems: &mut Vec<String>) -> anyhow::Result<()> {
    let manifest = read(&root().join("crates").join(name).join("Cargo.toml"))?;
    let wanted: &[&str] = if MAY_BE_UNSAFE.contains(&name) {
        &["unsafe_code = \"deny\"", "undocumented_unsafe_blocks = \"warn\""]
    } else {
        &["[lints]\nworkspace = true"]
    };
    let missing = wanted.iter().filter(|lint| !manifest.contains(**lint));
    problems.extend(missing.map(|lint| format!("{name}: its manifest lacks {lint:?}")));
    let library = read(&root().join("crates").join(name).join("src/lib.rs"))?;
    if !MAY_OPEN_PATHS.contains(&name) && !library.contains(PATH_LINT) {
        problems.push(format!("{name}: its lib.rs lacks {PATH_LINT}"));
    }
    Ok(())
}
