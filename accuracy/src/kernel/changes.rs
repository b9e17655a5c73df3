//! Differences between a kernel and an older one, as a list of work for the tables.

use super::package::KernelName;
use super::sets::listed_sets;
use super::store::{STACKS, StoredKernel};
use mw_critical_path::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

/// Words of a name that both kernels' functions must share, of all their words, for one to be taken for the other.
const ALIKE: f64 = 0.5;

/// The nearest older kernel: of the same flavour if there is one, else of any, of the same series at most.
pub(crate) fn nearest_older<'a>(
    name: &KernelName,
    kernels: &'a [StoredKernel],
) -> Option<&'a StoredKernel> {
    let others = || kernels.iter().filter(|kernel| kernel.name != *name);
    let same = others().filter(|kernel| kernel.name.flavour() == name.flavour());
    let older = same.filter(|kernel| kernel.name.numbers() < name.numbers());
    let any = others().filter(|kernel| kernel.name.numbers() <= name.numbers());
    let architecture = |kernel: &&StoredKernel| kernel.name.architecture() == name.architecture();
    older
        .max_by_key(|kernel| kernel.name.numbers())
        .or_else(|| any.max_by_key(|kernel| (kernel.name.numbers(), architecture(kernel))))
}

/// A list of work, a line each.
pub(crate) fn list(new: &StoredKernel, old: &StoredKernel) -> Vec<String> {
    let mut lines = vec![format!("{} against {}", new.release, old.release)];
    section(&mut lines, "functions of the tables that are gone", gone(new, old));
    section(&mut lines, "functions that are new and no table has", unlisted(new, old));
    section(&mut lines, "files: lost (-) and added (+) lines", keys(new, old));
    lines
}

fn section(lines: &mut Vec<String>, title: &str, items: Vec<String>) {
    lines.push(format!(
        "\n{title}: {}",
        if items.is_empty() { "none".to_owned() } else { items.len().to_string() }
    ));
    lines.extend(items.into_iter().map(|item| format!("  {item}")));
}

/// Names that matched a function before and match none now, with the new functions whose names are like theirs.
fn gone(new: &StoredKernel, old: &StoredKernel) -> Vec<String> {
    let mut lists: BTreeMap<FunctionName, BTreeSet<&str>> = BTreeMap::new();
    for set in listed_sets() {
        for name in set.functions.names() {
            lists.entry(name).or_default().insert(set.list);
        }
    }
    let added = added(new, old);
    let lost = lists.into_iter().filter(|(name, _)| old.has(*name) && !new.has(*name));
    let line = |(name, lists): (FunctionName, BTreeSet<&str>)| {
        let lists: Vec<&str> = lists.into_iter().collect();
        let like: Vec<&str> = added
            .iter()
            .copied()
            .filter(|function| alike(name.as_str(), function) >= ALIKE)
            .take(3)
            .collect();
        let like =
            if like.is_empty() { String::new() } else { format!("; new: {}", like.join(", ")) };
        format!("{} ({}){like}", name.as_str(), lists.join(", "))
    };
    lost.map(line).collect()
}

/// New functions in which a task may wait, that no table has.
fn unlisted(new: &StoredKernel, old: &StoredKernel) -> Vec<String> {
    let sets = listed_sets();
    let is_listed = |name: &str| sets.iter().any(|set| set.functions.has(name));
    let waits = |name: &str| {
        ["wait", "throttl", "reclaim", "compact"].iter().any(|word| name.contains(word))
    };
    let added = added(new, old).into_iter().filter(|name| waits(name) && !is_listed(name));
    added.map(str::to_owned).collect()
}

/// Functions of the modules that both kernels have.
fn added<'a>(new: &'a StoredKernel, old: &StoredKernel) -> BTreeSet<&'a str> {
    let known: BTreeSet<&str> = old.names().collect();
    let common = new.functions.iter().filter(|(module, _)| old.functions.contains_key(*module));
    let names = common.flat_map(|(_, names)| names).map(String::as_str);
    names.filter(|name| !known.contains(name)).collect()
}

/// Share of words that two names have in common.
fn alike(one: &str, other: &str) -> f64 {
    let words = |name: &'_ str| -> BTreeSet<String> {
        name.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (one, other) = (words(one), words(other));
    let common = one.intersection(&other).count();
    #[expect(clippy::cast_precision_loss, reason = "a name has few words")]
    let share = common as f64 / one.union(&other).count().max(1) as f64;
    share
}

fn keys(new: &StoredKernel, old: &StoredKernel) -> Vec<String> {
    let all = new.files.keys().chain(old.files.keys());
    let files = all.filter(|file| !STACKS.contains(&file.as_str()));
    let files: BTreeSet<&String> = files.collect();
    let mut lines = Vec::new();
    for file in files {
        let (before, after) = (keyed(old.file(file)), keyed(new.file(file)));
        lines.extend(before.difference(&after).map(|key| format!("{file} -{key}")));
        lines.extend(after.difference(&before).map(|key| format!("{file} +{key}")));
    }
    lines
}

/// The name at the beginning of a line, as in `MemTotal: 1 kB`.
fn without_value(line: &str) -> &str {
    let name = line.trim().trim_end_matches(" kB");
    name.strip_suffix(" 1").unwrap_or(name).trim_end_matches([' ', ':'])
}

/// Names in a file, without values; a tracepoint's field has the tracepoint's name before it, and no offset.
fn keyed(text: &str) -> BTreeSet<String> {
    let mut point = "";
    let mut keys = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            point = name;
        }
        let key = line.strip_prefix("field:").map_or_else(
            || without_value(line).to_owned(),
            |field| format!("{point} {}", field.split(';').next().unwrap_or(field)),
        );
        keys.insert(key.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_function_is_like_its_old_name() {
        assert!(alike("hpage_collapse_scan_pmd", "collapse_scan_pmd") >= ALIKE);
        assert!(alike("wait_on_page_bit", "folio_wait_stable") < ALIKE);
    }

    #[test]
    fn names_of_files_have_no_values() {
        let keys = keyed(
            "nr_free_pages 1\nMemTotal:  1 kB\n== oom/mark_victim\nfield:int pid;\toffset:8;\n",
        );
        for key in ["nr_free_pages", "MemTotal", "oom/mark_victim int pid"] {
            assert!(keys.contains(key), "{key}: {keys:?}");
        }
    }
}
