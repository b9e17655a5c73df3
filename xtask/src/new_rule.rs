//! Creates everything that a rule consists of, to be filled in. The tests of the catalogue fail
//! until it is.

use crate::{read, root};
use anyhow::Context;
use std::fs;
use std::path::Path;

const RULES: &str = "crates/mw-rules/src";

pub(crate) fn run(name: &str) -> anyhow::Result<()> {
    let well_named = name.split('-').all(|word| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    });
    anyhow::ensure!(
        well_named && name.starts_with(|c: char| c.is_ascii_lowercase()),
        "'{name}' is no rule's name: write the bad condition in kebab-case, such as swap-thrash"
    );
    create_under(&root(), name)?;
    println!(
        "created {name}: fill in its page and function, then lab/{name}, then make its fixtures \
         with 'cargo xtask fixtures {name}'; if it explains stalls, add a function 'cause', a stall \
         in crates/mw-rules/tests/causes/stalls.rs, and ', cause' in registry.rs"
    );
    Ok(())
}

fn create_under(root: &Path, name: &str) -> anyhow::Result<()> {
    let module = name.replace('-', "_");
    let source = root.join(RULES).join(format!("rules/{module}.rs"));
    anyhow::ensure!(!source.exists(), "there is a rule '{name}' already: {}", source.display());
    write(&source, &rule_source(name))?;
    insert(
        &root.join(RULES).join("rules/mod.rs"),
        "pub(crate) mod ",
        &format!("pub(crate) mod {module};"),
    )?;
    insert(
        &root.join(RULES).join("registry.rs"),
        "    rule!(\"",
        &format!("    rule!(\"{name}\", {module}: hazard),"),
    )?;
    let expected = format!("warning {name}: SUBJECT\n");
    write(&root.join(format!("fixtures/{name}/firing/expect.txt")), &expected)?;
    write(&root.join(format!("fixtures/{name}/quiet/expect.txt")), "")?;
    write(&root.join(format!("lab/{name}/case.toml")), &case(name))?;
    write(&root.join(format!("lab/{name}/make.sh")), MAKE)
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
    let at = lines
        .iter()
        .position(|other| other.starts_with(prefix) && *other > line)
        .or_else(|| lines.iter().rposition(|other| other.starts_with(prefix)).map(|at| at + 1))
        .with_context(|| format!("{}: no line begins with '{prefix}'", path.display()))?;
    lines.insert(at, line);
    fs::write(path, lines.join("\n") + "\n").with_context(|| path.display().to_string())
}

fn rule_source(name: &str) -> String {
    format!(
        r#"//! # {name}
//!
//! One sentence: what is wrong.
//!
//! ## What it finds
//!
//! ## Why it hurts
//!
//! ## What it looks like
//!
//! ## Threshold
//!
//! ## How to fix it
//!
//! ## References

use mw_model::{{Finding, Missing, Window}};

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {{
    window.now.sample.meminfo.need()?;
    Ok(Vec::new())
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
        create_under(dir.path(), "mm-nn").unwrap();
        assert_eq!(
            read(&rules.join("rules/mod.rs")).unwrap(),
            "pub(crate) mod aa;\npub(crate) mod mm_nn;\npub(crate) mod zz;\n"
        );
        assert_eq!(
            read(&rules.join("registry.rs")).unwrap(),
            "const RULES: &[Rule] = &[\n    rule!(\"aa\", aa: hazard),\n    rule!(\"mm-nn\", mm_nn: hazard),\n];\n"
        );
        for part in [
            "fixtures/mm-nn/firing/expect.txt",
            "fixtures/mm-nn/quiet/expect.txt",
            "lab/mm-nn/case.toml",
            "lab/mm-nn/make.sh",
        ] {
            assert!(dir.path().join(part).is_file(), "{part}");
        }
        assert!(create_under(dir.path(), "mm-nn").is_err());
    }
}
