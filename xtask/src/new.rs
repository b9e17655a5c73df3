//! Skeletons of a rule, a cause, a probe, a collector or a lab case. CONTRIBUTING.md says what to fill in;
//! tests of the catalogue, of the probes and of the cases fail until that is done.

mod compile;

use crate::workspace::{read, root};
use anyhow::Context;
pub(crate) use compile::run as compile;
use std::fs;
use std::path::Path;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum SkeletonKind {
    /// A hazard, which may be a cause of stalls as well
    Rule,
    /// A cause of stalls that stacks show
    Cause,
    /// A request to a kind of service
    Probe,
    /// A kernel file that every snapshot has
    Collector,
    /// A condition to create in a virtual machine
    Case,
}

const RULES: &str = "crates/mw-rules/src";
const STACKS: &str = "crates/mw-rules/tests/causes/stacks.rs";
const PROBES: &str = "crates/mw-probe";

/// A fixture with nothing but what it expects; `cargo xtask fixtures` adds the tree.
const EXPECTATIONS: &str = "memwright text archive 1\n-- expect.txt --\n";

pub(crate) fn run(part: SkeletonKind, name: &str) -> anyhow::Result<()> {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let well_named = name.split('-').all(is_word);
    anyhow::ensure!(
        well_named && name.starts_with(|c: char| c.is_ascii_lowercase()),
        "invalid name '{name}' (use kebab-case, for example swap-thrash)"
    );
    let by_hand = create_under(&root(), part, name)?;
    println!("created {name}; fill in:");
    by_hand.iter().for_each(|file| println!("  {file}"));
    println!("CONTRIBUTING.md has the next steps");
    Ok(())
}

/// Creates the skeleton; the files that are left to fill in.
fn create_under(root: &Path, part: SkeletonKind, name: &str) -> anyhow::Result<Vec<String>> {
    match part {
        SkeletonKind::Rule => rule(root, name),
        SkeletonKind::Cause => cause(root, name),
        SkeletonKind::Probe => probe(root, name),
        SkeletonKind::Collector => collector(root, name),
        SkeletonKind::Case => {
            let by_hand = case_files(root, name)?;
            let case = "description = \"TODO\"\n\n[machine]\nkernel = \"6.12\"\nmemory = \"1G\"\n\n\
                        [expect]\nabsent = []\n\n[variant.firing]\nhow = \"TODO\"\n";
            fs::write(root.join(&by_hand[0]), case)?;
            Ok(by_hand)
        }
    }
}

/// Creates a rule's file and registers it; the file.
fn registered(root: &Path, name: &str, source: &str, row: &str) -> anyhow::Result<String> {
    let module = name.replace('-', "_");
    let file = format!("{RULES}/rules/{module}.rs");
    create(&root.join(&file), source)?;
    let list = root.join(RULES).join("rules/mod.rs");
    insert(&list, "pub(crate) mod ", &format!("pub(crate) mod {module};"))?;
    let row = format!("    rule!(\"{name}\", {module}: {row},");
    insert(&root.join(RULES).join("registry.rs"), "    rule!(\"", &row)?;
    Ok(file)
}

fn cause(root: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let row = format!("cause).by(roles::nobody).shown_by({}::FUNCTIONS)", name.replace('-', "_"));
    let source = registered(root, name, &cause_source(name), &row)?;
    let files = ["lab/waits (a kind of wait)", "accuracy/src/kernel/waits.rs (what it is)"];
    let by_hand = [source, STACKS.to_owned()].into_iter();
    Ok(by_hand.chain(files.map(str::to_owned)).collect())
}

fn rule(root: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let source = registered(root, name, &rule_source(name), "hazard)")?;
    let firing = format!("{EXPECTATIONS}warning {name}: SUBJECT\n");
    create(&root.join(format!("fixtures/{name}/firing.txt")), &firing)?;
    create(&root.join(format!("fixtures/{name}/quiet.txt")), EXPECTATIONS)?;
    Ok([source].into_iter().chain(case_files(root, name)?).collect())
}

