//! Other files that set what one of ours sets.
//!
//! Two orders are checked: sysctl.d, where the last file by name wins and `/etc/sysctl.conf` comes
//! after all of them for procps, and tmpfiles.d, where the first one wins. A file hides those of the
//! same name in later directories. Patterns are not checked: an explicit key overrides them.

use crate::coupling::partner_of;
use crate::kernel::{Kernel, same_setting};
use crate::persist::{PersistTarget, SYSCTL_FILE, TMPFILES_FILE, sysctl_key};
use mw_sys::guarded;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;

const SYSCTL_DIRS: [&str; 5] = [
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
];
const SYSCTL_LAST: &str = "/etc/sysctl.conf";
const TMPFILES_DIRS: [&str; 4] =
    ["/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d"];
const FILES_MAX: usize = 2048;
const NAMES_MAX: usize = 65_536;
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A line in another file that sets what one of ours sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShadowedLine {
    pub file: String,
    /// The line's number, from 1.
    pub line: usize,
    /// Setting: ours, or the other file of the same limit.
    pub path: String,
    pub value: String,
    /// True if it takes effect over ours at the next boot.
    pub wins: bool,
}

impl ShadowedLine {
    /// True if it sets this path to another value, or the other file of the same limit where ours does not count.
    pub(crate) fn counts(&self, path: &str, value: &str) -> bool {
        let is_other = self.path != path || !same_setting(&self.value, value);
        is_other && (self.wins || self.path == path)
    }
}

impl fmt::Display for ShadowedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, path, value, wins } = self;
        let verdict = if *wins { "it overrides ours: change it there" } else { "ours wins" };
        write!(f, "{file} line {line} sets {path} to {value}; {verdict}")
    }
}

/// Lines elsewhere that set this path to another value, or set it where ours does not count.
pub(crate) fn shadows(
    kernel: &Kernel,
    target: &PersistTarget,
    path: &str,
    value: &str,
) -> Vec<ShadowedLine> {
    let found = match target.file.as_str() {
        SYSCTL_FILE => sysctl_lines(kernel, path),
        TMPFILES_FILE => tmpfiles_lines(kernel, path),
        // Whether a udev rule of another program matches is known to udev alone.
        _ => Vec::new(),
    };
    found.into_iter().filter(|other| other.counts(path, value)).collect()
}

fn sysctl_lines(kernel: &Kernel, path: &str) -> Vec<ShadowedLine> {
    let paths: Vec<&str> = std::iter::once(path).chain(partner_of(path)).collect();
    let own = name_of(SYSCTL_FILE);
    let mut files: Vec<(String, bool)> = conf_files(kernel, &SYSCTL_DIRS)
        .into_iter()
        .filter(|(name, _)| name != own)
        .map(|(name, file)| (file, name.as_str() > own))
        .collect();
    files.push((SYSCTL_LAST.to_owned(), true));
    files
        .iter()
        .flat_map(|(file, wins)| in_file(kernel, file, *wins, &paths, sysctl_line))
        .collect()
}

fn tmpfiles_lines(kernel: &Kernel, path: &str) -> Vec<ShadowedLine> {
    let own = name_of(TMPFILES_FILE);
    conf_files(kernel, &TMPFILES_DIRS)
        .iter()
        .filter(|(name, _)| *name != own)
        .flat_map(|(name, file)| in_file(kernel, file, name.as_str() < own, &[path], tmpfiles_line))
        .collect()
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The files of these directories by name; the first directory that has a name provides it.
fn conf_files(kernel: &Kernel, dirs: &[&str]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for dir in dirs {
        let names = guarded::names(&kernel.resolve(dir), NAMES_MAX).unwrap_or_default();
        for name in names {
            let name = name.to_string_lossy().into_owned();
            if name.ends_with(".conf") && files.len() < FILES_MAX {
                files.entry(name.clone()).or_insert_with(|| format!("{dir}/{name}"));
            }
        }
    }
    files
}

fn in_file(
    kernel: &Kernel,
    file: &str,
    wins: bool,
    paths: &[&str],
    parse: fn(&str) -> Option<(String, String)>,
) -> Vec<ShadowedLine> {
    let Some(text) = text_of(&kernel.resolve(file)) else { return Vec::new() };
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let (path, value) = parse(line)?;
            let known = paths.contains(&path.as_str());
            known.then(|| ShadowedLine {
                file: file.to_owned(),
                line: index + 1,
                path,
                value,
                wins,
            })
        })
        .collect()
}

pub(crate) fn text_of(path: &Path) -> Option<String> {
    // A file that cannot be read has no say in whether a change is made.
    let mut bytes = Vec::new();
    guarded::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The path and the value of `vm.swappiness = 10`, `-vm/swappiness=10` and the like.
pub(crate) fn sysctl_line(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (key, value) = line.split_once('=')?;
    let key = key.trim().trim_start_matches('-');
    let below = match key.find(['.', '/']) {
        Some(at) if key[at..].starts_with('.') => swap_separators(key),
        _ => key.to_owned(),
    };
    Some((format!("/proc/sys/{below}"), value.trim().to_owned()))
}

fn swap_separators(key: &str) -> String {
    let swap = |c| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    key.chars().map(swap).collect()
}

/// The path and the value of `w /sys/kernel/x - - - - value`.
fn tmpfiles_line(line: &str) -> Option<(String, String)> {
    let mut rest = line.trim();
    if !rest.starts_with('w') {
        return None;
    }
    let mut fields = Vec::new();
    for _ in 0..6 {
        let (field, behind) = rest.split_once(char::is_whitespace)?;
        fields.push(field);
        rest = behind.trim_start();
    }
    Some(((*fields.get(1)?).to_owned(), rest.to_owned()))
}

/// The name by which people know a setting: `vm.swappiness`, or the path where it has no other.
pub(crate) fn known_as(path: &str) -> String {
    path.strip_prefix("/proc/sys/").map_or_else(|| path.to_owned(), sysctl_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_sysctl(line: &str, path: &str, value: &str) {
        assert_eq!(sysctl_line(line), Some((path.to_owned(), value.to_owned())), "{line}");
    }

    #[test]
    fn sysctl_lines_are_read_as_both_readers_do() {
        check_sysctl("vm.swappiness = 10", "/proc/sys/vm/swappiness", "10");
        check_sysctl(" -vm/swappiness=10 ", "/proc/sys/vm/swappiness", "10");
        check_sysctl("net.ipv4.conf.e3/200.x = 1", "/proc/sys/net/ipv4/conf/e3.200/x", "1");
        check_sysctl("net/ipv4/conf/e3.200/x = 1", "/proc/sys/net/ipv4/conf/e3.200/x", "1");
        assert_eq!(sysctl_line("# vm.swappiness = 10"), None);
        assert_eq!(sysctl_line("; vm.swappiness = 10"), None);
        assert_eq!(sysctl_line("vm.swappiness"), None);
    }

    #[test]
    fn tmpfiles_lines_that_write_are_read() {
        let line = "w+  /sys/kernel/mm/ksm/run\t- - - -  1";
        assert_eq!(tmpfiles_line(line), Some(("/sys/kernel/mm/ksm/run".into(), "1".into())));
        assert_eq!(tmpfiles_line("d /run/x 0755 root root - -"), None);
        assert_eq!(tmpfiles_line("w /sys/x"), None);
    }
}
