//! Replaces paths that people chose by numbers, the same path by the same number.

use mw_proc::mounts;
use std::collections::HashMap;

/// Mount points and groups that every machine has: their names tell nothing.
const COMMON: &[&str] = &[
    "/",
    "/dev",
    "/dev/hugepages",
    "/dev/shm",
    "/proc",
    "/run",
    "/run/lock",
    "/sys",
    "/tmp",
    "/var/tmp",
];
const COMMON_PREFIX: &str = "/sys/";

/// The kernel names these devices, and their size is in files below that name.
const ZRAM_PREFIX: &str = "/dev/zram";

/// Remembers which number a path was given.
pub(crate) struct Redactor {
    on: bool,
    numbers: HashMap<String, usize>,
}

impl Redactor {
    pub(crate) fn new(on: bool) -> Self {
        Self { on, numbers: HashMap::new() }
    }

    fn number(&mut self, kind: &str, name: &str) -> String {
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(format!("{kind} {name}")).or_insert(next);
        format!("{kind}-{number}")
    }

    pub(crate) fn mount(&mut self, target: &str) -> String {
        if !self.on || COMMON.contains(&target) || target.starts_with(COMMON_PREFIX) {
            return target.to_owned();
        }
        format!("/{}", self.number("mount", target))
    }

    /// The path of a cgroup, component by component.
    pub(crate) fn group(&mut self, path: &str) -> String {
        if !self.on {
            return path.to_owned();
        }
        let parts: Vec<String> = path
            .split('/')
            .map(|part| if part.is_empty() { String::new() } else { self.number("group", part) })
            .collect();
        parts.join("/")
    }

    /// The text of /proc/mounts: devices and mount points.
    pub(crate) fn mounts(&mut self, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let mounts = mounts::parse(text.as_bytes()).unwrap_or_default();
        mounts
            .iter()
            .map(|mount| {
                let target = self.mount(&mount.target).replace(' ', "\\040");
                let options = self.options(&mount.options);
                format!("{} {target} {} {options} 0 0\n", mount.fstype, mount.fstype)
            })
            .collect()
    }

    /// Mount options without those that name a path.
    fn options(&self, options: &[String]) -> String {
        let kept: Vec<&str> =
            options.iter().map(String::as_str).filter(|option| !option.contains('/')).collect();
        kept.join(",")
    }

    /// The text of /proc/swaps: the first column.
    pub(crate) fn swaps(&mut self, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        let rows = lines.map(|line| {
            let (path, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            if path.starts_with(ZRAM_PREFIX) {
                return format!("{line}\n");
            }
            format!("/{} {rest}\n", self.number("swap", path))
        });
        let rows: String = rows.collect();
        format!("{header}\n{rows}")
    }

    /// The text of /proc/self/cgroup: the third column.
    pub(crate) fn self_cgroup(&mut self, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let line = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (id, controllers) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            format!("{id}:{controllers}:{}\n", self.group(parts.next().unwrap_or("/")))
        };
        text.lines().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_path_gets_the_same_number() {
        let mut redactor = Redactor::new(true);
        let mounts = redactor.mounts("tmpfs /srv/acme/cache tmpfs rw,size=4k,uid=0 0 0\n");
        assert_eq!(mounts, "tmpfs /mount-1 tmpfs rw,size=4k,uid=0 0 0\n");
        assert_eq!(redactor.mount("/srv/acme/cache"), "/mount-1");
        assert_eq!(redactor.mount("/dev/shm"), "/dev/shm");
        assert_eq!(redactor.group("/acme/db"), "/group-2/group-3");
        assert_eq!(redactor.self_cgroup("4:memory:/acme/db\n"), "4:memory:/group-2/group-3\n");
        let swaps = "Filename Type Size Used Priority\n/srv/acme/swap file 4 0 -2\n";
        let swaps = redactor.swaps(swaps);
        assert_eq!(swaps, "Filename Type Size Used Priority\n/swap-4 file 4 0 -2\n");
        let zram = "Filename Type Size Used Priority\n/dev/zram0 partition 4 0 100\n";
        assert_eq!(redactor.swaps(zram), zram);
    }

    #[test]
    fn nothing_changes_when_it_is_off() {
        let mut redactor = Redactor::new(false);
        assert_eq!(redactor.mounts("a b c d\n"), "a b c d\n");
        assert_eq!(redactor.group("/acme"), "/acme");
    }
}
