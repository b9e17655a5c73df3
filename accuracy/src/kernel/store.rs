//! What is stored of a kernel: `kernels/NAME/symbols.txt` has the names of its functions by module, and `keys.txt` its
//! files with every value replaced by 1, which the parsers of the program still read.

use super::package::KernelName;
use super::symbols::FunctionsByModule;
use anyhow::Context;
use mw_critical_path::FunctionName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use xtask::workspace::{read, root};

const DIR: &str = "kernels";

/// Functions whose name has one of these are stored, whether or not the tables name them: a new kernel's are what the
/// tables may lack. All functions would take 1.6 MiB a kernel.
const WORDS: &[&str] = &[
    "collapse",
    "compact",
    "dirty",
    "filemap",
    "folio",
    "freez",
    "futex",
    "hugetlb",
    "kcompactd",
    "khugepaged",
    "kswapd",
    "mem_cgroup",
    "memcg",
    "migrat",
    "mmap_lock",
    "oom",
    "reclaim",
    "rwsem",
    "shrink",
    "swap",
    "throttl",
    "vmscan",
    "wait",
    "writeback",
];

/// Modules of which only functions that the tables name are stored: drivers of GPUs wait for hardware.
const DRIVERS: &[&str] = &["amdgpu", "drm_gpusvm_helper", "nouveau", "xe"];

/// Files of stacks: those of /proc/PID/stack, and those of the scheduler's tracepoint.
pub(crate) const STACKS: [&str; 2] = ["waits", "traces"];

/// Functions that are stored for a name which many begin with (`ext4_`).
const OF_BEGINNING: usize = 4;

/// A kernel's stored names and files.
pub(crate) struct StoredKernel {
    pub(crate) name: KernelName,
    pub(crate) release: String,
    pub(crate) functions: FunctionsByModule,
    /// Texts of files by their name.
    pub(crate) files: BTreeMap<String, String>,
}

impl StoredKernel {
    pub(crate) fn new(
        name: KernelName,
        functions: &FunctionsByModule,
        texts: &BTreeMap<String, String>,
    ) -> anyhow::Result<Self> {
        let release = texts.get("release").context("the guest printed no release")?;
        let files = texts
            .iter()
            .filter(|(file, _)| !["end", "release", "symbols"].contains(&file.as_str()));
        let files = files.map(|(file, text)| (file.clone(), reduced(file, text)));
        Ok(Self {
            name,
            release: release.trim().to_owned(),
            functions: relevant(functions),
            files: files.collect(),
        })
    }

    /// Every stored kernel, by series and flavour.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        let mut kernels = Vec::new();
        for entry in root().join(DIR).read_dir().context(DIR)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            kernels.push(Self::load(KernelName::parse(&name)?)?);
        }
        kernels.sort_by_key(|kernel| (kernel.name.numbers(), kernel.name.to_string()));
        Ok(kernels)
    }

    fn load(name: KernelName) -> anyhow::Result<Self> {
        let file = |file: &str| read(&dir(&name).join(file));
        let (symbols, keys) = (file("symbols.txt")?, file("keys.txt")?);
        let functions = sections(&symbols).map(|(module, names)| {
            (module.to_owned(), names.lines().map(str::to_owned).collect::<BTreeSet<_>>())
        });
        let mut files: BTreeMap<_, _> = sections(&keys)
            .map(|(file, text)| (file.to_owned(), text.trim_end().to_owned() + "\n"))
            .collect();
        let release = files.remove("release").context("keys.txt has no release")?;
        Ok(Self { release: release.trim().to_owned(), functions: functions.collect(), files, name })
    }

    pub(crate) fn save(&self) -> anyhow::Result<u64> {
        let dir = dir(&self.name);
        std::fs::create_dir_all(&dir)?;
        let mut symbols = String::new();
        for (module, names) in &self.functions {
            symbols += &format!("[{module}]\n");
            symbols.extend(names.iter().flat_map(|name| [name, "\n"]));
        }
        let mut keys = format!("[release]\n{}\n", self.release);
        for (file, text) in &self.files {
            keys += &format!("[{file}]\n{}\n", text.trim_end_matches('\n'));
        }
        std::fs::write(dir.join("symbols.txt"), &symbols)?;
        std::fs::write(dir.join("keys.txt"), &keys)?;
        Ok((symbols.len() + keys.len()) as u64)
    }

    pub(crate) fn has(&self, name: FunctionName) -> bool {
        self.names().any(|function| name.is_of(function))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.values().flatten().map(String::as_str)
    }

    /// A file's text; empty where the kernel does not have it.
    pub(crate) fn file(&self, name: &str) -> &str {
        self.files.get(name).map_or("", String::as_str)
    }
}

