//! Reports of a log: lines of one report are put together, of several CPUs at once and where the beginning is missing.

use crate::cgroup_lines;
use crate::heads;
use crate::lines::{self, LogLine, beginning};
use crate::memory_lines::MemoryCursor;
use crate::programs::ProgramFacts;
use crate::report::{KernelReport, LogVictim, MAX_TRACE, MAX_VICTIMS, ReportKind, zone_kind};
use mw_proc::oom_lines::{OomChoiceLine, OomConstraint, OomKillLine};
use std::collections::{BTreeMap, BTreeSet};

/// Reports that are kept; of the others the number.
const MAX_REPORTS: usize = 2_000;
/// Reports whose lines are within this time may be of one moment.
const SAME_MOMENT_US: u64 = 2_000_000;
/// Messages that are kept because they tell of drivers.
const MAX_HINTS: usize = 32;

/// Bytes at the start of a line that tell what it is.
const HEAD_BYTES: usize = 240;

/// A log after reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelLogFacts {
    pub(crate) reports: Vec<KernelReport>,
    pub(crate) more_reports: u64,
    pub(crate) programs: ProgramFacts,
    /// Software whose memory the kernel does not count, as named by any line.
    pub(crate) hints: Vec<MemoryHint>,
    pub(crate) kernel_lines: u64,
    pub(crate) is_cut: bool,
}

/// Software or drivers that hold memory which no counter of a report has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryHint {
    Zfs,
    VmwareBalloon,
    HyperVBalloon,
    VirtioBalloon,
    Zram,
    Nvidia,
    /// A drive of NVMe that has the machine's memory for its tables (drivers/nvme/host/pci.c, `nvme_setup_host_mem()`).
    HostMemoryBuffer,
}

/// Reads a log.
pub(crate) fn read(log: &[u8]) -> KernelLogFacts {
    let mut reader = Reader::default();
    let is_whole = lines::each(log, |line| reader.line(line));
    reader.end();
    reader.facts.is_cut = !is_whole;
    share_memory(&mut reader.facts.reports);
    share_choices(&mut reader.facts.reports);
    reader.facts
}

/// Warnings begin so that have a function's name, as the lines of a call trace do, or what names a report's kernel.
const WARNINGS: [&str; 3] = ["WARNING: ", "BUG ", "kmem_cache_destroy "];

/// Processes whose choices are counted.
const MAX_CHOICES: usize = 256;

/// The choices of a process, and the time of the last.
#[derive(Debug, Default)]
struct Choices {
    count: u32,
    at: (Option<String>, Option<u64>),
}

#[derive(Debug, Default)]
struct Reader {
    facts: KernelLogFacts,
    /// The report that lines belong to.
    current: Option<KernelReport>,
    cursor: MemoryCursor,
    in_stats: bool,
    /// What `Kill process` named, until `Killed process` follows.
    chosen: Option<LogVictim>,
    /// An allocation of pages failed.
    has_failure: bool,
    /// Processes that were chosen since the last kill.
    choices: BTreeMap<u32, Choices>,
    suppressed: u64,
    is_sysrq: bool,
    /// Pages that a graphics driver could not release: it says so before the report.
    gpu_pinned_pages: Option<u64>,
    kernel: Option<String>,
}

impl Reader {
    fn line(&mut self, line: &LogLine) {
        if let Some(program) = &line.program {
            self.facts.programs.read(program, line.stamp.as_deref(), &line.message);
            return;
        }
        let message = line.message.as_str();
        if message.is_empty() {
            return;
        }
        self.facts.kernel_lines = self.facts.kernel_lines.saturating_add(1);
        let warnings = &mut self.facts.programs.warnings;
        warnings.read_program(message);
        if WARNINGS.iter().any(|begins| message.starts_with(begins)) && warnings.read(message) {
            return;
        }
        // Most lines are of a report's body, and the longest.
        let is_trace = message.contains("+0x");
        if (is_trace || is_body(message)) && self.of_report(message, line) {
            return;
        }
        let beginning = beginning(message, HEAD_BYTES);
        self.hint(beginning);
        if let Some(report) = heads::head(beginning) {
            self.begin(report, line);
        } else if !(self.of_kill(message, line) || self.of_report(message, line)) {
            self.facts.programs.kernel_line(line.stamp.as_deref(), beginning);
        }
    }

