//! What the documentation and the sample say of the file.

use super::Config;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(path).unwrap()
}

fn parse(text: &str) -> Result<Config, String> {
    toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
}

/// A table that has an entry of no known name: what it expects instead, or nothing where it is no table.
fn entries(header: &str) -> Option<Vec<String>> {
    let message = parse(&format!("{header}\nunheard-of = 1\n")).unwrap_err();
    let (_, known) = message.strip_prefix("unknown field `unheard-of`")?.split_once("expected")?;
    Some(known.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// All entries of the file, by the header of their table; found by asking, so that none can be forgotten.
fn all_entries() -> BTreeMap<String, Vec<String>> {
    let mut tables = BTreeMap::new();
    let mut headers = vec![String::new()];
    while let Some(header) = headers.pop() {
        let names = entries(&header).unwrap();
        let path = header.trim_matches(['[', ']']);
        for name in &names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let inner = [format!("[{path}]"), format!("[[{path}]]")];
            headers.extend(inner.into_iter().filter(|inner| entries(inner).is_some()));
        }
        tables.insert(header, names);
    }
    tables
}

#[test]
fn every_table_is_found() {
    let tables = all_entries();
    let headers: Vec<&str> = tables.keys().map(String::as_str).collect();
    assert_eq!(
        headers,
        [
            "",
            "[[notify]]",
            "[[pool.create]]",
            "[[watch.probe]]",
            "[check]",
            "[heartbeats]",
            "[pool]",
            "[run]",
            "[ship]",
            "[watch]"
        ]
    );
    assert_eq!(tables["[check]"], ["fail-on"]);
}

/// The sections of the page by their headings.
fn sections(page: &str) -> BTreeMap<&str, &str> {
    let sections = page.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'));
    sections.collect()
}

/// Promise (Installation): Every entry of the configuration is documented with type and default, and is in the valid
/// sample.
#[test]
fn every_entry_is_documented_with_type_and_default() {
    let page = read("docs/configuration.md");
    let sections = sections(&page);
    for (header, names) in all_entries() {
        let section = sections[if header.is_empty() { "General" } else { &header }];
        // A table that has a section is no entry of the one above.
        let has_section = |name: &String| {
            let headings = [format!("[{name}]"), format!("[[{name}]]")];
            header.is_empty() && headings.iter().any(|heading| sections.contains_key(&**heading))
        };
        for name in names.iter().filter(|name| !has_section(name)) {
            let item = format!("- `{name}` (");
            let line = section.lines().find(|line| line.starts_with(&item));
            let line =
                line.unwrap_or_else(|| panic!("docs/configuration.md: {header} lacks {name}"));
            assert!(line.contains("default ") || line.contains("required"), "{header}: {line}");
        }
    }
}

#[test]
fn nothing_is_documented_that_the_file_may_not_have() {
    let (page, tables) = (read("docs/configuration.md"), all_entries());
    for (heading, section) in sections(&page) {
        let header = if heading == "General" { "" } else { heading };
        let Some(known) = tables.get(header) else { continue };
        let items = section.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next());
        for item in items {
            assert!(known.iter().any(|name| name == item), "{heading}: there is no {item}");
        }
    }
}

#[test]
fn the_examples_are_valid() {
    let page = read("docs/configuration.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let config = parse(example).unwrap();
    config.watch().probes().unwrap();
    config.pool().create().unwrap();
}

#[test]
fn the_sample_is_valid_and_has_every_entry() {
    let sample = read("packaging/memwright.toml");
    assert!(parse(&sample).is_ok(), "as it is, all of it is comments");
    // A comment of words begins with a space.
    let settings = sample.lines().filter(|line| !line.starts_with("# "));
    let settings: Vec<&str> = settings.map(|line| line.trim_start_matches('#')).collect();
    let config = parse(&settings.join("\n")).unwrap();
    config.watch().probes().unwrap();
    config.pool().create().unwrap();
    assert_eq!(config.recording(None), PathBuf::from("/var/lib/memwright/recording.db"));

    let table: toml::Table = settings.join("\n").parse().unwrap();
    for (header, names) in all_entries() {
        let path = header.trim_matches(['[', ']']);
        let mut value = toml::Value::Table(table.clone());
        for step in path.split('.').filter(|step| !step.is_empty()) {
            value = value[step].clone();
            value = value.get(0).cloned().unwrap_or(value);
        }
        for name in names {
            assert!(value.get(&*name).is_some(), "packaging/memwright.toml: {header} lacks {name}");
        }
    }
}