fn dir(name: &KernelName) -> PathBuf {
    root().join(DIR).join(name.to_string())
}

/// Sections `[NAME]` and the lines below them.
fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = text.strip_prefix('[').unwrap_or_default().split("\n[");
    starts.filter_map(|section| section.split_once("]\n"))
}

fn relevant(functions: &FunctionsByModule) -> FunctionsByModule {
    let mut names: Vec<FunctionName> =
        super::sets::listed_sets().iter().flat_map(|set| set.functions.names()).collect();
    names.sort_unstable();
    names.dedup();
    let mut stored = BTreeMap::new();
    for (module, all) in functions {
        let of_name = |name: &FunctionName| {
            let limit = if name.as_str().ends_with('_') { OF_BEGINNING } else { usize::MAX };
            let name = *name;
            all.iter().filter(move |function| name.is_of(function)).take(limit)
        };
        let mut kept: BTreeSet<String> = names.iter().flat_map(of_name).cloned().collect();
        if !DRIVERS.contains(&module.as_str()) {
            kept.extend(all.iter().filter(|name| is_of_subject(name)).cloned());
        }
        if !kept.is_empty() {
            stored.insert(module.clone(), kept);
        }
    }
    stored
}

/// True if the name has a word of memory, waiting or I/O, and is no wrapper that a macro makes.
fn is_of_subject(name: &str) -> bool {
    let made = [
        "trace_",
        "perf_trace_",
        "__ia32_",
        "__do_trace_",
        "bpf_trace_",
        "__x64_compat_",
        "__do_compat_",
        "__arm64_compat_",
        "ftrace_",
        "__event_",
        "do_trace_",
        "__se_",
        "__perf_",
    ];
    !made.iter().any(|prefix| name.starts_with(prefix))
        && WORDS.iter().any(|word| name.contains(word))
}

/// The text with what differs between two boots removed: values, the second zone on, and of tracepoints all but fields.
fn reduced(file: &str, text: &str) -> String {
    if file == "tracepoints" {
        let is_kept =
            |line: &&str| line.starts_with("== ") || line.trim_start().starts_with("field:");
        let lines = text.lines().filter(is_kept).map(|line| line.trim_start().to_owned() + "\n");
        return lines.collect();
    }
    if STACKS.contains(&file) {
        return text.to_owned();
    }
    let text = if file == "zoneinfo" { first_populated_zone(text) } else { text };
    text.lines().map(|line| without_values(line) + "\n").collect()
}

/// The zones up to and with the first that has pages: the later ones have the same lines.
fn first_populated_zone(text: &str) -> &str {
    let end = text.match_indices("\nNode ").map(|(at, _)| at + 1).next();
    end.map_or(text, |end| &text[..end])
}

/// Replaces the numbers that stand alone by 1.
fn without_values(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let is_alone = rest[..at].chars().next_back().or(kept.chars().next_back());
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| at + end);
        let after = rest[end..].chars().next();
        let is_value = is_alone.is_some_and(|c| c == ' ' || c == '(')
            && after.is_none_or(|c| [' ', ',', ')'].contains(&c));
        kept += &rest[..at];
        kept += if is_value { "1" } else { &rest[at..end] };
        rest = &rest[end..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_replaced_and_names_are_kept() {
        assert_eq!(without_values("DirectMap4k:      128880 kB"), "DirectMap4k:      1 kB");
        assert_eq!(
            without_values("        protection: (0, 1915, 1915)"),
            "        protection: (1, 1, 1)"
        );
        assert_eq!(without_values("direct_map_level2_splits 28"), "direct_map_level2_splits 1");
    }

    #[test]
    fn sections_are_read_back() {
        let text = "[release]\n6.1\n[vmstat]\na 1\nb 1\n";
        let all: Vec<_> = sections(text).collect();
        assert_eq!(all, [("release", "6.1"), ("vmstat", "a 1\nb 1\n")]);
    }

    #[test]
    fn a_beginning_of_many_names_keeps_a_few() {
        let names = |count: usize| (0..count).map(|i| format!("ext4_a{i}")).collect();
        let kept = relevant(&BTreeMap::from([("ext4".to_owned(), names(100))]));
        assert_eq!(kept["ext4"].len(), OF_BEGINNING);
    }
}
