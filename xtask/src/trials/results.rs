//! The results of plays, a line of JSON each, in a file that further runs extend.

use super::boot::Boot;
use super::judge::Judged;
use super::play::{Injection, Play};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) play: Play,
    pub(super) boot: Boot,
    /// The guest's kernel, as in `uname -r`.
    pub(super) release: String,
    pub(super) judged: Judged,
    /// The slowest request before the recorder's start, and after it; with the first play of a boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) start_ms: Option<(f64, f64)>,
}

pub(super) fn append(path: &Path, record: &Record) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = fs::File::options().append(true).create(true).open(path)?;
    // One write, so that two runs may extend the file at once.
    file.write_all(format!("{}\n", serde_json::to_string(record)?).as_bytes())?;
    Ok(())
}

/// The latest result of each play.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Record>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut records = std::collections::BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let at = || format!("{}:{}", path.display(), number + 1);
        let mut record: Record = serde_json::from_str(line).with_context(at)?;
        record.judged.renew(&record.play);
        records.insert((record.boot.place, record.play.seed, record.play.index), record);
    }
    Ok(records.into_values().collect())
}

/// A result in one line.
pub(super) fn line(play: &Play, judged: &Judged) -> String {
    let decoys: Vec<String> = play.decoys.iter().map(Injection::word).collect();
    let beside =
        if decoys.is_empty() { String::new() } else { format!(" beside {}", decoys.join(" ")) };
    let said = match &judged.seen {
        None => judged.why.clone().unwrap_or_else(|| "no incident".to_owned()),
        Some(seen) => {
            let first = seen.causes.first();
            let cause =
                first.map(|c| format!("{} ({}) {}%", c.rule, c.subject, c.confidence_percent));
            let why = judged.why.as_ref().map(|why| format!(" [{why}]")).unwrap_or_default();
            format!("{}: {}{why}", seen.trigger, cause.unwrap_or_else(|| seen.verdict.clone()))
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
