//! The answer of a whole log: reports of one cause are put together, and the most telling one is the answer.

use crate::answer::{
    AnswerRow, GroupKind, KERNEL_LOG_SCHEMA, KernelLogAnswer, LogRequest, ReportGroup, VictimFacts,
};
use crate::cause::{self, JudgedReport, LogCause};
use crate::counted_lines::CountedLines;
use crate::own_shortages::OwnShortage;
use crate::page::{self, Page};
use crate::programs::{DaemonKill, ProgramFacts};
use crate::reader::{self, KernelLogFacts, MemoryHint};
use crate::report::{KernelReport, ReportKind};
use crate::waits::BlockedOn;
use crate::{cgroup_words, failure_words, holders, machine_words, task_words};
use mw_memory::format_count;

/// Groups that are described.
const MAX_GROUPS: usize = 12;
/// Victims of daemons that are named.
const MAX_NAMED_VICTIMS: usize = 5;
/// Victims of a group that are listed.
const MAX_LISTED: usize = 64;

/// Reads a log and explains it.
#[must_use]
pub fn explain(log: &[u8]) -> KernelLogAnswer {
    let facts = reader::read(log);
    let mut groups = groups(&facts);
    groups.sort_by_key(rank);
    groups.truncate(MAX_GROUPS);
    let summary = groups.first().map_or_else(|| nothing(&facts), |group| group.summary.clone());
    KernelLogAnswer {
        schema: KERNEL_LOG_SCHEMA,
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        summary,
        groups,
        notes: notes(&facts),
    }
}

fn rank(group: &ReportGroup) -> (u8, std::cmp::Reverse<u64>) {
    let rank = match (group.kind, group.cause) {
        (_, Some(LogCause::OptionalRequest | LogCause::EmptyZone)) => 7,
        (_, Some(LogCause::Blocked(BlockedOn::ThreadStart))) => 7,
        (GroupKind::OomKill, Some(LogCause::CgroupLimit)) => 1,
        (GroupKind::OomKill, Some(LogCause::Unknown)) if group.victims.is_empty() => 2,
        (GroupKind::OomKill, _) => 0,
        (GroupKind::DaemonKill, _) => 2,
        (GroupKind::AllocationFailure, _) => 3,
        (GroupKind::AllocationStall, _) => 4,
        (GroupKind::HungTask, _) => 5,
        (GroupKind::Lockup, _) => 6,
    };
    (rank, std::cmp::Reverse(group.count))
}

/// What reports of one group share.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupKey {
    kind: ReportKind,
    cause: Option<LogCause>,
    limit_of: Option<String>,
}

fn key(judged: &JudgedReport<'_>) -> GroupKey {
    let report = judged.report;
    let is_waiting = matches!(report.kind, ReportKind::HungTask | ReportKind::Lockup);
    GroupKey {
        kind: report.kind,
        cause: Some(judged.cause).filter(|_| !is_waiting),
        limit_of: report.cgroup.limit_of.clone().filter(|_| judged.cause == LogCause::CgroupLimit),
    }
}

fn groups(facts: &KernelLogFacts) -> Vec<ReportGroup> {
    let mut keyed: Vec<(GroupKey, Vec<JudgedReport<'_>>)> = Vec::new();
    for report in &facts.reports {
        let judged = cause::judge(report);
        let key = key(&judged);
        match keyed.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(judged),
            None => keyed.push((key, vec![judged])),
        }
    }
    let groups = keyed.iter().filter_map(|(_, group)| group_of(group, &facts.hints));
    groups.chain(daemon_group(&facts.programs)).collect()
}

/// The report of a group with most in it.
fn fullest<'a, 'b>(group: &'b [JudgedReport<'a>]) -> Option<&'b JudgedReport<'a>> {
    let score = |report: &KernelReport| {
        usize::from(report.has_head)
            .saturating_add(usize::from(!report.memory.zones.is_empty()))
            .saturating_add(usize::from(report.tasks.has_head()))
            .saturating_add(usize::from(!report.victims.is_empty()))
    };
    // Of several the first.
    group.iter().rev().max_by_key(|judged| score(judged.report))
}