    fn begin(&mut self, mut report: KernelReport, line: &LogLine) {
        if let Some(owner) = report.requester.lock_owner.take() {
            if let Some(blocked) = self.current.as_mut() {
                blocked.requester.lock_owner = Some(owner);
            }
            return;
        }
        if let (Some(current), Some(_)) = (self.current.as_mut(), &report.slab_cache)
            && current.kind == ReportKind::AllocationFailure
            && current.slab_cache.is_none()
        {
            // The cache whose request failed just before.
            current.slab_cache = Some(String::new());
            return;
        }
        if let Some(current) = self.current.as_mut()
            && current.continues_vmalloc(&report)
        {
            current.gfp = report.gfp;
            current.requester = report.requester;
            return;
        }
        self.end();
        report.remarks.follows_failure = self.has_failure;
        self.has_failure |=
            report.kind == ReportKind::AllocationFailure && report.requester.name.is_some();
        report.stamp.clone_from(&line.stamp);
        report.uptime_us = line.uptime_us;
        report.kernel.clone_from(&self.kernel);
        report.remarks.suppressed = std::mem::take(&mut self.suppressed);
        report.remarks.is_sysrq |= std::mem::take(&mut self.is_sysrq);
        report.memory.gpu_pinned_pages = self.gpu_pinned_pages.take();
        self.current = Some(report);
        self.cursor = MemoryCursor::default();
        self.in_stats = false;
        self.chosen = None;
    }

    /// Ends the current report.
    fn end(&mut self) {
        let chosen = self.chosen.take();
        let Some(mut report) = self.current.take() else { return };
        if let (Some(chosen), true) = (chosen, report.victims.is_empty()) {
            report.victims.push(chosen);
        }
        let is_report = report.has_head
            || !report.victims.is_empty()
            || report.constraint.is_some()
            || report.remarks.is_panic;
        if !is_report {
            return;
        }
        if self.facts.reports.len() < MAX_REPORTS {
            self.facts.reports.push(report);
        } else {
            self.facts.more_reports = self.facts.more_reports.saturating_add(1);
        }
    }

    /// The report that a line without a first line belongs to: the current one, or a new one whose beginning is missing.
    fn kill_report(&mut self, line: &LogLine) -> &mut KernelReport {
        let is_kill = self.current.as_ref().is_some_and(|report| report.kind == ReportKind::Kill);
        if !is_kill {
            self.end();
        }
        let is_sysrq = &mut self.is_sysrq;
        self.current.get_or_insert_with(|| {
            let mut report = KernelReport {
                stamp: line.stamp.clone(),
                uptime_us: line.uptime_us,
                ..KernelReport::new(ReportKind::Kill)
            };
            report.remarks.is_sysrq = std::mem::take(is_sysrq);
            report
        })
    }

    /// A further report begins without its first line.
    fn next_kill(&mut self) {
        let has_ended = self
            .current
            .as_ref()
            .is_some_and(|report| report.kind == ReportKind::Kill && !report.victims.is_empty());
        if has_ended {
            self.end();
            self.cursor = MemoryCursor::default();
            self.in_stats = false;
        }
    }

    /// Lines of choices and kills.
    fn of_kill(&mut self, message: &str, line: &LogLine) -> bool {
        if let Some(choice) = OomChoiceLine::parse(message) {
            self.next_kill();
            self.kill_report(line).choose(choice);
        } else if let Some(kill) = OomKillLine::parse(message) {
            self.kill(kill, line);
        } else if let Some((pid, left)) = heads::reaped(message) {
            let reports = self.facts.reports.iter_mut().rev().take(8);
            let mut victims = self.current.iter_mut().chain(reports).flat_map(|r| &mut r.victims);
            if let Some(victim) = victims.find(|victim| victim.pid == pid) {
                victim.left_bytes = Some(left);
            }
        } else if message.ends_with("due to memory.oom.group set") {
            self.kill_report(line).remarks.of_group = true;
        } else if let Some(count) = message.strip_suffix(" callbacks suppressed") {
            if message.starts_with("oom_kill") {
                let count = count.rsplit(' ').next().and_then(|count| count.parse().ok());
                self.suppressed = count.unwrap_or_default();
            }
        } else if message.contains("no killable process")
            || message.contains("deadlocked on memory")
        {
            let report = self.kill_report(line);
            report.remarks.has_no_victim = true;
            report.remarks.is_panic |= message.contains("panic");
        } else if message.contains("panic_on_oom") {
            self.kill_report(line).remarks.is_panic = true;
        } else if let Some(rest) = message.strip_prefix("Purging GPU memory, ") {
            self.facts.programs.warnings.read(message);
            let pinned = rest.split(", ").find(|part| part.contains("still pinned"));
            self.gpu_pinned_pages = pinned.and_then(|part| part.split(' ').next()?.parse().ok());
        } else if message.contains("anual OOM execution") {
            self.is_sysrq = true;
        } else {
            return false;
        }
        true
    }