fn case_files(root: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let files = ["case.toml", "make.sh"].map(|file| format!("lab/{name}/{file}"));
    create(&root.join(&files[0]), &case(name))?;
    create(&root.join(&files[1]), MAKE)?;
    Ok(files.to_vec())
}

fn probe(root: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let module = name.replace('-', "_");
    let (source, test) =
        (format!("{PROBES}/src/{module}.rs"), format!("{PROBES}/tests/probes/{module}.rs"));
    create(&root.join(&source), &probe_source(name, &pascal_case(name)))?;
    create(&root.join(&test), &probe_test(name))?;
    insert(&root.join(PROBES).join("src/lib.rs"), "mod ", &format!("mod {module};"))?;
    let tests = root.join(PROBES).join("tests/probes/main.rs");
    insert(&tests, "mod ", &format!("mod {module};"))?;
    let target = root.join(PROBES).join("src/target.rs");
    let row =
        format!("    Scheme {{ prefixes: &[\"{name}://\"], parse: crate::{module}::parse }},");
    insert_after(&target, "    Scheme { prefixes: &[\"redis://", &row)?;
    insert_after(&target, "/// | `redis://", &format!("/// | `{name}://HOST:PORT` | TODO |"))?;
    Ok(vec![source, test, format!("{PROBES}/src/target.rs (the table of targets)")])
}

fn collector(root: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let module = name.replace('-', "_");
    let kind = pascal_case(name);
    let source = format!("crates/mw-proc/src/{module}.rs");
    create(&root.join(&source), &parser_source(name, &kind))?;
    insert(&root.join("crates/mw-proc/src/lib.rs"), "pub mod ", &format!("pub mod {module};"))?;
    let snapshot = "crates/mw-model/src/snapshot.rs";
    let field =
        format!("    /// /proc/{name}.\n    pub {module}: Reading<mw_proc::{module}::{kind}>,");
    insert_after(&root.join(snapshot), "    pub inodes: Reading<", &field)?;
    let path = format!("\"/proc/{name}\"");
    let look = format!(
        "    snapshot.{module} = source.reading({path}, mw_proc::{module}::{kind}::parse);"
    );
    insert_after(&root.join("crates/mw-collect/src/lib.rs"), "    snapshot.inodes = ", &look)?;
    let captured = root.join("crates/mw-collect/src/capture.rs");
    insert_after(&captured, "    \"/proc/sys/fs/inode-state\",", &format!("    {path},"))?;
    Ok(vec![source, format!("{snapshot} (what the field is)")])
}

fn pascal_case(name: &str) -> String {
    let capitalized = |word: &str| {
        let (first, rest) = word.split_at(1.min(word.len()));
        first.to_ascii_uppercase() + rest
    };
    name.split('-').map(capitalized).collect()
}

fn create(path: &Path, text: &str) -> anyhow::Result<()> {
    anyhow::ensure!(!path.exists(), "{} exists already", path.display());
    write(path, text)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let dir = path.parent().context("a path without a folder")?;
    fs::create_dir_all(dir)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Puts a line among those that begin with `prefix`, in their order.
fn insert(path: &Path, prefix: &str, line: &str) -> anyhow::Result<()> {
    let text = read(path)?;
    let mut lines: Vec<&str> = text.lines().collect();
    let mut at = lines
        .iter()
        .position(|other| other.starts_with(prefix) && *other > line)
        .or_else(|| lines.iter().rposition(|other| other.starts_with(prefix)).map(|at| at + 1))
        .with_context(|| format!("{}: no line begins with '{prefix}'", path.display()))?;
    // An attribute belongs to the line below it.
    while at > 0 && lines[at - 1].starts_with("#[") {
        at -= 1;
    }
    lines.insert(at, line);
    fs::write(path, lines.join("\n") + "\n").with_context(|| path.display().to_string())
}

/// Puts lines after the one that begins with `prefix`.
fn insert_after(path: &Path, prefix: &str, text: &str) -> anyhow::Result<()> {
    let old = read(path)?;
    let mut lines: Vec<&str> = old.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.starts_with(prefix))
        .with_context(|| format!("{}: no line begins with '{prefix}'", path.display()))?;
    lines.insert(at + 1, text);
    fs::write(path, lines.join("\n") + "\n").with_context(|| path.display().to_string())
}

