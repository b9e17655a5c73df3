//! Lines of a cgroup at its limit: counters, statistics, and who was over which limit.

use crate::report::{CgroupCounter, CgroupReport, CgroupStats, MAX_ROWS};
use mw_proc::oom_lines::kib;

/// From here on a limit is none.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Names in memory.stat that are no bytes.
const EVENTS: [&str; 8] =
    ["workingset_", "pg", "thp_", "zswp", "numa_", "nr_", "swpin_zero", "swpout_zero"];

/// Reads a line; false if it is none of a cgroup. `in_stats` is true below `Memory cgroup stats`.
pub(crate) fn read(line: &str, report: &mut CgroupReport, in_stats: &mut bool) -> bool {
    if let Some(rest) = line.strip_prefix("Memory cgroup stats") {
        let rest = rest.strip_prefix(" for ").or_else(|| rest.strip_prefix(':')).unwrap_or(rest);
        inline_stats(rest, report);
        *in_stats = true;
        return true;
    }
    if let Some((task, limit)) = line
        .strip_prefix("Task in ")
        .and_then(|rest| rest.split_once(" killed as a result of limit of "))
    {
        report.task_in = Some(task.trim().to_owned());
        report.limit_of = Some(limit.trim().to_owned());
        report.is_named = true;
        return true;
    }
    if let Some((name, rest)) = line.split_once(": usage ") {
        let Some(counter) = counter(rest) else { return false };
        match name {
            "memory" => report.memory = report.memory.or(Some(counter)),
            "memory+swap" => report.memory_and_swap = report.memory_and_swap.or(Some(counter)),
            "swap" => report.swap = report.swap.or(Some(counter)),
            "kmem" => report.kernel = report.kernel.or(Some(counter)),
            _ => return false,
        }
        report.is_named = true;
        return true;
    }
    stat(line, report) || (*in_stats && pairs(line, report))
}

/// `8192kB, limit 8192kB, failcnt 2417`.
fn counter(text: &str) -> Option<CgroupCounter> {
    let (usage, rest) = text.split_once(", limit ")?;
    let limit = kib(rest.split(',').next()?.trim())?;
    Some(CgroupCounter {
        usage_bytes: kib(usage.trim())?,
        limit_bytes: Some(limit).filter(|limit| *limit < UNLIMITED_BYTES),
    })
}

/// `/path: cache:6700KB rss:132KB …` on one line; the path may have colons.
fn inline_stats(rest: &str, report: &mut CgroupReport) {
    let begins = ["cache:", "rss:", "anon:", "inactive_anon:"];
    let at = begins.iter().filter_map(|begin| rest.find(&format!(" {begin}"))).min();
    let (path, values) = at.and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, ""));
    let path = path.trim().trim_end_matches(':').to_owned();
    push_stats(report, CgroupStats { path, ..CgroupStats::default() });
    pairs(values, report);
}

fn push_stats(report: &mut CgroupReport, stats: CgroupStats) {
    if report.stats.len() < MAX_ROWS {
        report.stats.push(stats);
    }
}

/// `cache:6700KB rss:132KB`.
fn pairs(text: &str, report: &mut CgroupReport) -> bool {
    let Some(stats) = report.stats.last_mut() else { return false };
    let mut has_any = false;
    for (key, value) in text.split_ascii_whitespace().filter_map(|word| word.split_once(':')) {
        if let Some(bytes) = kib(value) {
            has_any = true;
            if stats.bytes.len() < MAX_ROWS {
                stats.bytes.insert(key.to_owned(), bytes);
            }
        }
    }
    has_any
}

/// `anon 530743296`, a line of memory.stat (5.3 and later).
fn stat(line: &str, report: &mut CgroupReport) -> bool {
    let Some((name, number)) = line.split_once(' ') else { return false };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let Ok(value) = number.trim().parse() else { return false };
    if name.len() < 3 || !name.bytes().all(is_name) {
        return false;
    }
    if EVENTS.iter().any(|event| name.starts_with(event)) {
        return true;
    }
    if report.stats.is_empty() {
        push_stats(report, CgroupStats::default());
    }
    if let Some(stats) = report.stats.last_mut().filter(|stats| stats.bytes.len() < MAX_ROWS) {
        stats.bytes.insert(name.to_owned(), value);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_statistics_of_both_versions() {
        let mut report = CgroupReport::default();
        let mut in_stats = false;
        for line in [
            "Task in /a/b killed as a result of limit of /a",
            "memory: usage 204800kB, limit 204800kB, failcnt 1607",
            "memory+swap: usage 204800kB, limit 9007199254740988kB, failcnt 0",
            "Memory cgroup stats for /a/cri:x: cache:12KB rss:40KB dirty:8KB",
            "active_file:4KB",
        ] {
            assert!(read(line, &mut report, &mut in_stats), "{line}");
        }
        assert_eq!(
            (report.task_in.as_deref(), report.limit_of.as_deref()),
            (Some("/a/b"), Some("/a"))
        );
        assert!(report.memory.unwrap().is_full() && !report.memory_and_swap.unwrap().is_full());
        assert_eq!(report.memory_and_swap.unwrap().limit_bytes, None);
        let [stats] = report.stats.as_slice() else { panic!("{report:?}") };
        assert_eq!((stats.path.as_str(), stats.any(&["cache"])), ("/a/cri:x", 12 << 10));
        assert_eq!(stats.any(&["file", "active_file"]), 4 << 10);
        let mut report = CgroupReport::default();
        for line in ["Memory cgroup stats for /x:", "anon 4096", "workingset_refault_file 9"] {
            assert!(read(line, &mut report, &mut in_stats), "{line}");
        }
        assert_eq!((report.stats[0].path.as_str(), report.stats[0].any(&["anon"])), ("/x", 4096));
        assert!(!read("Mem-Info: 12", &mut report, &mut in_stats));
    }
}