    fn kill(&mut self, kill: OomKillLine<'_>, line: &LogLine) {
        if !kill.is_done {
            self.next_kill();
            let report = self.kill_report(line);
            report.cgroup.is_named |= kill.within_cgroup;
            let count = self.choose_again(kill.pid, line);
            self.kill_report(line).remarks.chosen = count;
            self.chosen = Some(kill.into());
            return;
        }
        self.choices.clear();
        let belongs = self.current.as_ref().is_some_and(|report| {
            report.kind == ReportKind::Kill
                && (report.victims.is_empty()
                    || report.remarks.of_group
                    || report.is_at(line.uptime_us) && report.tasks.pids.contains(&kill.pid))
        });
        if !belongs {
            self.end();
        }
        self.chosen = None;
        let report = self.kill_report(line);
        report.cgroup.is_named |= kill.within_cgroup;
        report.remarks.has_ended = true;
        if report.victims.len() < MAX_VICTIMS {
            report.victims.push(kill.into());
        } else {
            report.more_victims = report.more_victims.saturating_add(1);
        }
    }

    /// How many times a process was chosen since the last kill. A line of the same moment is a copy in another file.
    fn choose_again(&mut self, pid: u32, line: &LogLine) -> u32 {
        if self.choices.len() >= MAX_CHOICES && !self.choices.contains_key(&pid) {
            return 0;
        }
        let at = (line.stamp.clone(), line.uptime_us);
        let known = self.choices.entry(pid).or_default();
        if known.count == 0 || known.at != at || at == (None, None) {
            known.count = known.count.saturating_add(1);
            known.at = at;
        }
        known.count
    }

    /// Lines within a report.
    fn of_report(&mut self, message: &str, line: &LogLine) -> bool {
        if message.starts_with("Linux version ") {
            self.kernel = heads::kernel_version(message).map(str::to_owned);
            return true;
        }
        let is_section = message.starts_with("Memory cgroup stats")
            || message.starts_with("memory: usage ")
            || message.starts_with("Tasks state")
            || message.starts_with("[ pid")
            || message.starts_with("[  pid");
        if is_section {
            self.next_kill();
        }
        let report = self.current.get_or_insert_with(|| KernelReport {
            stamp: line.stamp.clone(),
            uptime_us: line.uptime_us,
            ..KernelReport::new(ReportKind::Kill)
        });
        if is_body(message) {
            return report.tasks.read(message)
                || self.cursor.read(message, &mut report.memory)
                || report.line_of_trace(message);
        }
        report.identity(message)
            || report.line_of_trace(message)
            || report.remark(message)
            || cgroup_lines::read(message, &mut report.cgroup, &mut self.in_stats)
            || self.cursor.read(message, &mut report.memory)
    }

    fn hint(&mut self, message: &str) {
        const HINTS: [(&str, MemoryHint); 13] = [
            ("zio_buf", MemoryHint::Zfs),
            ("zfs_znode", MemoryHint::Zfs),
            ("txg_sync", MemoryHint::Zfs),
            ("[zfs]", MemoryHint::Zfs),
            ("ZFS:", MemoryHint::Zfs),
            ("spl_kmem", MemoryHint::Zfs),
            ("vmw_balloon", MemoryHint::VmwareBalloon),
            ("VMware", MemoryHint::VmwareBalloon),
            ("hv_balloon", MemoryHint::HyperVBalloon),
            ("virtio_balloon", MemoryHint::VirtioBalloon),
            ("zram", MemoryHint::Zram),
            ("nvidia", MemoryHint::Nvidia),
            ("host memory buffer", MemoryHint::HostMemoryBuffer),
        ];
        if self.facts.hints.len() >= MAX_HINTS {
            return;
        }
        for (_, hint) in HINTS.iter().filter(|(word, _)| message.contains(word)) {
            if !self.facts.hints.contains(hint) {
                self.facts.hints.push(*hint);
            }
        }
    }
}

/// True for the rows of zones, free lists and tasks.
fn is_body(message: &str) -> bool {
    message.starts_with("Node ")
        || message.starts_with('[')
        || message.starts_with("active_")
        || message.starts_with("lowmem_reserve")
        || message
            .split_once(' ')
            .is_some_and(|(name, _)| zone_kind(name.trim_end_matches(':')).is_some())
}

impl KernelReport {
    /// True if something else may have been logged at the same time.
    fn is_at(&self, uptime_us: Option<u64>) -> bool {
        match (self.uptime_us, uptime_us) {
            (Some(a), Some(b)) => a.abs_diff(b) <= SAME_MOMENT_US,
            _ => true,
        }
    }

    /// True for a report that the next one interrupted.
    fn lacks_memory(&self) -> bool {
        matches!(self.kind, ReportKind::Kill | ReportKind::AllocationFailure)
            && self.memory.zones.is_empty()
            && self.has_head
            && !self.cgroup.is_named
            && self.victims.is_empty()
    }

