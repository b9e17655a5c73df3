//! Runs every rule and sums up.

use crate::largest_holders::{largest_other, largest_program, page_cache};
use crate::rules::memory_exhausted::LEAST_SHARE;
use crate::{RULES, Rule, registry};
use mw_model::{
    Absence, Answer, Finding, Missing, OriginKind, Preflight, Report, SCHEMA_VERSION, Severity,
    SkippedRule, Subject, Window, caller, derived, format_bytes,
};
use std::collections::BTreeSet;

/// Looks for every hazard of the catalogue.
pub fn check(window: &Window, preflight: Option<Preflight>) -> Report {
    check_rules(window, preflight, |_| true)
}

/// Looks for the hazards of some rules: the report is as if there were no others.
pub fn check_rules(
    window: &Window,
    preflight: Option<Preflight>,
    is_wanted: impl Fn(&Rule) -> bool,
) -> Report {
    let mut findings = Vec::new();
    let mut quiet = Vec::new();
    let mut skipped = Vec::new();
    let wanted: Vec<&Rule> =
        RULES.iter().filter(|rule| rule.has_hazard() && is_wanted(rule)).collect();
    for rule in &wanted {
        match rule.hazard(window) {
            Ok(found) if found.is_empty() => quiet.push(rule.id.to_owned()),
            Ok(found) => findings.extend(found),
            Err(missing) => skipped.push(SkippedRule { rule: rule.id.to_owned(), missing }),
        }
    }
    let origin = &window.now.origin;
    let machine = derived::ready_bytes(&window.now).ok();
    let available = machine.map(|bytes| caller::available(&window.now, bytes));
    let (ready_bytes, limited_by, limits_unseen) = match available {
        Some(available) => (Some(available.bytes), available.limited_by, available.unseen),
        None => (None, None, Vec::new()),
    };
    let mut report = Report {
        schema: SCHEMA_VERSION,
        memwright: env!("CARGO_PKG_VERSION").to_owned(),
        root: match origin.kind {
            OriginKind::Live => "live".to_owned(),
            OriginKind::Tree => origin.root.clone(),
        },
        input: origin.input.clone(),
        kernel: origin.kernel.map(|version| version.to_string()),
        taken_unix_ms: origin.taken_unix_ms,
        verdict: String::new(),
        replaced: origin.replaced.clone(),
        unchecked: unchecked(window, &skipped, wanted.len()),
        worst: None,
        memory_bytes: derived::memory_bytes(&window.now.sample).ok(),
        ready_bytes,
        limited_by,
        limits_unseen,
        largest_program: largest_program(&window.now),
        largest_other: largest_other(&window.now),
        page_cache_bytes: page_cache(&window.now),
        preflight,
        exhaustion: Vec::new(),
        findings,
        quiet,
        skipped,
    };
    sum_up(&mut report);
    report
}

/// Sorts the findings and draws the verdict from their severities.
pub fn sum_up(report: &mut Report) {
    // Stable: within a severity the order of the catalogue stays, and what shows only that memory is short comes last.
    let place = |finding: &Finding| {
        (std::cmp::Reverse(finding.severity), registry::is_of_symptom(&finding.rule))
    };
    report.findings.sort_by_key(place);
    report.worst = report.findings.first().map(|finding| finding.severity);
    report.verdict = verdict(report);
}

/// Parts of the running machine that are hidden and that a check cannot do without: files that another mount
/// hides from a rule, and the counters that every kernel has. A rule that a kernel has no use for is
/// none of it, nor is what this user may not read, unless it is most of the rules.
fn unchecked(window: &Window, skipped: &[SkippedRule], rules: usize) -> Vec<Missing> {
    let sample = &window.now.sample;
    let for_everybody = [sample.meminfo.missing(), sample.vmstat.missing()];
    if window.now.origin.kind != OriginKind::Live {
        // A tree may lack what nobody copied, but not what every answer rests on: one of another
        // kernel (gVisor's, that of WSL 1) has nothing to judge by.
        let needed = for_everybody.into_iter().flatten();
        // Of a paste nobody knows what was left out.
        let is_part = window.now.origin.input.is_some() && skipped.len() > rules / 2;
        let first = skipped.first().filter(|_| is_part).map(|rule| &rule.missing);
        return needed.chain(first).cloned().collect();
    }
    let for_some = [sample.zoneinfo.missing(), sample.buddyinfo.missing()];
    let for_some = for_some.map(|m| m.filter(|missing| missing.absence != Absence::Skipped));
    let counters = for_everybody.into_iter().chain(for_some).flatten();
    let failed = skipped.iter().map(|rule| &rule.missing);
    let failed: Vec<_> = failed.filter(|missing| missing.absence != Absence::Absent).collect();
    let is_most = failed.len() > rules / 2;
    let hidden = failed.into_iter().filter(|m| is_most || m.absence == Absence::Masked);
    let replaced = &window.now.origin.replaced;
    let replaced = replaced.iter().filter(|m| m.absence == Absence::Masked);
    let mut unchecked: Vec<Missing> = Vec::new();
    for missing in counters.chain(hidden).chain(replaced) {
        if !unchecked.contains(missing) {
            unchecked.push(missing.clone());
        }
    }
    unchecked
}