/// The headings of a rule's page, in their order.
const PAGE: &str = "//!
//! One sentence: what is wrong.
//!
//! ## What it finds
//!
//! ## Why it hurts
//!
//! ## What it looks like
//!
//! ## How to fix it
//!
//! ## Threshold
//!
//! ## References
";

fn cause_source(name: &str) -> String {
    format!(
        r#"//! # {name}
{PAGE}
use crate::stack_evidence::StackEvidence;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::kernel::{{FunctionSet, is_in}};
use mw_model::{{Area, Finding, Missing, Remedy, Severity, Step}};

/// Functions of a task in the condition.
pub(crate) const FUNCTIONS: &[FunctionSet] = &[FunctionSet::new(&["TODO"])];

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {{
    let Some(seen) = StackEvidence::find(stall, |stack| is_in(stack, FUNCTIONS)) else {{
        return Ok(None);
    }};
    let headline = format!("TODO blocked {{}}", seen.task());
    let finding = Finding::new(Severity::Warning, Area::Reclaim, headline)
        .with_impact("TODO")
        .with_remedy(Remedy::named("TODO", vec![Step::manual("TODO")]));
    seen.cause(finding)
}}
"#
    )
}

fn rule_source(name: &str) -> String {
    format!(
        r#"//! # {name}
{PAGE}
use mw_model::{{Finding, Missing, Window}};

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {{
    window.now.sample.meminfo.required()?;
    Ok(Vec::new())
}}
"#
    )
}

fn probe_source(name: &str, kind: &str) -> String {
    format!(
        r#"//! `{name}://HOST:PORT`: what it requests, and what counts as an answer.

use crate::address::{{TargetAddress, ParseResult, endpoint, name}};
use crate::link::{{Connector, Deadline, Endpoint, LinkError}};
use crate::protocol::Probe;
use std::fmt;
use std::sync::Arc;

pub(crate) fn parse(rest: &str) -> ParseResult {{
    Ok(Arc::new({kind}TargetAddress(endpoint("{name}", rest, None)?)))
}}

#[derive(Debug)]
struct {kind}TargetAddress(Endpoint);

impl fmt::Display for {kind}TargetAddress {{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{
        write!(f, "{name}://{{}}", self.0)
    }}
}}

impl TargetAddress for {kind}TargetAddress {{
    fn default_name(&self) -> String {{
        name("{name}", &self.0)
    }}

    fn probe(&self) -> Box<dyn Probe> {{
        Box::new({kind}Probe(Connector::new(self.0.clone())))
    }}
}}

struct {kind}Probe(Connector);

impl Probe for {kind}Probe {{
    fn send(&mut self, deadline: &Deadline<'_>) -> Result<(), LinkError> {{
        self.0.connect(deadline).map(drop)
    }}
}}
"#
    )
}

fn probe_test(name: &str) -> String {
    let module = name.replace('-', "_");
    format!(
        r#"//! A server that answers, stalls and recovers.

use mw_probe::Target;

#[test]
fn a_{module}_target_is_parsed() {{
    let target: Target = "{name}://127.0.0.1:1".parse().unwrap();
    assert_eq!(target.default_name(), "{name}-1");
}}
"#
    )
}