    fn choose(&mut self, choice: OomChoiceLine<'_>) {
        self.constraint = choice.constraint;
        let or = |new: Option<&str>, old: Option<String>| new.map(str::to_owned).or(old);
        self.mems_allowed = or(choice.mems_allowed, self.mems_allowed.take());
        self.cgroup.task_in = or(choice.group, self.cgroup.task_in.take());
        if choice.constraint == Some(OomConstraint::Cgroup) {
            self.cgroup.is_named = true;
            self.cgroup.limit_of = or(choice.limit_of, self.cgroup.limit_of.take());
        }
    }

    /// The CPU, the task, the kernel and the machine.
    fn identity(&mut self, message: &str) -> bool {
        if let Some(hardware) = message.strip_prefix("Hardware name: ") {
            self.hardware = Some(hardware.chars().take(120).collect());
            return true;
        }
        let is_task = message.starts_with("CPU: ") || message.starts_with("Pid: ");
        if is_task || message.contains("ainted") {
            let kernel = heads::kernel_version(message).map(str::to_owned);
            self.kernel = kernel.or(self.kernel.take());
            if is_task && self.requester.pid.is_none() {
                self.requester.pid = heads::pid(message);
            }
            self.name_flags();
            return true;
        }
        if self.mems_allowed.is_none() && message.contains("mems_allowed=") {
            self.mems_allowed = heads::mems_allowed(message);
            return true;
        }
        false
    }

    /// Numbers without names are read by version.
    fn name_flags(&mut self) {
        if let (Some(version), Some(gfp)) = (self.version(), self.gfp.as_mut())
            && version < (4, 6)
        {
            *gfp = gfp.of_version(version);
        }
    }

    fn line_of_trace(&mut self, message: &str) -> bool {
        if !message.contains("+0x") {
            return false;
        }
        if let Some(name) = heads::doubtful_function(message)
            && self.doubtful_trace.len() < MAX_TRACE
        {
            self.doubtful_trace.push(name.to_owned());
        }
        if let Some((name, module)) = heads::function(message)
            && self.trace.len() < MAX_TRACE
        {
            self.trace.push(name.to_owned());
            if let Some(module) = module
                && !self.modules.iter().any(|known| known == module)
            {
                self.modules.push(module.to_owned());
            }
        }
        true
    }

    fn remark(&mut self, message: &str) -> bool {
        if message.starts_with("COMPACTION is disabled") {
            self.remarks.has_no_compaction = true;
        } else if self.remarks.cma_pages.is_some()
            && self.requester.name.is_none()
            && let Some(driver) = heads::driver_without_memory(message)
        {
            self.requester.name = Some(driver.to_owned());
        } else if let Some(rest) = message.strip_prefix("cache: ") {
            if let Some(cache) = self.slab_cache.as_mut().filter(|cache| cache.is_empty()) {
                rest.split(", object size").next().unwrap_or_default().clone_into(cache);
            }
            self.cgroup.limit_of = self
                .cache_of_cgroup()
                .map(|(_, cgroup)| cgroup.to_owned())
                .or(self.cgroup.limit_of.take());
        } else {
            return false;
        }
        true
    }
}

/// Tells all reports of a process how many times it was chosen, where it did not end.
fn share_choices(reports: &mut [KernelReport]) {
    let only_victim = |report: &KernelReport| match report.victims.as_slice() {
        [victim] => Some((victim.pid, victim.name.clone())),
        _ => None,
    };
    let mut most: BTreeMap<(u32, String), u32> = BTreeMap::new();
    let mut ended: BTreeSet<(u32, String)> = BTreeSet::new();
    for report in reports.iter() {
        let Some(victim) = only_victim(report) else { continue };
        if report.remarks.has_ended {
            ended.insert(victim.clone());
        }
        let known = most.entry(victim).or_default();
        *known = report.remarks.chosen.max(*known);
    }
    for report in reports {
        let victim = only_victim(report).filter(|victim| !ended.contains(victim));
        report.remarks.chosen = victim.and_then(|victim| most.get(&victim)).copied().unwrap_or(0);
    }
}

/// Two CPUs may print reports at once: the one whose Mem-Info was printed as part of the other has the same.
fn share_memory(reports: &mut [KernelReport]) {
    let mut next: Option<usize> = None;
    for at in (0..reports.len()).rev() {
        let Some(report) = reports.get(at) else { continue };
        if !report.lacks_memory() {
            next = Some(at).filter(|_| !report.memory.zones.is_empty());
            continue;
        }
        let other = next.and_then(|next| reports.get(next));
        let memory = other.filter(|other| report.is_at(other.uptime_us)).map(|o| o.memory.clone());
        if let (Some(memory), Some(report)) = (memory, reports.get_mut(at)) {
            report.memory = memory;
        }
    }
}
