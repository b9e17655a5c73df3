//! The queries over the data set of `memwright ship`: what they say of a fleet with known conditions, on two engines, and
//! what they take.

use crate::ages;
use crate::workspace::{self, root, target_dir};
use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const SIMULATE: &str = include_str!("ship/simulate.py");
const QUERY: &str = include_str!("ship/query.py");
const RECORD: &str = include_str!("ship/recorded.py");

/// The engines, as libraries of Python: a name for the page, that of its views, and the package.
const ENGINES: [(&str, &str, &str); 2] =
    [("DuckDB", "duckdb", "duckdb==2.0.1"), ("ClickHouse (chdb)", "clickhouse", "chdb==4.4.0")];

/// A fleet that shows every condition.
const SMALL: (u32, u32) = (60, 6);

/// Number of measurements of each query.
const ROUNDS: usize = 3;

const PAGE: &str = "eval/results/ship-scale.md";

/// Minutes of real recordings, of which those of the fleet are made.
const RECORDED: &str = "accuracy/src/ship/recorded.csv";

/// Expected result of a query over the simulated fleet: parts of its first row.
const EXPECTED: &[(&str, &[&str])] = &[
    ("cost", &["page-cache-flood"]),
    ("floods", &["process dd", "page-cache-flood"]),
    ("kernels", &["6.12.0"]),
    ("fragmentation", &["n0003"]),
    ("changes", &["kernel", "6.1.0", "6.12.0"]),
    ("leaks", &["n0009", "/system.slice/service-0"]),
    ("pressure", &["n0005"]),
    ("hours", &["2", "page-cache-flood"]),
    ("silent", &["n0011"]),
    ("headroom", &[]),
    ("compaction", &["n0013"]),
];

/// Results of a run over a data set.
#[derive(Debug, Deserialize)]
struct EngineResults {
    queries: BTreeMap<String, QueryResult>,
    peak_mib: u64,
}

#[derive(Debug, Deserialize)]
struct QueryResult {
    rows: Vec<Vec<Value>>,
    /// In order.
    seconds: Vec<f64>,
}

/// The queries on a small fleet; then on those of `fleets` (machines and days).
pub(crate) fn run(fleets: &[(u32, u32)], write: bool) -> anyhow::Result<()> {
    let python = python(&ENGINES)?;
    let small = simulate(&python, "small", SMALL)?;
    let results = ENGINES.map(|(_, engine, _)| query(&python, engine, &small, 1));
    let [duckdb, clickhouse] = results;
    let (duckdb, clickhouse) = (duckdb?, clickhouse?);
    verify(&duckdb)?;
    verify(&clickhouse)?;
    is_same(&duckdb, &clickhouse)?;
    println!("{} queries say the same on both engines", duckdb.queries.len());
    let measured = fleets.iter().map(|fleet| measure(&python, *fleet));
    let measured = measured.collect::<anyhow::Result<Vec<_>>>()?;
    if measured.is_empty() {
        return Ok(());
    }
    let page = page(&measured);
    println!("{page}");
    if write {
        ages::write(PAGE, &page)?;
    }
    Ok(())
}

/// Durations of the queries over a fleet.
struct FleetDurations {
    fleet: (u32, u32),
    bytes: u64,
    /// The table that is the largest, in bytes.
    minutes_bytes: u64,
    /// Time to simulate it and to write one file of each day and table, in seconds.
    simulated_s: f64,
    /// In the order of [`ENGINES`].
    engines: Vec<EngineResults>,
}

fn measure(python: &Path, fleet: (u32, u32)) -> anyhow::Result<FleetDurations> {
    let began = Instant::now();
    let data = simulate(python, "large", fleet)?;
    let simulated_s = began.elapsed().as_secs_f64();
    let mut engines = Vec::new();
    for (_, engine, _) in ENGINES {
        let results = query(python, engine, &data, ROUNDS)?;
        // A shorter time does not show every condition.
        if fleet.1 >= SMALL.1 {
            verify(&results)?;
        }
        engines.push(results);
    }
    let (bytes, minutes_bytes) = (size(&data)?, size(&data.join("minutes"))?);
    std::fs::remove_dir_all(&data)?;
    Ok(FleetDurations { fleet, bytes, minutes_bytes, simulated_s, engines })
}

/// The queries on DuckDB alone, which is a small package.
///
/// Promise (Fixing): Each query over the data set names the machine, cgroup, writer or kernel that stands out, on two
/// engines; none fails where a table has no row yet, or after compact.sql.
pub(crate) fn quick() -> anyhow::Result<()> {
    let [duckdb, _] = ENGINES;
    let python = python(&[duckdb])?;
    verify(&query(&python, duckdb.1, &simulate(&python, "quick", SMALL)?, 1)?)
}

/// A Python with these packages.
fn python(engines: &[(&str, &str, &str)]) -> anyhow::Result<PathBuf> {
    let dir = target_dir().join("ship/python");
    let python = dir.join("bin/python");
    if !python.exists() {
        workspace::run(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    }
    let packages = engines.iter().map(|(.., package)| *package).chain(["pytz"]);
    workspace::run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))?;
    Ok(python)
}

/// A script that is run from a file, so that an error names its line.
fn script(python: &Path, name: &str, text: &str) -> anyhow::Result<Command> {
    let path = target_dir().join("ship").join(name);
    std::fs::write(&path, text)?;
    let mut command = Command::new(python);
    command.arg(path);
    Ok(command)
}

