//! The table of tasks of a report: its columns differ between kernels, and names may have blanks and brackets.

use mw_proc::oom_lines::{OomTableHead, OomTableLine, OomTask};
use std::collections::{BTreeMap, BTreeSet};

/// Names and tasks that are kept, the rest is summed.
const MAX_NAMES: usize = 4_096;
const MAX_TASKS: usize = 16_384;

/// Tasks by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskTable {
    head: Option<OomTableHead>,
    pub(crate) by_name: BTreeMap<String, TaskSum>,
    pub(crate) tasks: u64,
    /// Of rows beyond the limits.
    pub(crate) others: TaskSum,
    /// Numbers of the tasks.
    pub(crate) pids: BTreeSet<u32>,
}

/// Memory of the tasks of one name, in pages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TaskSum {
    pub(crate) count: u64,
    pub(crate) resident_pages: u64,
    pub(crate) swapped_pages: u64,
    /// Tasks that the OOM killer may not choose.
    pub(crate) exempt: u64,
}

impl TaskTable {
    pub(crate) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Reads the head or a row; false if the line is neither.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        match OomTableLine::parse(line) {
            Some(OomTableLine::Head(head)) => {
                self.head = Some(head);
                true
            }
            Some(OomTableLine::Row(row)) => self.row(row),
            None => false,
        }
    }

    fn row(&mut self, row: &str) -> bool {
        let Some(task) = self.head.unwrap_or(OomTableHead::USUAL).task(row) else { return false };
        let OomTask { pid, name, resident_pages, swapped_pages, is_exempt } = task;
        let sum = TaskSum { count: 1, resident_pages, swapped_pages, exempt: is_exempt.into() };
        self.tasks = self.tasks.saturating_add(1);
        let name = name.trim();
        if self.by_name.len() < MAX_NAMES || self.by_name.contains_key(name) {
            self.by_name.entry(name.to_owned()).or_default().add(sum);
        } else {
            self.others.add(sum);
        }
        if self.pids.len() < MAX_TASKS {
            self.pids.insert(pid);
        }
        true
    }
}

impl TaskSum {
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.resident_pages = self.resident_pages.saturating_add(other.resident_pages);
        self.swapped_pages = self.swapped_pages.saturating_add(other.swapped_pages);
        self.exempt = self.exempt.saturating_add(other.exempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, row: &str, name: &str, resident: u64, swapped: u64) {
        let mut table = TaskTable::default();
        assert!((head.is_empty() || table.read(head)) && table.read(row), "{head}");
        let sum = table.by_name[name];
        assert_eq!((sum.resident_pages, sum.swapped_pages), (resident, swapped), "{head}");
    }

    #[test]
    fn tables_of_all_kernels() {
        check(
            "[ pid ]   uid  tgid total_vm      rss cpu oom_adj oom_score_adj name",
            "[  702]     0   702     2710      119   1     -17         -1000 udevd",
            "udevd",
            119,
            0,
        );
        check(
            "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name",
            "[ 1702]     0  1702   912710   101190    1661     1364             0 CPU 1/KVM",
            "CPU 1/KVM",
            101_190,
            1364,
        );
        check(
            "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes \
             swapents oom_score_adj name",
            "[   8102]     0  8102     1710      949      300      649         0    16384        7  \
             0 runc:[2:INIT]",
            "runc:[2:INIT]",
            949,
            7,
        );
        check("", "[   8102]     0  8102     1710      949    16384        7   0 a", "a", 949, 7);
    }

    #[test]
    fn other_lines_are_no_rows() {
        let mut table = TaskTable::default();
        for line in ["[<ffffffff81016719>] dump_trace+0x59/0x340", "[ pid ]", "[12] a b", "x"] {
            assert!(!table.read(line), "{line}");
        }
    }
}