/// Number of rules that were to find a hazard.
fn rules(report: &Report) -> usize {
    let found: BTreeSet<&str> = report.findings.iter().map(|found| found.rule.as_str()).collect();
    [found.len(), report.quiet.len(), report.skipped.len()].iter().sum()
}

/// The reason why the machine could not be checked, each reason once.
fn not_checked(unchecked: &[Missing]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    for missing in unchecked {
        let reason = match missing.absence {
            Absence::Masked => missing.why.clone(),
            _ => missing.to_string(),
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    format!("could not be checked: {}", reasons.join("; "))
}

/// The answer in one line.
fn verdict(report: &Report) -> String {
    let room = room(report);
    if report.findings.is_empty() && report.quiet.is_empty() {
        return match report.unchecked.as_slice() {
            [] => "could not be checked: no rule had the data that it needs".to_owned(),
            unchecked => not_checked(unchecked),
        };
    }
    let count = |severity| report.findings.iter().filter(|f| f.severity == severity).count();
    let counts: Vec<String> = [
        (count(Severity::Critical), "critical finding"),
        (count(Severity::Warning), "warning"),
        (count(Severity::Note), "note"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
    .collect();
    let counts = counts.join(", ");
    let undetermined = match report.limits_unseen.len() {
        0 => "",
        1 => "; a limit on this process could not be determined",
        _ => "; limits on this process could not be determined",
    };
    let blind = match report.skipped.len() {
        0 => String::new(),
        1 => "; 1 rule could not be checked".to_owned(),
        count => {
            format!("; {count} of {} rules could not be checked", rules(report))
        }
    };
    let is_used = |missing: &&Missing| missing.absence != Absence::Masked;
    let replaced = report.replaced.iter().filter(is_used).map(|missing| format!("; {missing}"));
    let blind = format!("{}{undetermined}{blind}", replaced.collect::<String>());
    // The answer to a request stands above: below a no, "ready" would be another one.
    let answer = report.preflight.as_ref().map(|preflight| preflight.answer);
    let ready = if answer.is_none_or(|answer| answer == Answer::Yes) { "ready: " } else { "" };
    match report.worst {
        worst if !report.unchecked.is_empty() && worst != Some(Severity::Critical) => {
            let reason = match &report.input {
                Some(input) => format!("not enough to tell: {input} shows {room}"),
                None => not_checked(&report.unchecked),
            };
            let counts = if counts.is_empty() { counts } else { format!("; {counts}") };
            format!("{reason}{counts}{blind}")
        }
        None | Some(Severity::Note) if is_used_up(report) => {
            let counts = if counts.is_empty() { counts } else { format!("{counts}; ") };
            format!("large requests stall or fail: {counts}{room}{blind}")
        }
        None => format!("{ready}{room}, no hazard found{blind}"),
        Some(Severity::Note) => format!("{ready}{room} ({counts}){blind}"),
        Some(Severity::Warning) => {
            let stalls = warned_subject(report).map_or_else(
                || "may stall under load".to_owned(),
                |subject| format!("{subject} may stall or fail"),
            );
            format!("{stalls}: {counts}; {room}{blind}")
        }
        Some(Severity::Critical) => {
            format!("large requests stall or fail: {counts}; {room}{blind}")
        }
    }
}

/// The process, cgroup or mount that alone is in trouble; none where the machine is, or several are.
fn warned_subject(report: &Report) -> Option<&Subject> {
    let mut warned = report.findings.iter().filter(|f| f.severity >= Severity::Warning);
    let first = &warned.next()?.subject;
    let is_alone = !first.is_machine() && warned.all(|found| found.subject == *first);
    is_alone.then_some(first)
}

/// True if [`LEAST_SHARE`] of what the caller may have at most is not available without writeback and swap.
fn is_used_up(report: &Report) -> bool {
    let limit = report.limited_by.as_ref().map(|limit| limit.limit_bytes);
    let whole = limit.or(report.memory_bytes);
    report.ready_bytes.zip(whole).is_some_and(|(ready, whole)| ready < whole / LEAST_SHARE)
}

/// Memory that the caller can get, and its source.
fn room(report: &Report) -> String {
    match (report.ready_bytes, &report.limited_by, report.memory_bytes) {
        (Some(ready), Some(limit), _) => {
            format!("{} of {limit} available", format_bytes(ready))
        }
        (Some(ready), None, Some(memory)) => {
            format!(
                "{} of {} available without writeback or swap",
                format_bytes(ready),
                format_bytes(memory)
            )
        }
        _ => "available memory is unknown".to_owned(),
    }
}