/// Writes the minutes of recordings, NAME=DATA SET each, of which the fleet's are made.
pub(crate) fn record(recordings: &[String]) -> anyhow::Result<()> {
    let [duckdb, _] = ENGINES;
    let mut command = script(&python(&[duckdb])?, "recorded.py", RECORD)?;
    workspace::run(command.arg(root().join(RECORDED)).args(recordings))
}

/// The data set of so many machines and days.
fn simulate(python: &Path, name: &str, (machines, days): (u32, u32)) -> anyhow::Result<PathBuf> {
    let dir = target_dir().join("ship").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    let mut command = script(python, "simulate.py", SIMULATE)?;
    command.arg(&dir).args([machines, days].map(|count| count.to_string()));
    command.arg(root().join(RECORDED));
    workspace::run(&mut command)?;
    Ok(dir)
}

fn query(python: &Path, engine: &str, data: &Path, rounds: usize) -> anyhow::Result<EngineResults> {
    let mut command = script(python, "query.py", QUERY)?;
    command.arg(engine).arg(root().join("fleet")).arg(data).arg(rounds.to_string());
    let output = command.output().with_context(|| engine.to_owned())?;
    ensure!(
        output.status.success(),
        "{engine}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout).with_context(|| engine.to_owned())
}

/// Holds what the queries say first against what the fleet has.
fn verify(results: &EngineResults) -> anyhow::Result<()> {
    ensure!(results.queries.len() == EXPECTED.len(), "{} queries", results.queries.len());
    for (name, parts) in EXPECTED {
        let answer = results.queries.get(*name).with_context(|| format!("no query {name}"))?;
        let first = answer.rows.first().with_context(|| format!("{name}: no row"))?;
        let cells: Vec<String> = first.iter().map(shown).collect();
        let has = |part: &&&str| cells.iter().any(|cell| cell == **part);
        ensure!(parts.iter().all(|part| has(&part)), "{name}: {cells:?} lacks one of {parts:?}");
    }
    Ok(())
}

/// The same rows, but for how numbers and times are written.
fn is_same(one: &EngineResults, other: &EngineResults) -> anyhow::Result<()> {
    for (name, answer) in &one.queries {
        let others = &other.queries.get(name).with_context(|| name.clone())?.rows;
        let is_same = answer.rows.len() == others.len()
            && answer.rows.iter().zip(others).all(|(a, b)| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
            });
        ensure!(is_same, "{name} differs:\n{:?}\n{:?}", answer.rows.first(), others.first());
    }
    Ok(())
}

fn is_same_value(a: &Value, b: &Value) -> bool {
    // 64-bit integers are text in ClickHouse's JSON, and decimals in DuckDB's.
    match (shown(a).parse::<f64>(), shown(b).parse::<f64>()) {
        // Engines round halves to different sides.
        (Ok(a), Ok(b)) => (a - b).abs() <= 0.011 * a.abs().max(1.0),
        _ => shown(a) == shown(b),
    }
}

/// A time without the fraction of its second and its zone, which engines write differently.
fn shown(value: &Value) -> String {
    const TIME: &str = "2026-10-01 00:00:00";
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_time = text.len() >= TIME.len() && text.starts_with("20") && text.contains(':');
    if is_time { text.chars().take(TIME.len()).collect() } else { text }
}

/// Of all files, in bytes.
fn size(dir: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in dir.read_dir()? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(sum)
}

fn page(fleets: &[FleetDurations]) -> String {
    let mut text = "# Queries over the recordings of a fleet\n\nGenerated by `cargo xtask ship --write`: the queries in \
         [fleet/queries](../fleet/queries) over simulated machines, one file for each day and table (of at most 10,000 \
         machines), written as fleet/compact.sql writes it. Minutes are made of those of real recordings, ten at a time, \
         with levels of their own and counters times a factor (accuracy/src/ship/simulate.py). Each engine has two threads; \
         medians of three rounds in one process, in brackets the minimum and the maximum. The same command verifies on a \
         smaller fleet that both engines return the same rows, and that each query names the machine, cgroup, writer or \
         kernel that was made to stand out.\n"
        .to_owned();
    for measured in fleets {
        section(&mut text, measured);
    }
    text
}

fn section(
    text: &mut String,
    FleetDurations { fleet, bytes, minutes_bytes, simulated_s, engines }: &FleetDurations,
) {
    let (machines, days) = fleet;
    let unit = if *days == 1 { "day" } else { "days" };
    let (gigabytes, machine_days) = (*bytes as f64 / 1e9, f64::from(machines * days));
    let _ = write!(
        text,
        "\n## {machines} machines, {days} {unit}\n\n{gigabytes:.2} GB in all, {:.0} KB a machine and day, of which {:.0}% are \
         minutes; simulating and writing it took {simulated_s:.0} s.\n\n| query |",
        *bytes as f64 / machine_days / 1e3,
        *minutes_bytes as f64 / *bytes as f64 * 100.0,
    );
    for (name, ..) in ENGINES {
        let _ = write!(text, " {name}, s |");
    }
    *text += "\n|---|";
    *text += &"---|".repeat(ENGINES.len());
    text.push('\n');
    for (name, _) in EXPECTED {
        let _ = write!(text, "| [{name}](../fleet/queries/{name}.sql) |");
        for results in engines {
            let seconds = results.queries.get(*name).map_or(&[][..], |answer| &answer.seconds);
            if let [least, median, most] = seconds {
                let _ = write!(text, " {median:.2} ({least:.2} to {most:.2}) |");
            }
        }
        text.push('\n');
    }
    *text += "| memory of the process, MiB |";
    for results in engines {
        let _ = write!(text, " {} |", results.peak_mib);
    }
    text.push('\n');
}
