//! Lines of the kernel's OOM killer (mm/oom_kill.c), of kernels from 2.6.32 on.
//!
//! Names of processes are foreign text, up to 15 characters of anything: what follows one is read from its end.

/// The most numbers of a row of the table of tasks.
const MAX_COLUMNS: usize = 16;

/// The domain that had no memory left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OomConstraint {
    #[default]
    Machine,
    /// The nodes that a cpuset allows.
    Cpuset,
    /// The nodes that a policy (mbind, set_mempolicy) allows.
    MemoryPolicy,
    Cgroup,
}

/// `oom-kill:constraint=…`: the victim, and whose limit it was (4.19 and later). What a line lacks is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomChoiceLine<'a> {
    pub pid: Option<u32>,
    pub constraint: Option<OomConstraint>,
    /// Nodes of the cpuset.
    pub mems_allowed: Option<&'a str>,
    /// The group whose limit was met; none where it was not a group's.
    pub limit_of: Option<&'a str>,
    /// The group of the process.
    pub group: Option<&'a str>,
}

impl<'a> OomChoiceLine<'a> {
    /// Reads the line; none if it is another.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let all = line.strip_prefix("oom-kill:")?;
        // The name of the task is before its number, and may look like any of the fields.
        let (fields, pid) = match all.rsplit_once(",pid=") {
            Some((fields, rest)) => (fields, rest.split(',').next().and_then(|n| n.parse().ok())),
            None => (all, None),
        };
        let between = |from: &str, to: &[&str]| {
            let (_, after) = fields.split_once(from)?;
            let end = to.iter().filter_map(|to| after.find(to)).min().unwrap_or(after.len());
            after.get(..end)
        };
        let constraint = match between("constraint=", &[","])? {
            "CONSTRAINT_NONE" => Some(OomConstraint::Machine),
            "CONSTRAINT_CPUSET" => Some(OomConstraint::Cpuset),
            "CONSTRAINT_MEMORY_POLICY" => Some(OomConstraint::MemoryPolicy),
            "CONSTRAINT_MEMCG" => Some(OomConstraint::Cgroup),
            _ => None,
        };
        let mems_end = [",global_oom", ",oom_memcg=", ",task_memcg="];
        let limit_of = between(",oom_memcg=", &[",task_memcg="]);
        Some(Self {
            pid,
            constraint,
            mems_allowed: between(",mems_allowed=", &mems_end),
            limit_of: limit_of.filter(|_| constraint == Some(OomConstraint::Cgroup)),
            group: between(",task_memcg=", &[",task="]),
        })
    }
}

/// `Killed process 812 (postgres) total-vm:…`, by the OOM killer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OomKillLine<'a> {
    pub pid: u32,
    pub name: &'a str,
    pub anon_bytes: Option<u64>,
    pub file_bytes: Option<u64>,
    pub shmem_bytes: Option<u64>,
    /// User of the process (5.5 and later), in the first user namespace.
    pub user: Option<u32>,
    pub within_cgroup: bool,
    /// False for `Kill process …`, which old kernels print before, with the number of a thread.
    pub is_done: bool,
}

impl<'a> OomKillLine<'a> {
    /// Reads the line; none if it is another.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let marks = ["Killed process ", "Kill process ", "kill process "];
        let (mark, at) = marks.iter().find_map(|mark| Some((*mark, line.find(mark)?)))?;
        let (before, rest) = line.split_at_checked(at)?;
        let is_ours = before.is_empty()
            || before.starts_with("Out of memory")
            || before.starts_with("Memory cgroup out of memory")
            || before.starts_with("Out of Memory");
        if !is_ours {
            return None;
        }
        let rest = rest.get(mark.len()..)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (pid, rest) = rest.split_at_checked(digits)?;
        let (_, rest) = rest.split_once('(')?;
        let ends = [") total-vm:", ") vsz:", "), UID", ") score ", ")"];
        let (name, sizes) = ends.iter().find_map(|end| rest.rsplit_once(end))?;
        let bytes = |key: &str| kib(sizes.split_once(key)?.1.split([',', ' ']).next()?);
        let user = sizes.split_once("UID:").and_then(|(_, rest)| rest.split(' ').next());
        Some(Self {
            pid: pid.parse().ok()?,
            name,
            anon_bytes: bytes("anon-rss:"),
            file_bytes: bytes("file-rss:"),
            shmem_bytes: bytes("shmem-rss:"),
            user: user.and_then(|user| user.parse().ok()),
            within_cgroup: before.starts_with("Memory cgroup"),
            is_done: mark.starts_with("Killed"),
        })
    }

    /// Memory that the process had, where the line says it.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<u64> {
        let parts = [self.anon_bytes, self.file_bytes, self.shmem_bytes];
        parts.into_iter().flatten().reduce(u64::saturating_add)
    }
}

/// `12kB`, `12KB` in bytes.
#[must_use]
pub fn kib(text: &str) -> Option<u64> {
    let number = text.strip_suffix("kB").or_else(|| text.strip_suffix("KB"))?;
    number.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
}

/// OOM_SCORE_ADJ_MIN of include/uapi/linux/oom.h.
const SCORE_ADJUSTMENT_MIN: i64 = -1000;

/// Positions of the columns of the table of tasks: they differ between kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomTableHead {
    /// Numbers before the name.
    numbers: usize,
    resident: usize,
    swapped: Option<usize>,
    score_adjustment: Option<usize>,
}

