//! Every rule is asked about every made-up stall: the right cause comes first, nothing else is
//! plausible that a stall does not allow, and no stall of another kind is put down to memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod blamed;
mod floods;
mod forced;
mod groups;
mod java;
mod made;
mod mutated;
mod outside;
mod paths;
mod peers;
mod polled;
mod recorder;
mod stacks;
mod stalls;

use made::Made;
use mw_model::{Incident, Missing, Reading, TriggerKind, WaitKind, Window};
use mw_rules::{PLAUSIBLE_PERCENT, RULES, explain};
use std::collections::BTreeSet;

/// The rule of stalls in which nothing was seen.
const CALM: &str = "network-or-service";

/// The incident with its explanation.
fn asked(made: &Made) -> Incident {
    let mut incident = made.incident.clone();
    explain(&mut incident, &made.window, made.calm.as_ref());
    incident
}

/// The causes in their order with how sure they are.
fn ranked(explanation: &Incident) -> String {
    let causes = explanation.causes.iter();
    let each = causes.map(|c| format!("{} {}%", c.finding.rule, c.confidence_percent));
    each.collect::<Vec<_>>().join(", ")
}

fn is_of_memory(rule: &str) -> bool {
    mw_rules::find(rule).unwrap().is_of_memory()
}

fn plausible(explanation: &Incident) -> BTreeSet<&str> {
    let sure = explanation.causes.iter().filter(|c| c.score() >= PLAUSIBLE_PERCENT);
    sure.map(|cause| cause.finding.rule.as_str()).collect()
}

