//! What all memory cgroups are charged for: `memory.stat` of each.

use super::hierarchy;
use crate::source::Source;
use mw_model::{GroupMemories, GroupMemory, Missing};
use mw_proc::cgroup::MemoryStat;
use mw_sys::thread_time;
use std::time::Duration;

/// Depth of the search: systemd puts an application of a user seventh.
const MAX_DEPTH: usize = 10;

/// The most groups that are read.
const MAX_GROUPS: usize = 1024;

/// CPU time that reading them may take: 20 to 50 µs each.
const BUDGET: Duration = Duration::from_millis(40);

/// Reads the groups below the mount, each before those below it.
pub(crate) fn memories(source: &Source) -> Result<GroupMemories, Missing> {
    memories_within(source, BUDGET)
}

/// As [`memories`], within so much CPU time.
pub(crate) fn memories_within(source: &Source, budget: Duration) -> Result<GroupMemories, Missing> {
    let mount = hierarchy::find(source)?.mount;
    let mut walk = MemoryWalk {
        source,
        mount,
        deadline: thread_time() + source.budget(budget),
        found: GroupMemories { list: Vec::new(), complete: true },
    };
    walk.descend("", 0);
    Ok(walk.found)
}

struct MemoryWalk<'a> {
    source: &'a Source,
    mount: String,
    /// The [`thread_time`] at which it ends.
    deadline: Duration,
    found: GroupMemories,
}

impl MemoryWalk<'_> {
    fn descend(&mut self, path: &str, depth: usize) {
        if self.found.list.len() >= MAX_GROUPS || thread_time() > self.deadline {
            self.found.complete = false;
            return;
        }
        let dir = format!("{}{path}", self.mount);
        // A captured tree lacks the file where nobody copied it, and may have it below.
        if let Ok(stat) = self.source.parse(&format!("{dir}/memory.stat"), MemoryStat::parse) {
            let path = if path.is_empty() { "/" } else { path }.to_owned();
            self.found.list.push(GroupMemory { path, stat });
        }
        let below = if depth < MAX_DEPTH { self.source.directories(&dir) } else { Ok(Vec::new()) };
        for name in below.unwrap_or_default() {
            self.descend(&format!("{path}/{name}"), depth + 1);
        }
    }
}
