//! Services that set what memwright sets: TuneD and saptune apply their profile when they start, after sysctl.d and
//! tmpfiles.d. TuneD applies sysctl.d once more afterwards, unless `reapply_sysctl` is off.
//!
//! Sources: tuned.conf(5), tuned-main.conf(5), saptune-note(5).

use crate::coupling::same_limit;
use crate::kernel::Kernel;
use crate::persist::PersistTarget;
use crate::shadow::{ShadowedLine, shadows, sysctl_line, text_of};
use std::collections::BTreeSet;

const TUNED_ACTIVE: &str = "/etc/tuned/active_profile";
const TUNED_MAIN: &str = "/etc/tuned/tuned-main.conf";
/// The first that has a profile provides it.
const TUNED_DIRS: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// Profiles that are read: they include others.
const MAX_PROFILES: usize = 64;

const SAPTUNE: &str = "/etc/sysconfig/saptune";
/// An override takes precedence over what it overrides.
const SAPTUNE_NOTES: [&str; 4] = [
    "/etc/saptune/override",
    "/var/lib/saptune/working/notes",
    "/usr/share/saptune/notes",
    "/etc/saptune/extra",
];

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Lines elsewhere that set this path to another value, or set it where ours does not count: of files that are applied
/// at boot, and of TuneD and saptune.
pub(crate) fn others(
    kernel: &Kernel,
    target: &PersistTarget,
    path: &str,
    value: &str,
) -> Vec<ShadowedLine> {
    let of_services = tuned(kernel).into_iter().chain(saptune(kernel));
    let of_services =
        of_services.filter(|line| same_limit(&line.path, path) && line.counts(path, value));
    shadows(kernel, target, path, value).into_iter().chain(of_services).collect()
}

fn tuned(kernel: &Kernel) -> Vec<ShadowedLine> {
    let active = text_of(&kernel.resolve(TUNED_ACTIVE)).unwrap_or_default();
    let main = text_of(&kernel.resolve(TUNED_MAIN)).unwrap_or_default();
    let reapplies = !main.lines().any(|line| {
        let setting = line.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        setting.is_some_and(|(key, value)| key == "reapply_sysctl" && is_off(value))
    });
    let (mut lines, mut seen) = (Vec::new(), BTreeSet::new());
    for name in active.split_whitespace() {
        tuned_profile(kernel, name, &mut seen, &mut lines);
    }
    for line in &mut lines {
        line.wins = !(reapplies && line.path.starts_with("/proc/sys/"));
    }
    lines
}

fn is_off(value: &str) -> bool {
    ["0", "false", "no", "off"].contains(&value.to_ascii_lowercase().as_str())
}

/// Settings of a profile, after those that it includes; a later line replaces an earlier one for the same path.
fn tuned_profile(
    kernel: &Kernel,
    name: &str,
    seen: &mut BTreeSet<String>,
    lines: &mut Vec<ShadowedLine>,
) {
    let is_name = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    if !is_name || seen.len() >= MAX_PROFILES || !seen.insert(name.to_owned()) {
        return;
    }
    let files = TUNED_DIRS.iter().map(|dir| format!("{dir}/{name}/tuned.conf"));
    let found = files.into_iter().find_map(|file| Some((text_of(&kernel.resolve(&file))?, file)));
    let Some((text, file)) = found else { return };
    let sections = sections(&text);
    for entry in sections.iter().filter(|entry| entry.section == "main" && entry.key == "include") {
        for included in entry.value.split([',', ' ']) {
            tuned_profile(kernel, included.trim(), seen, lines);
        }
    }
    for entry in sections.iter().filter(|entry| !is_conditional(&sections, entry)) {
        let path = match (plugin(&sections, entry), entry.key) {
            ("sysctl", key) => sysctl_line(&format!("{key}=")).map(|(path, _)| path),
            ("sysfs", key) => Some(key.to_owned()),
            ("vm", "transparent_hugepages" | "transparent_hugepage") => {
                Some(format!("{THP}/enabled"))
            }
            ("vm", "transparent_hugepage.defrag") => Some(format!("{THP}/defrag")),
            _ => None,
        };
        if let Some(path) = path {
            // Operators that keep a larger or a smaller value.
            let value = entry.value.trim_start_matches(['=', '>', '<']).to_owned();
            lines.retain(|line| line.path != path);
            lines.push(ShadowedLine {
                file: file.clone(),
                line: entry.line,
                path,
                value,
                wins: true,
            });
        }
    }
}

/// True if an entry's section is for some machines only: whether this is one is not judged.
fn is_conditional(all: &[ConfigLine<'_>], entry: &ConfigLine<'_>) -> bool {
    let conditions = ["uname_regex", "cpuinfo_regex"];
    all.iter().any(|other| other.section == entry.section && conditions.contains(&other.key))
}

/// The plugin of an entry's section: that of its `type`, or the section's name.
fn plugin<'a>(all: &[ConfigLine<'a>], entry: &ConfigLine<'a>) -> &'a str {
    let of_type = all.iter().find(|other| other.section == entry.section && other.key == "type");
    of_type.map_or(entry.section, |kind| kind.value)
}

fn saptune(kernel: &Kernel) -> Vec<ShadowedLine> {
    let config = text_of(&kernel.resolve(SAPTUNE)).unwrap_or_default();
    let order = config.lines().find_map(|line| line.trim().strip_prefix("NOTE_APPLY_ORDER="));
    let mut lines: Vec<ShadowedLine> = Vec::new();
    for note in order.unwrap_or_default().trim_matches('"').split_whitespace() {
        if note.contains('/') || note.starts_with('.') {
            continue;
        }
        let files = SAPTUNE_NOTES
            .iter()
            .flat_map(|dir| [format!("{dir}/{note}"), format!("{dir}/{note}.conf")]);
        let texts = files.filter_map(|file| Some((text_of(&kernel.resolve(&file))?, file)));
        // The override comes first: what it sets counts.
        let mut of_note: Vec<ShadowedLine> = Vec::new();
        for (text, file) in texts {
            for entry in sections(&text) {
                let path = match (entry.section, entry.key) {
                    ("sysctl", key) => sysctl_line(&format!("{key}=")).map(|(path, _)| path),
                    ("vm", "THP") => Some(format!("{THP}/enabled")),
                    _ => None,
                };
                let Some(path) = path else { continue };
                if !of_note.iter().any(|line| line.path == path) {
                    let (file, value) = (file.clone(), entry.value.to_owned());
                    of_note.push(ShadowedLine { file, line: entry.line, path, value, wins: true });
                }
            }
        }
        lines.retain(|line| of_note.iter().all(|newer| newer.path != line.path));
        lines.extend(of_note);
    }
    lines
}

/// A line `key = value` of a file with sections.
struct ConfigLine<'a> {
    section: &'a str,
    key: &'a str,
    value: &'a str,
    line: usize,
}

fn sections(text: &str) -> Vec<ConfigLine<'_>> {
    let mut section = "";
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        } else if line.starts_with(['#', ';']) {
            continue;
        } else if let Some((key, value)) = line.split_once('=') {
            entries.push(ConfigLine {
                section,
                key: key.trim(),
                value: value.trim(),
                line: index + 1,
            });
        }
    }
    entries
}