fn group_of(group: &[JudgedReport<'_>], hints: &[MemoryHint]) -> Option<ReportGroup> {
    let kind = group.first()?.report.kind;
    let told = match kind {
        ReportKind::HungTask | ReportKind::Lockup => task_words::most_telling(group)?,
        _ => fullest(group)?,
    };
    let mut page = Page::default();
    let summary = match kind {
        ReportKind::Kill if told.cause == LogCause::CgroupLimit => {
            cgroup_words::rows(told, &mut page);
            cgroup_words::headline(told)
        }
        ReportKind::Kill => {
            machine_words::rows(told, hints, &mut page);
            machine_words::headline(told)
        }
        ReportKind::AllocationFailure | ReportKind::AllocationStall => {
            failure_words::rows(told, hints, &mut page);
            failure_words::headline(told)
        }
        ReportKind::HungTask => {
            task_words::hung_rows(told, group, &mut page);
            task_words::hung_headline(told)
        }
        ReportKind::Lockup => {
            task_words::lockup_rows(told, &mut page);
            task_words::lockup_headline(told)
        }
    };
    if group.len() > 1 {
        page.rows.insert(0, several(kind, group));
    }
    Some(facts_of(told, group, summary, page.rows))
}

/// The number of reports, their time, and who was killed.
fn several(kind: ReportKind, group: &[JudgedReport<'_>]) -> AnswerRow {
    let mut text = format_count(group.len() as u64, "report");
    if let (Some(first), Some(last)) = (stamp(group.first()), stamp(group.last()))
        && first != last
    {
        text.push_str(&format!(" from {first} to {last}"));
    }
    if kind == ReportKind::Kill {
        let mut names: Vec<(&str, u64)> = Vec::new();
        for victim in group.iter().flat_map(|judged| &judged.report.victims) {
            let at = names.iter().position(|(name, _)| *name == victim.name);
            if let Some((_, count)) = at.and_then(|at| names.get_mut(at)) {
                *count = count.saturating_add(1);
            } else if names.len() < MAX_LISTED {
                names.push((&victim.name, 1));
            }
        }
        names.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown = names.iter().take(5).map(|(name, count)| match count {
            1 => (*name).to_owned(),
            count => format!("{name} ({})", format_count(*count, "time")),
        });
        let shown: Vec<String> = shown.collect();
        if !shown.is_empty() {
            text.push_str(&format!("; killed: {}", shown.join(", ")));
        }
    }
    AnswerRow { label: "reports".to_owned(), text }
}

fn stamp(judged: Option<&JudgedReport<'_>>) -> Option<String> {
    let report = judged?.report;
    report.stamp.clone().or_else(|| {
        let seconds = report.uptime_us?.checked_div(1_000_000)?;
        Some(format!("{seconds} s after boot"))
    })
}

fn facts_of(
    told: &JudgedReport<'_>,
    group: &[JudgedReport<'_>],
    summary: String,
    rows: Vec<AnswerRow>,
) -> ReportGroup {
    let report = told.report;
    let kind = match report.kind {
        ReportKind::Kill => GroupKind::OomKill,
        ReportKind::AllocationFailure => GroupKind::AllocationFailure,
        ReportKind::AllocationStall => GroupKind::AllocationStall,
        ReportKind::HungTask => GroupKind::HungTask,
        ReportKind::Lockup => GroupKind::Lockup,
    };
    let victims = group.iter().flat_map(|judged| &judged.report.victims).take(MAX_LISTED);
    ReportGroup {
        kind,
        cause: Some(told.cause),
        summary,
        count: group.len() as u64,
        first: stamp(group.first()),
        last: stamp(group.last()),
        rows,
        request: report.has_head.then(|| LogRequest {
            by: report.requester.name.clone(),
            pid: report.requester.pid,
            order: report.order,
            bytes: report.order.is_some().then(|| page::size_bytes(report)),
            flags: report.gfp.clone(),
        }),
        cgroup: (told.cause == LogCause::CgroupLimit).then(|| cgroup_words::facts(report)),
        zones: told.zones.clone(),
        held: told.account.parts.clone(),
        tasks: holders::tasks(report),
        victims: victims
            .map(|victim| VictimFacts {
                name: victim.name.clone(),
                pid: victim.pid,
                resident_bytes: victim.resident_bytes(),
            })
            .collect(),
    }
}

/// Kills of a daemon in place of the kernel.
fn daemon_group(programs: &ProgramFacts) -> Option<ReportGroup> {
    let kill = programs.kills.first()?;
    let mut page = Page::default();
    let whose = kill.reason_of.as_ref().map_or(String::new(), |path| format!(" of {path}"));
    let is_pressure = kill.reason.contains("pressure");
    let why = if is_pressure {
        format!("memory pressure{whose}")
    } else if kill.reason.contains("eviction") {
        kill.reason.clone()
    } else {
        "little memory was available".to_owned()
    };
    page.row("reason", format!("{}: {}", kill.daemon, kill.reason));
    if let Some(top) = heaviest(kill) {
        page.row(
            "caused by",
            format!(
                "{} had the highest pressure (avg10 {}) and {} of memory",
                top.path, top.pressure_avg10, top.memory
            ),
        );
    }
    page.row("killed", format!("{}, not by {}", daemon_victims(programs), kernels_part(kill)));
    page.row("remedy", daemon_remedy(kill));
    let name = kill.victim.rsplit('/').next().unwrap_or(&kill.victim);
    let count = (programs.kills.len() as u64).saturating_add(programs.more_kills);
    Some(ReportGroup {
        kind: GroupKind::DaemonKill,
        cause: None,
        summary: format!(
            "{}, not {}, killed {name}{}: {why}",
            kill.daemon,
            kernels_part(kill),
            if count > 1 {
                format!(" and {} more", count.saturating_sub(1))
            } else {
                String::new()
            }
        ),
        count,
        first: kill.stamp.clone(),
        last: programs.kills.last().and_then(|last| last.stamp.clone()),
        rows: page.rows,
        request: None,
        cgroup: None,
        zones: Vec::new(),
        held: Vec::new(),
        tasks: Vec::new(),
        victims: Vec::new(),
    })
}

/// Victims of daemons, the first first.
fn daemon_victims(programs: &ProgramFacts) -> String {
    let named = programs.kills.iter().take(MAX_NAMED_VICTIMS).map(|kill| match &kill.details {
        Some(details) => format!("{} ({details})", kill.victim),
        None => kill.victim.clone(),
    });
    named.collect::<Vec<String>>().join(", ")
}

/// Android's lowmemorykiller was a driver of the kernel.
fn kernels_part(kill: &DaemonKill) -> &'static str {
    if kill.daemon == "lowmemorykiller" { "the OOM killer" } else { "the kernel" }
}

/// The candidate with the highest pressure, where it was not the one that was killed.
fn heaviest(kill: &DaemonKill) -> Option<&crate::programs::Candidate> {
    let pressure = |avg10: &str| avg10.parse::<f64>().unwrap_or_default();
    let top = kill
        .candidates
        .iter()
        .max_by(|a, b| pressure(&a.pressure_avg10).total_cmp(&pressure(&b.pressure_avg10)))?;
    (top.path != kill.victim).then_some(top)
}

fn daemon_remedy(kill: &DaemonKill) -> String {
    match heaviest(kill) {
        Some(top) => format!(
            "limit what presses ({}: MemoryHigh=), and exempt what must not die (ManagedOOMPreference=omit)",
            top.path
        ),
        None if kill.daemon == "earlyoom" => "it goes by the kernel's oom_score, which programs raise for themselves \
             (oom_score_adj), not by size alone: see its --prefer, --avoid and limits (-m, -s), and end what has most"
            .to_owned(),
        None => format!("look at {}'s limits and exceptions, and at what it killed", kill.daemon),
    }
}

/// The first line where there is no report.
fn nothing(facts: &KernelLogFacts) -> String {
    if let Some(warning) = facts.programs.warnings.headline() {
        warning
    } else if facts.programs.suspected_leaks > 0 {
        format!(
            "the kernel killed nothing: kmemleak suspects that the kernel lost {}",
            format_count(facts.programs.suspected_leaks, "object")
        )
    } else if waited_for_swap(&facts.programs).is_some() {
        "memory was used up, and earlyoom waited because swap was free".to_owned()
    } else if let Some(shortage) = facts.programs.own_shortages.keys().next() {
        format!("the kernel killed nothing: {}", shortage.headline())
    } else if facts.kernel_lines == 0 {
        "unknown: the log has no line of the kernel".to_owned()
    } else if let Some(aside) = facts.programs.warnings.aside() {
        aside
    } else if let Some(reminder) = facts.programs.warnings.reminder() {
        reminder
    } else {
        format!(
            "no kill, failed allocation or blocked task in {} of the kernel",
            format_count(facts.kernel_lines, "line")
        )
    }
}

/// The line by which earlyoom did nothing, where it killed nobody.
fn waited_for_swap(programs: &ProgramFacts) -> Option<&str> {
    programs.waited_for_swap.as_deref().filter(|_| programs.kills.is_empty())
}

fn notes(facts: &KernelLogFacts) -> Vec<String> {
    let programs = &facts.programs;
    let mut notes: Vec<String> = programs.warnings.notes().collect();
    let is_told = |kind: OwnShortage| kind != OwnShortage::Driver || facts.reports.is_empty();
    let shortages = programs.own_shortages.iter().filter(|(kind, _)| is_told(**kind));
    notes.extend(shortages.map(|(kind, lines)| kind.note(lines)));
    if let Some(line) = waited_for_swap(programs) {
        notes.push(format!(
            "earlyoom acts when available memory and free swap are both below its limits (-m, -s): {line}. Let memory alone \
             decide (-s 100), since a machine with slow swap stops answering before it is full"
        ));
    }
    if let Some(unit) = programs.ended_units.first() {
        let more = match programs.ended_units.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {}", format_count(more as u64, "more unit")),
        };
        notes.push(format!(
            "systemd ended the whole unit {unit}{more} because one of its processes was killed: OOMPolicy=stop, the default. With \
             OOMPolicy=continue its other processes go on"
        ));
    }
    if programs.suspected_leaks > 0 {
        notes.push(
            "kmemleak reports memory of the kernel that nothing refers to any more; /sys/kernel/debug/kmemleak has the call \
             traces, whose topmost functions of a driver name the leak. It may err: scan again, and trust what stays"
                .to_owned(),
        );
    }
    let CountedLines { count, first } = &programs.device_errors;
    if *count > 0 {
        let lines = format_count(*count, "line");
        notes.push(format!("{lines} of errors of devices or servers, the first: {first}"));
    }
    let suppressed =
        facts.reports.iter().map(|report| report.remarks.suppressed).fold(0, u64::saturating_add);
    if suppressed > 0 {
        notes.push(format!("the kernel left out lines of {suppressed} earlier kills (rate limit)"));
    }
    if facts.more_reports > 0 {
        notes.push(format!("{} more reports were not read", facts.more_reports));
    }
    if facts.is_cut {
        notes.push("the log has too many lines: the rest was not read".to_owned());
    }
    notes
}
