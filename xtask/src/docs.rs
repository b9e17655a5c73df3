//! The generated documentation: each file has one source, and CI fails where they differ.

use crate::workspace::root;
use crate::{header, manual, monitoring};
use anyhow::Context;
use clap_complete::Shell;
use mw_model::{ACCOUNT_SCHEMA, MemoryAccount, Report, SCHEMA_VERSION, TRENDS_SCHEMA, Trends};
use mw_rules::RULES;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold generated files and nothing else.
const FOLDERS: [&str; 8] = [
    "docs/rules",
    "docs/man",
    "docs/completions",
    "docs/schema",
    "crates/mw-capi/include",
    "packaging/grafana",
    "packaging/kubernetes",
    "packaging/prometheus",
];

/// Generated files in other folders.
const SINGLE: [&str; 1] = ["docs/metrics.md"];

pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let wanted = all()?;
    let there = present()?;
    let mut stale: Vec<&PathBuf> = wanted
        .iter()
        .filter(|(path, bytes)| there.get(*path) != Some(bytes))
        .map(|(path, _)| path)
        .collect();
    let surplus: Vec<&PathBuf> = there.keys().filter(|path| !wanted.contains_key(*path)).collect();
    if check {
        stale.extend(&surplus);
        anyhow::ensure!(stale.is_empty(), "out of date, run 'cargo xtask docs': {stale:?}");
        return Ok(());
    }
    for path in stale {
        let file = root().join(path);
        if let Some(dir) = file.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&file, &wanted[path]).with_context(|| file.display().to_string())?;
        println!("wrote {}", path.display());
    }
    for path in surplus {
        fs::remove_file(root().join(path))?;
        println!("removed {}", path.display());
    }
    Ok(())
}

/// Every generated file with its content.
fn all() -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    rule_pages(&mut files);
    man_pages(&mut files)?;
    completions(&mut files)?;
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Report))? + "\n";
    files.insert(format!("docs/schema/report-v{SCHEMA_VERSION}.json").into(), schema.into());
    let printed = [
        ("account", (ACCOUNT_SCHEMA, schemars::schema_for!(MemoryAccount))),
        ("bench", mw_cli::bench_schema()),
        ("doctor", mw_cli::doctor_schema()),
        ("iotune", mw_cli::iotune_schema()),
        ("make-room", mw_cli::room_schema()),
        ("pool", mw_cli::pool_schema()),
        ("trends", (TRENDS_SCHEMA, schemars::schema_for!(Trends))),
    ];
    for (name, (version, schema)) in printed {
        let schema = serde_json::to_string_pretty(&schema)? + "\n";
        files.insert(format!("docs/schema/{name}-v{version}.json").into(), schema.into());
    }
    files.insert("crates/mw-capi/include/memwright.h".into(), header::text()?);
    monitoring::files(&mut files)?;
    Ok(files)
}

fn rule_pages(files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let mut index = String::from(
        "# Rules\n\nGenerated from the rules' own source files by `cargo xtask docs`; the same \
         text is shown by `memwright explain RULE`.\n\n",
    );
    for rule in RULES {
        index += &format!("- [{0}]({0}.md): {1}\n", rule.id, rule.summary());
        files.insert(format!("docs/rules/{}.md", rule.id).into(), rule.page().into());
    }
    files.insert("docs/rules/README.md".into(), index.into());
}

fn man_pages(files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    clap_mangen::generate_to(mw_cli::args::command(), dir.path())?;
    let mut default = default_command().disable_help_subcommand(true);
    default.build();
    clap_mangen::Man::new(default).generate_to(dir.path())?;
    fs::write(dir.path().join(manual::PAGE), manual::configuration()?)?;
    add_folder(dir.path(), "docs/man", files)
}

/// The command line of the default program: what is installed offers no command that it lacks. clap removes no command
/// from a command line, therefore all others are copied to a new one.
fn default_command() -> clap::Command {
    let full = mw_cli::args::command();
    let about = full.get_about().cloned().unwrap_or_default();
    let after_help = full.get_after_help().cloned().unwrap_or_default();
    clap::Command::new("memwright")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .about(about)
        .after_help(after_help)
        .args(full.get_arguments().cloned())
        .subcommands(full.get_subcommands().filter(|command| command.get_name() != "lab").cloned())
}

fn completions(files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut default_command(), "memwright", dir.path())?;
    }
    add_folder(dir.path(), "docs/completions", files)
}

fn add_folder(from: &Path, to: &str, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        files.insert(Path::new(to).join(entry.file_name()), fs::read(entry.path())?);
    }
    Ok(())
}

/// The files that are there now.
fn present() -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        let dir = root().join(folder);
        if dir.is_dir() {
            add_folder(&dir, folder, &mut files)?;
        }
    }
    for path in SINGLE {
        if let Ok(bytes) = fs::read(root().join(path)) {
            files.insert(path.into(), bytes);
        }
    }
    Ok(files)
}
