//! Who holds anonymous memory, shared memory, the page cache, and what no counter has.

use super::entry::{group, leaf, split};
use crate::{arc, shared_memory};
use mw_memory::{Account, MemoryPart};
use mw_model::{
    AccountEntry, GroupMemories, GroupMemory, HeldFile, Holders, Process, Snapshot, contradiction,
    derived, format_bytes,
};
use mw_proc::cgroup::MemoryStat;

/// By cgroup; where there are none, by process.
pub(super) fn anonymous(snapshot: &Snapshot, holders: &Holders, account: &Account) -> AccountEntry {
    let mut entry = leaf(account, MemoryPart::Anonymous, "of processes");
    let thp = snapshot.sample.meminfo.value().and_then(|m| m.anon_huge_pages_bytes).unwrap_or(0);
    if thp > 0 {
        entry.note = Some(format!("{} of it in transparent huge pages", format_bytes(thp)));
    }
    let is_possible = |group: &GroupMemory| {
        let parts = [group.stat.anon_bytes, group.stat.file_bytes].into_iter().flatten();
        contradiction::is_possible_use(snapshot, derived::total(parts))
    };
    let groups = holders.groups.value().filter(|groups| groups.list.iter().all(is_possible));
    let groups = groups.map(|groups| by_group(groups, |stat| stat.anon_bytes));
    match groups.filter(|groups| !groups.is_empty()) {
        Some(groups) => split(&mut entry, groups, "charged to no cgroup that is visible here"),
        None => by_process(snapshot, &mut entry),
    }
    entry
}

/// Charge of each cgroup without those below it.
fn by_group(
    groups: &GroupMemories,
    bytes: impl Fn(&MemoryStat) -> Option<u64>,
) -> Vec<(String, u64)> {
    let of = |path: &str| {
        let below = groups.list.iter().filter(|group| parent(&group.path) == Some(path));
        let below: Vec<u64> = below.filter_map(|group| bytes(&group.stat)).collect();
        (below.len(), derived::total(below))
    };
    let own = groups.list.iter().filter_map(|group| {
        let (children, below) = of(&group.path);
        let own = bytes(&group.stat)?.saturating_sub(below);
        // Of itself, of groups that were removed, and of those that were not read.
        let rest = if children > 0 { " (rest)" } else { "" };
        Some((format!("{}{rest}", group.path), own))
    });
    own.collect()
}

/// `/a` of `/a/b`, `/` of `/a`.
fn parent(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    match (above, name) {
        ("", "") => None,
        ("", _) => Some("/"),
        _ => Some(above),
    }
}

fn by_process(snapshot: &Snapshot, entry: &mut AccountEntry) {
    let list = snapshot.processes.value().map_or(&[][..], |processes| processes.list.as_slice());
    let of = |process: &Process| {
        let status = &process.status;
        Some((format!("{} ({})", status.name, status.pid?), status.rss_anon_bytes?))
    };
    let named: Vec<(String, u64)> = list.iter().filter_map(of).collect();
    let all = derived::total(named.iter().map(|(_, bytes)| *bytes));
    if all > entry.bytes {
        let twice = format_bytes(all.saturating_sub(entry.bytes));
        let note = format!("processes share {twice}, which counts with the largest of them");
        entry.note =
            Some(entry.note.take().map_or(note.clone(), |first| format!("{first}; {note}")));
    }
    split(entry, named, "of other processes");
}

/// tmpfs by mount, System V segments, and memfds by process.
pub(super) fn shared(snapshot: &Snapshot, holders: &Holders, account: &Account) -> AccountEntry {
    let mut entry = leaf(account, MemoryPart::Shared, "tmpfs, System V, memfd");
    let mut named = shared_memory::mounts(snapshot);
    named.extend(shared_memory::segments(snapshot));
    let files = holders.files.value().map_or(&[][..], |held| held.files.as_slice());
    let memfds = files.iter().filter(|file| file.is_shared_memory && !file.is_on_tmpfs);
    let of = |file: &HeldFile| {
        (format!("{} of {} ({})", file.path, file.process, file.pid), file.cached_bytes)
    };
    named.extend(memfds.map(of));
    split(&mut entry, named, "shared mappings, files that are not open, other mount namespaces");
    entry
}

/// The page cache that can be dropped, by file.
pub(super) fn clean_cache(holders: &Holders, account: &Account) -> AccountEntry {
    let mut entry = leaf(account, MemoryPart::CleanCache, "clean");
    let Some(held) = holders.files.value() else { return entry };
    let files = held.files.iter().filter(|file| !file.is_shared_memory);
    let of = |file: &HeldFile| (file.path.clone(), file.clean_bytes());
    let rest = if held.complete {
        "files not open in any process"
    } else {
        "files not open in any process, or not read"
    };
    split(&mut entry, files.map(of).collect(), rest);
    entry
}

/// Memory that no counter has, except that of pipes.
pub(super) fn unaccounted(
    snapshot: &Snapshot,
    holders: &Holders,
    account: &Account,
) -> AccountEntry {
    let mut entry = leaf(account, MemoryPart::Unaccounted, "in no counter of the kernel");
    let page_bytes = snapshot.origin.page_bytes;
    let sockets = holders.sockets.value().map_or(0, |sockets| sockets.pages());
    if sockets > 0 {
        let bytes = format_bytes(sockets.saturating_mul(page_bytes));
        entry.note = Some(format!("sockets buffer {bytes}, in part in slab memory"));
    }
    let pipes = holders.files.value().map_or(0, |held| held.pipe_bytes);
    let pipes = ("pipes, at least".to_owned(), pipes);
    let arc = ("ZFS ARC".to_owned(), arc::parts(snapshot).unaccounted);
    split(&mut entry, vec![pipes, arc], "drivers, buffers of sockets, allocations of the kernel");
    group("unaccounted for", vec![entry])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_charged_without_those_below_it() {
        let group = |path: &str, anon| GroupMemory {
            path: path.to_owned(),
            stat: MemoryStat { anon_bytes: Some(anon), ..MemoryStat::default() },
        };
        let list = vec![
            group("/", 100),
            group("/system.slice", 70),
            group("/system.slice/db.service", 60),
            group("/user.slice", 40),
        ];
        let groups = GroupMemories { list, complete: true };
        let named = |name: &str, bytes| (name.to_owned(), bytes);
        let expected = [
            // The children are of a later moment.
            named("/ (rest)", 0),
            named("/system.slice (rest)", 10),
            named("/system.slice/db.service", 60),
            named("/user.slice", 40),
        ];
        assert_eq!(by_group(&groups, |stat| stat.anon_bytes), expected);
    }

    #[test]
    fn the_group_above() {
        assert_eq!(parent("/a/b"), Some("/a"));
        assert_eq!(parent("/a"), Some("/"));
        assert_eq!((parent("/"), parent("a")), (None, None));
    }
}