fn parser_source(name: &str, kind: &str) -> String {
    format!(
        r#"//! `/proc/{name}`: what it counts, and since which kernel.

use crate::error::{{ParseError, Problem}};
use crate::scan;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct {kind} {{
    pub first: u64,
}}

impl {kind} {{
    /// Parses the file; it allocates nothing.
    ///
    /// # Errors
    /// The number is malformed or missing.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {{
        let first = scan::fields(text).next().ok_or(Problem::Truncated);
        let first = first.and_then(scan::parse_u64);
        Ok(Self {{ first: first.map_err(|problem| ParseError::new(1, problem))? }})
    }}
}}

#[cfg(test)]
mod tests {{
    use super::*;

    #[test]
    fn parses() {{
        assert_eq!({kind}::parse(b"12\n"), Ok({kind} {{ first: 12 }}));
        assert_eq!({kind}::parse(b"\n").unwrap_err().problem, Problem::Truncated);
    }}
}}
"#
    )
}

fn case(name: &str) -> String {
    format!(
        r#"description = "what {name} is, in one sentence"

[machine]
kernel = "6.1"
memory = "1G"

[expect]
found = ["{name}"]

[variant.firing]
how = "How the condition was made."

[variant.quiet]
how = "The same machine without it."
expect = {{ absent = ["{name}"] }}
"#
    )
}

const MAKE: &str = "# Makes the condition in the guest and leaves it in force.
case $1 in
firing) ;;
quiet) ;;
esac
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_rule_has_all_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join(RULES);
        write(&rules.join("rules/mod.rs"), "pub(crate) mod aa;\npub(crate) mod zz;\n").unwrap();
        let registry = "const RULES: &[Rule] = &[\n    rule!(\"aa\", aa: hazard),\n];\n";
        write(&rules.join("registry.rs"), registry).unwrap();
        create_under(dir.path(), SkeletonKind::Rule, "mm-nn").unwrap();
        assert_eq!(
            read(&rules.join("rules/mod.rs")).unwrap(),
            "pub(crate) mod aa;\npub(crate) mod mm_nn;\npub(crate) mod zz;\n"
        );
        assert_eq!(
            read(&rules.join("registry.rs")).unwrap(),
            "const RULES: &[Rule] = &[\n    rule!(\"aa\", aa: hazard),\n    rule!(\"mm-nn\", mm_nn: hazard),\n];\n"
        );
        for part in [
            "fixtures/mm-nn/firing.txt",
            "fixtures/mm-nn/quiet.txt",
            "lab/mm-nn/case.toml",
            "lab/mm-nn/make.sh",
        ] {
            assert!(dir.path().join(part).is_file(), "{part}");
        }
        assert!(create_under(dir.path(), SkeletonKind::Rule, "mm-nn").is_err());
    }

    /// Every anchor of a skeleton is in the files as they are.
    #[test]
    fn every_skeleton_fits_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        for file in [
            "crates/mw-rules/src/rules/mod.rs",
            "crates/mw-rules/src/registry.rs",
            "crates/mw-probe/src/lib.rs",
            "crates/mw-probe/src/target.rs",
            "crates/mw-probe/tests/probes/main.rs",
            "crates/mw-proc/src/lib.rs",
            "crates/mw-model/src/snapshot.rs",
            "crates/mw-collect/src/lib.rs",
            "crates/mw-collect/src/capture.rs",
        ] {
            write(&dir.path().join(file), &read(&root().join(file)).unwrap()).unwrap();
        }
        for (kind, name) in [
            (SkeletonKind::Rule, "new-rule"),
            (SkeletonKind::Cause, "new-cause"),
            (SkeletonKind::Probe, "memcached"),
            (SkeletonKind::Collector, "new-file"),
            (SkeletonKind::Case, "new-case"),
        ] {
            let by_hand = create_under(dir.path(), kind, name).unwrap();
            assert!((1..=4).contains(&by_hand.len()), "{kind:?}: {by_hand:?}");
        }
        let probes = read(&dir.path().join("crates/mw-probe/src/lib.rs")).unwrap();
        assert!(probes.contains("mod memcached;\n#[cfg(feature = \"mysql\")]\nmod mysql;"));
    }
}