/// Promise (The recorder): In synthetic stalls the right cause comes first, and no cause is plausible that may not
/// be.
#[test]
fn every_stall_has_its_cause_first_and_no_other_than_it_may() {
    let mut wrong = Vec::new();
    for stall in stalls::of_memory() {
        let explanation = asked(&stall.made);
        let first = explanation.causes.first().map(|cause| cause.finding.rule.as_str());
        let wanted: BTreeSet<&str> = stall.also.iter().copied().chain([stall.first]).collect();
        if first != Some(stall.first) || plausible(&explanation) != wanted {
            wrong.push(format!("{}: {}\n  {wanted:?}", stall.name, ranked(&explanation)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_with_a_cause_has_its_stall() {
    let all = stalls::of_memory().into_iter().chain(paths::all()).chain(forced::all());
    let all = all.chain(stacks::all()).chain(outside::all());
    let decoys = stalls::decoys(stalls::HEALTHY).into_iter().map(|decoy| decoy.rule);
    let firsts: BTreeSet<&str> = all.map(|stall| stall.first).chain(decoys).collect();
    for rule in RULES.iter().filter(|rule| rule.has_cause()) {
        assert!(firsts.contains(rule.id), "no stall is made up for {}", rule.id);
    }
}

/// A hazard that was there before and has not changed explains nothing.
///
/// Promise (The recorder): A hazard that existed before the stall explains nothing.
#[test]
fn no_decoy_is_put_down_to_memory_whatever_hazard_there_is() {
    let mut wrong = Vec::new();
    // What the field report has is no more than buddyinfo.
    for fixture in mw_test::fixtures().iter().filter(|name| !name.starts_with("field-report/")) {
        for stalls::Decoy { name, made, rule, says } in stalls::decoys(fixture) {
            let explanation = asked(&made);
            let rules: Vec<&str> =
                explanation.causes.iter().map(|cause| cause.finding.rule.as_str()).collect();
            if rules.first() != Some(&rule)
                || rules.iter().any(|rule| is_of_memory(rule))
                || !explanation.verdict.contains(says)
            {
                wrong.push(format!("{name} on {fixture}: {}", explanation.verdict));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_verdict_is_the_answer() {
    let explained = |name: &str| {
        let all = stalls::of_memory();
        asked(&all.iter().find(|stall| stall.name == name).unwrap().made)
    };
    let check = |explanation: &Incident, says: &str, score: u8| {
        let first = &explanation.causes[0];
        assert_eq!((explanation.verdict.as_str(), first.score()), (says, score));
    };
    check(
        &explained("mysql-stall"),
        "mysql-3306 stalled for 8.2 s: mysqld compacted memory for huge pages",
        97,
    );
    let verdict = explained("ram-starved-cluster").verdict;
    assert!(verdict.starts_with("heartbeat late by 5.0 s: "));
    let [hog, ..] = stalls::decoys(stalls::HEALTHY);
    check(
        &asked(&hog.made),
        "postgres-5432 stalled for 8.2 s: stress used most of the CPU time",
        75,
    );
}

/// `TARGET stalled for TIME: ACTOR VERB OBJECT`: a pager shows so much, and the rule has a line of its own.
#[test]
fn a_headline_has_one_colon_and_a_short_cause() {
    const COLUMNS: usize = 48;
    let memory = stalls::of_memory().into_iter().map(|stall| (stall.name, stall.made));
    let paths = paths::all().into_iter().chain(stacks::all()).map(|stall| (stall.name, stall.made));
    let decoys = stalls::decoys(stalls::HEALTHY).into_iter().map(|decoy| (decoy.name, decoy.made));
    let all = memory.chain(paths).chain(decoys);
    let verdicts = all.map(|(name, made)| (name, asked(&made).verdict));
    let wrong: Vec<_> = verdicts
        .filter(|(_, verdict)| {
            let parts: Vec<&str> = verdict.split(": ").collect();
            parts.len() != 2 || parts[1].chars().count() > COLUMNS
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn who_suffered_and_who_caused_it_is_named() {
    let roles = |name: &str| {
        let all = stalls::of_memory();
        let explanation = asked(&all.iter().find(|stall| stall.name == name).unwrap().made);
        let said = |roles: Vec<mw_model::Role>| -> Vec<String> {
            roles.iter().map(|role| format!("{} {}: {}", role.pid, role.task, role.why)).collect()
        };
        (said(explanation.suffering), said(explanation.causing))
    };
    let (suffering, causing) = roles("mysql-stall");
    assert_eq!(suffering, ["901 mysqld: waited 7.9 s in compaction, 880 times"]);
    assert_eq!(causing, ["901 mysqld: used 92% of a CPU in compaction"]);
    let (suffering, _) = roles("mysql-stall, 40 threads");
    assert_eq!(
        suffering,
        ["1000 mysqld: waited 500 ms in compaction, 60 times; 39 more tasks of that name"]
    );
    let (suffering, causing) = roles("ram-starved-cluster");
    assert_eq!(suffering[0], "77 heartbeat: waited 4.3 s in direct reclaim, 900 times");
    assert_eq!(
        causing,
        ["4711 dd: brought 234.4 MiB of /u01/oradata/testfile into the page cache"]
    );
    let (_, causing) = roles("swap-thrash");
    assert_eq!(causing[0], "660 job: grew by 900 MiB");
    assert_eq!(causing[1], "45 kswapd0: kernel thread, used 100% of a CPU in reclaim");
}

#[test]
fn an_empty_incident_has_a_sensible_verdict() {
    let mut empty = Incident::default();
    let skipped = explain(&mut empty, &Window::default(), None);
    assert_eq!(empty.causes, []);
    assert!(empty.verdict.starts_with("a probe stalled for "), "{}", empty.verdict);
    assert!(empty.verdict.contains("cause unknown; "), "{}", empty.verdict);
    assert!(skipped.iter().any(|skipped| skipped.rule == "reclaim-storm"));
    assert!(skipped.iter().any(|skipped| skipped.rule == CALM));
}

#[test]
fn what_a_rule_lacks_is_said() {
    let mut made = Made::on(stalls::HEALTHY);
    made.window.now.thp = Reading::Missing(Missing::absent("transparent_hugepage", "not built in"));
    made.window.now.sysctl.values.clear();
    let skipped = explain(&mut made.incident, &made.window, made.calm.as_ref());
    for rule in ["thp-compaction", "zone-reclaim"] {
        let skipped = skipped.iter().find(|skipped| skipped.rule == rule);
        assert!(!skipped.unwrap().missing.why.is_empty(), "{rule}");
    }
}

#[test]
fn a_canary_that_only_memory_held_up_is_no_decoy() {
    let made = Made::on(stalls::HEALTHY)
        .trigger(TriggerKind::Canary, "canary", 900.0)
        .canary(880_000, 500);
    let explanation = asked(&made);
    assert_eq!(explanation.causes, [], "that it was memory is no cause");
    assert_eq!(explanation.verdict, "page faults stalled for 900 ms: cause unknown");
}

/// What waits in the background is nobody's stall.
#[test]
fn kernel_threads_do_not_suffer() {
    let made = Made::on("fragmented-node/firing")
        .waits((46, "kcompactd0"), WaitKind::Compaction, 8000, 9)
        .wanting(9, 0);
    let explanation = asked(&made);
    assert_eq!(plausible(&explanation), BTreeSet::from([CALM]), "{}", explanation.verdict);
    assert_eq!(explanation.suffering[0].task, "postgres-5432");
}

/// The kernel works and nobody waits for it: neither a task nor the canary.
#[test]
fn work_that_nobody_waits_for_explains_nothing() {
    use mw_proc::vmstat::Counter;
    let backup = Made::on("thp-compaction/firing")
        .pressed(12, 10, 5)
        .counts(Counter::PgscanKswapd, 400_000.0)
        .counts(Counter::CompactStall, 90.0)
        .shifts("compact_zone", 0.0, 20.0)
        .shifts("shrink_node", 0.0, 24.0);
    assert_eq!(plausible(&asked(&backup)), BTreeSet::from([CALM]));
    assert!(plausible(&asked(&backup.untraced())).contains("thp-compaction"));
}

/// Seen on a busy machine: the CPUs are short, and what does not answer is stopped all the same.
#[test]
fn a_stopped_process_is_seen_on_a_busy_machine() {
    let made = Made::on(stalls::HEALTHY)
        .trigger(TriggerKind::Probe, "http-18099", 3830.0)
        .canary(1900, 35_660)
        .pressed(0, 5, 89)
        .blocked((19_184, "python3"), 'T', 7, &["do_signal_stop", "get_signal"])
        .waits((20_505, "ld"), WaitKind::Swap, 0, 41);
    let explanation = asked(&made);
    let stopped = "python3 (19184) was stopped";
    assert!(explanation.verdict.contains(stopped), "{}", explanation.verdict);
    assert!(explanation.suffering.iter().all(|role| role.task != "ld"), "it waited no time");
}

/// Nothing in the evidence says who stopped the probed service.
#[test]
fn threads_of_a_stopped_victim_are_not_culprits() {
    let stopped = |task: &'static str| {
        let made = Made::on(stalls::HEALTHY)
            .trigger(TriggerKind::Probe, "postgres-5432", 3830.0)
            .blocked((19_184, task), 'T', 9, &["do_signal_stop", "get_signal"]);
        asked(&made)
    };
    let victim = stopped("postgres");
    assert!(victim.verdict.contains("postgres (19184) was stopped"), "{}", victim.verdict);
    assert_eq!(victim.suffering[0].task, "postgres");
    assert_eq!(victim.causing, []);
    let other = stopped("connection-proxy");
    assert!(other.verdict.contains("connection-proxy (19184) was stopped"), "{}", other.verdict);
    assert_eq!(other.causing[0].task, "connection-proxy");
}

/// Both halves are late at times on a busy machine; the one that touches memory is not later.
#[test]
fn a_canary_is_judged_by_all_of_the_stall() {
    let mut hog = stalls::decoys(stalls::HEALTHY).into_iter().next().unwrap().made;
    let column = |hog: &mut Made, name: &str, values: [u64; 2]| {
        let column = hog.incident.table.columns.iter_mut().find(|c| c.name == name).unwrap();
        for (at, value) in column.values.iter_mut().enumerate() {
            *value = values[at % 2];
        }
    };
    column(&mut hog, "canary.touch_us", [60_000, 900]);
    column(&mut hog, "canary.idle_us", [30_000, 40_000]);
    assert!(asked(&hog).verdict.contains("used most of the CPU time"), "{}", asked(&hog).verdict);
    column(&mut hog, "canary.idle_us", [900, 900]);
    assert!(
        plausible(&asked(&hog)).iter().all(|rule| is_of_memory(rule)),
        "{}",
        asked(&hog).verdict
    );
}

/// Busy as always is no cause: the counters did not change.
#[test]
fn what_was_so_before_explains_nothing() {
    use mw_proc::vmstat::Counter;
    let steady =
        Made::on("reclaim-storm/quiet").counts_in_both(Counter::PgscanKswapd, 40_000.0, 42_000.0);
    assert_eq!(plausible(&asked(&steady)), BTreeSet::from([CALM]));
}

#[test]
fn counters_of_a_captured_machine_in_trouble_are_understood() {
    for fixture in ["reclaim-storm/firing", "swap-thrash/firing"] {
        let made = Made::on(fixture).canary(5_000_000, 300).captured_rates(fixture).untraced();
        let explanation = asked(&made);
        let rule = fixture.split('/').next().unwrap();
        assert!(plausible(&explanation).contains(rule), "{fixture}: {}", ranked(&explanation));
    }
}