/// A row of the table of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomTask<'a> {
    pub pid: u32,
    pub name: &'a str,
    pub resident_pages: u64,
    pub swapped_pages: u64,
    /// The OOM killer may not choose it (OOM_SCORE_ADJ_MIN, include/uapi/linux/oom.h).
    pub is_exempt: bool,
}

/// A line of the table of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomTableLine<'a> {
    Head(OomTableHead),
    /// A row; [`OomTableHead::task`] reads it.
    Row(&'a str),
}

impl<'a> OomTableLine<'a> {
    /// Reads the line; none if it is of no table.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let (number, columns) = line.strip_prefix('[')?.split_once(']')?;
        let number = number.trim();
        if number == "pid" {
            return OomTableHead::of(columns).map(Self::Head);
        }
        let is_row = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_row.then_some(Self::Row(line))
    }
}

impl OomTableHead {
    /// The columns of 4.19 to 6.7, for a log that begins below the head.
    pub const USUAL: Self =
        Self { numbers: 7, resident: 3, swapped: Some(5), score_adjustment: Some(6) };

    fn of(columns: &str) -> Option<Self> {
        let columns: Vec<&str> = columns.split_ascii_whitespace().collect();
        let numbers = match columns.split_last() {
            Some((&"name", numbers)) => numbers,
            // A mail folds the line before it.
            _ => columns.as_slice(),
        };
        let place = |name: &str| numbers.iter().position(|column| *column == name);
        let head = Self {
            numbers: numbers.len(),
            resident: place("rss")?,
            swapped: place("swapents"),
            score_adjustment: place("oom_score_adj"),
        };
        (head.numbers <= MAX_COLUMNS).then_some(head)
    }

    /// Reads a row.
    #[must_use]
    pub fn task<'a>(&self, row: &'a str) -> Option<OomTask<'a>> {
        let (pid, mut rest) = row.strip_prefix('[')?.split_once(']')?;
        let mut numbers = [0_i64; MAX_COLUMNS];
        for place in numbers.iter_mut().take(self.numbers) {
            let (number, after) = rest.trim_start().split_once(' ')?;
            // A score may be negative.
            *place = number.parse().ok()?;
            rest = after;
        }
        let column = |at: usize| numbers.get(at).and_then(|number| u64::try_from(*number).ok());
        let adjustment = self.score_adjustment.and_then(|at| numbers.get(at));
        Some(OomTask {
            pid: pid.trim().parse().ok()?,
            name: rest,
            resident_pages: column(self.resident)?,
            swapped_pages: self.swapped.and_then(column).unwrap_or(0),
            is_exempt: adjustment == Some(&SCORE_ADJUSTMENT_MIN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_of_all_kernels() {
        let check = |line: &str, pid, name: &str, anon: Option<u64>, is_done| {
            let kill = OomKillLine::parse(line).unwrap();
            let found = (kill.pid, kill.name, kill.anon_bytes, kill.is_done);
            assert_eq!(found, (pid, name, anon, is_done), "{line}");
        };
        check("Out of memory: Kill process 7 (a) score 1 or sacrifice child", 7, "a", None, false);
        check(
            "Killed process 7, UID 0, (a) total-vm:9kB, anon-rss:2kB, file-rss:1kB",
            7,
            "a",
            Some(2048),
            true,
        );
        check(
            "Killed process 7 (a b), UID 0, total-vm:9kB, anon-rss:2kB",
            7,
            "a b",
            Some(2048),
            true,
        );
        check("Out of memory: Killed process 7 (a).", 7, "a", None, true);
        let line = "Memory cgroup out of memory: Killed process 7 (a) total-vm:1kB) total-vm:9kB, anon-rss:2kB, \
            file-rss:1kB, shmem-rss:0kB, UID:0 pgtables:6kB oom_score_adj:-5";
        check(line, 7, "a) total-vm:1kB", Some(2048), true);
        let kill = OomKillLine::parse(line).unwrap();
        assert_eq!((kill.user, kill.resident_bytes()), (Some(0), Some(3072)));
        assert_eq!(OomKillLine::parse("my program: Killed process 7 (a)"), None);
    }

    #[test]
    fn a_choice_that_was_cut_has_what_is_left() {
        let line = "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,mems_allowed=0-1,global_oom,task_mem";
        let choice = OomChoiceLine::parse(line).unwrap();
        let found = (choice.pid, choice.constraint, choice.mems_allowed, choice.group);
        assert_eq!(found, (None, Some(OomConstraint::Cpuset), Some("0-1"), None));
        assert_eq!(OomChoiceLine::parse("oom-kill:"), None);
    }

    #[test]
    fn a_name_that_looks_like_a_field_is_a_name() {
        let line = "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=a,mems_allowed=0-1,4,\
            global_oom,task_memcg=/s,task=x,oom_memcg=/y,pid=7,uid=0";
        let choice = OomChoiceLine::parse(line).unwrap();
        let found = (choice.pid, choice.mems_allowed, choice.group, choice.limit_of);
        assert_eq!(found, (Some(7), Some("0-1,4"), Some("/s"), None));
        let line = line.replace("CPUSET", "MEMCG").replace("global_oom", "oom_memcg=/l");
        assert_eq!(OomChoiceLine::parse(&line).unwrap().limit_of, Some("/l"));
    }

    #[test]
    fn lines_of_other_things_are_of_no_table() {
        for line in
            ["[<ffffffff81016719>] dump_trace+0x59/0x340", "[ pid ]", "[] a", "[drm] b", "x"]
        {
            assert_eq!(OomTableLine::parse(line), None, "{line}");
        }
        assert_eq!(OomTableHead::USUAL.task("[12] a b"), None);
    }
}
