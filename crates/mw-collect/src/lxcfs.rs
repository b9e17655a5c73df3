//! lxcfs in a captured tree: files of /proc that a FUSE server of the container answered for.

use crate::masked::{ANSWERED_BY_FUSE, COUNTERS};
use crate::source::Source;
use mw_model::Missing;
use mw_proc::mounts::{self, Mount};

/// Those for which lxcfs answered where a tree was captured, as its mounts say.
pub(crate) fn replaced_in_tree(source: &Source) -> Vec<Missing> {
    let mounts = source.parse("/proc/mounts", mounts::parse);
    let mounts = mounts.or_else(|_| source.parse("/proc/self/mounts", mounts::parse));
    let mounts = mounts.unwrap_or_default();
    let is_lxcfs = |path: &&&str| {
        let of = |mount: &&Mount| mount.target == ***path;
        mounts.iter().rev().find(of).is_some_and(|mount| mount.fstype.starts_with("fuse"))
    };
    let replaced = |path: &&str| Missing::skipped(*path, ANSWERED_BY_FUSE);
    COUNTERS.iter().filter(is_lxcfs).map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_container_says_which_files_are_not_the_kernels() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let mounts = "proc /proc proc rw 0 0\nlxcfs /proc/meminfo fuse.lxcfs rw 0 0\n\
                      lxcfs /proc/uptime fuse.lxcfs rw 0 0\n";
        std::fs::write(root.path().join("proc/mounts"), mounts).unwrap();
        let replaced = replaced_in_tree(&Source::tree(root.path()).unwrap());
        let paths: Vec<&str> = replaced.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!(paths, ["/proc/meminfo"]);
    }
}
