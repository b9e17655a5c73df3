//! The results of plays, a line of JSON each, in a file that further runs extend.

use super::boot::Boot;
use super::judge::{PlayJudgement, culprit_verdict};
use super::play::{Injection, Play};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct TrialRecord {
    pub(super) play: Play,
    pub(super) boot: Boot,
    /// The guest's kernel, as in `uname -r`.
    pub(super) release: String,
    pub(super) judged: PlayJudgement,
    /// The slowest request before the recorder's start, and after it; with the first play of a boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start_ms: Option<(f64, f64)>,
    /// Share of the time in which they wanted a CPU of the host that the guests waited for it; not for runs on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) host_waited_percent: Option<f64>,
}

/// The latest result of each play.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<TrialRecord>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut records = std::collections::BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let at = || format!("{}:{}", path.display(), number + 1);
        let mut record: TrialRecord = serde_json::from_str(line).with_context(at)?;
        record.judged.renew(&record.play);
        records.insert((record.boot.place, record.play.seed, record.play.index), record);
    }
    Ok(records.into_values().collect())
}

/// A result in one line.
pub(super) fn line(play: &Play, judged: &PlayJudgement) -> String {
    let decoys: Vec<String> = play.decoys.iter().map(Injection::word).collect();
    let beside =
        if decoys.is_empty() { String::new() } else { format!(" beside {}", decoys.join(" ")) };
    let said = match &judged.seen {
        None => judged.why.clone().unwrap_or_else(|| "no incident".to_owned()),
        Some(seen) => {
            let first = seen.causes.first();
            let cause =
                first.map(|c| format!("{} ({}) {}%", c.rule, c.subject, c.confidence_percent));
            let culprit = culprit_verdict(play, judged)
                .map(|verdict| format!("; culprit {verdict:?}: {}", seen.culprit_words()))
                .unwrap_or_default();
            let why = judged.why.as_ref().map(|why| format!(" [{why}]")).unwrap_or_default();
            let cause = cause.unwrap_or_else(|| seen.verdict.clone());
            format!("{}: {cause}{why}{culprit}", seen.trigger)
        }
    };
    format!(
        "{}:{} {:?}: {} on {}{beside}, {:.0} ms, {} failed: {said}",
        play.seed,
        play.index,
        judged.verdict,
        play.label(),
        play.service.name(),
        judged.stall_ms,
        judged.failures
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::append;
    use crate::trials::boot::TrialHost;
    use crate::trials::judge::PlayVerdict;
    use crate::trials::play;

    fn record(seed: u64, index: u32, stall_ms: f64) -> TrialRecord {
        let judged = PlayJudgement {
            verdict: PlayVerdict::Void,
            why: None,
            stall_ms,
            failures: 0,
            seen: None,
        };
        TrialRecord {
            play: play::draw(TrialHost::Guest, seed, index, &[]).unwrap(),
            boot: Boot::of(TrialHost::Guest, seed, index),
            release: "6.12".to_owned(),
            judged,
            start_ms: None,
            host_waited_percent: None,
        }
    }

    #[test]
    fn two_runs_extend_a_file_at_once() {
        const PLAYS: u32 = 200;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        std::thread::scope(|scope| {
            for seed in [1, 2] {
                let path = &path;
                scope.spawn(move || {
                    for index in 0..PLAYS {
                        append(path, &record(seed, index, 1.0)).unwrap();
                    }
                });
            }
        });
        assert_eq!(read(&path).unwrap().len(), 2 * PLAYS as usize);
    }

    #[test]
    fn the_latest_result_of_a_play_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        for stall_ms in [1.0, 2.0] {
            append(&path, &record(1, 0, stall_ms)).unwrap();
        }
        let read = read(&path).unwrap();
        assert_eq!(read.iter().map(|r| r.judged.stall_ms).collect::<Vec<_>>(), [2.0]);
    }
}
