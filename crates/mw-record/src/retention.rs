//! Retention: how densely and for how long rows are stored.

use crate::RecordError;
use crate::chunk::{ChunkHead, Merge};
use crate::format::{AS_TAKEN, LOOSE};
use crate::incident::IncidentSize;
use crate::store::Store;
use mw_model::fair::place_to_free;
use std::time::Duration;

/// Density and retention of stored rows. Ages are recorded time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Age up to which every row is stored; then one in ten seconds.
    pub every_row_for: Duration,
    /// Age up to which one row in ten seconds is stored; then one a minute.
    pub ten_seconds_for: Duration,
    /// Rows are deleted at this age.
    pub max_age: Duration,
    /// The oldest rows are deleted beyond this size of the file. Incidents have a half of it, of which whoever has
    /// most loses his oldest.
    pub max_bytes: u64,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for Retention {
    fn default() -> Self {
        Self {
            every_row_for: DAY,
            ten_seconds_for: 7 * DAY,
            max_age: 60 * DAY,
            max_bytes: 200_000_000,
        }
    }
}

const TEN_SECONDS_MS: u64 = 10_000;
const MINUTE_MS: u64 = 60_000;

/// Incidents take no more than one part in this many of the file.
const INCIDENT_SHARE: u64 = 2;

/// Captures take no more than one part in this many of the file.
const CAPTURE_SHARE: u64 = 8;

/// Sizes of holders take no more than one part in this many of the file.
const SIZES_SHARE: u64 = 8;

/// Kills take no more than one part in this many of the file.
const KILL_SHARE: u64 = 64;

/// The newest captures are all stored; of older ones, one a day.
const NEWEST_CAPTURES: u64 = 24;

impl Retention {
    /// The step at which rows of this age are stored.
    fn step_ms(&self, age: Duration) -> u64 {
        match age {
            age if age >= self.ten_seconds_for => MINUTE_MS,
            age if age >= self.every_row_for => TEN_SECONDS_MS,
            _ => AS_TAKEN,
        }
    }
}

/// Thins and deletes what is due.
pub(crate) fn enforce(store: &mut Store, retention: &Retention) -> Result<(), RecordError> {
    let chunks = store.chunks()?;
    let (kept, expired) = expired(&chunks, retention.max_age);
    store.delete_chunks(&expired)?;
    for merge in merges(kept, retention, store.rows_per_chunk()) {
        store.merge(&merge)?;
    }
    store.keep_captures(NEWEST_CAPTURES, retention.max_bytes / CAPTURE_SHARE)?;
    store.keep_sizes(retention.max_age, retention.max_bytes / SIZES_SHARE)?;
    let incidents = store.incident_sizes()?;
    store.delete_incidents(&expendable(incidents, retention.max_bytes / INCIDENT_SHARE))?;
    let kills = store.kill_sizes()?;
    store.delete_kills(&expendable(kills, retention.max_bytes / KILL_SHARE))?;
    store.drop_unused_layouts()?;
    shrink(store, retention.max_bytes)?;
    store.give_back_pages()
}

/// Incidents beyond a number of bytes, of the oldest first: each the oldest one of whoever has most, so that nobody's
/// incidents push out another's.
fn expendable(mut incidents: Vec<IncidentSize>, max_bytes: u64) -> Vec<u64> {
    let sizes = incidents.iter().map(|incident| incident.bytes);
    let mut bytes = sizes.fold(0, u64::saturating_add);
    let mut ids = Vec::new();
    while bytes > max_bytes {
        let all = incidents.iter().map(|incident| (incident.source.as_str(), incident.bytes));
        let Some(place) = place_to_free(all) else { break };
        let incident = incidents.remove(place);
        bytes = bytes.saturating_sub(incident.bytes);
        ids.push(incident.id);
    }
    ids
}

/// Deletes the oldest chunks while the file is too large.
fn shrink(store: &mut Store, max_bytes: u64) -> Result<(), RecordError> {
    let mut excess = store.used_bytes()?.saturating_sub(max_bytes);
    if excess == 0 {
        return Ok(());
    }
    let mut oldest = Vec::new();
    for chunk in store.chunks()? {
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(chunk.bytes);
        oldest.push(chunk.seq);
    }
    store.delete_chunks(&oldest)
}

/// The chunks that are young enough, and the numbers of the others.
fn expired(chunks: &[ChunkHead], max_age: Duration) -> (&[ChunkHead], Vec<u64>) {
    let mut age_ms = 0_u64;
    let young = |chunk: &&ChunkHead| {
        let young = Duration::from_millis(age_ms) < max_age;
        age_ms = age_ms.saturating_add(chunk.span_ms);
        young
    };
    let count = chunks.iter().rev().take_while(young).count();
    let (old, kept) = chunks.split_at(chunks.len() - count);
    (kept, old.iter().map(|chunk| chunk.seq).collect())
}

/// Chunks to merge: runs of chunks of one layout that are old enough for a wider step. A run
/// that younger chunks will lengthen waits until it fills a chunk.
fn merges(chunks: &[ChunkHead], retention: &Retention, rows_per_chunk: usize) -> Vec<Merge> {
    let mut merges = Vec::new();
    let mut run: Option<Merge> = None;
    let mut age_ms = chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.span_ms));
    for chunk in chunks {
        age_ms = age_ms.saturating_sub(chunk.span_ms);
        let step_ms = retention.step_ms(Duration::from_millis(age_ms));
        let due = chunk.step_ms != LOOSE && step_ms > chunk.step_ms;
        let goes_on = |run: &Merge| due && run.layout == chunk.layout && run.step_ms == step_ms;
        if run.as_ref().is_some_and(|run| !goes_on(run)) {
            let ended = run.take();
            merges.extend(ended.filter(|run| run.layout != chunk.layout));
        }
        if !due {
            continue;
        }
        let new = || Merge { seqs: Vec::new(), layout: chunk.layout, step_ms, span_ms: 0 };
        let current = run.get_or_insert_with(new);
        current.seqs.push(chunk.seq);
        current.span_ms = current.span_ms.saturating_add(chunk.span_ms);
        if current.span_ms / step_ms >= rows_per_chunk as u64 {
            merges.extend(run.take());
        }
    }
    merges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incident;

    const PACK_MS: u64 = 300_000;

    fn chunk(seq: u64, layout: u64, step_ms: u64, span_ms: u64) -> ChunkHead {
        ChunkHead { seq, layout, step_ms, span_ms, ..ChunkHead::default() }
    }

    /// Packed chunks of five minutes, as many as `hours` hold.
    fn hours(hours: u64, layout: u64) -> Vec<ChunkHead> {
        (0..hours * 12).map(|at| chunk(1 + at * 300, layout, AS_TAKEN, PACK_MS)).collect()
    }

    #[test]
    fn rows_of_a_day_are_left_alone_and_older_ones_fill_chunks() {
        let usual = Retention::default();
        assert_eq!(merges(&hours(24, 1), &usual, 300), []);
        let merges = merges(&hours(27, 1), &usual, 300);
        assert_eq!(merges.len(), 3, "{merges:?}");
        for merge in &merges {
            assert_eq!((merge.seqs.len(), merge.step_ms, merge.span_ms), (10, 10_000, 3_000_000));
        }
    }

    fn sizes(sources: &[&str]) -> Vec<IncidentSize> {
        let size = |(id, source): (u64, &&str)| IncidentSize {
            id,
            bytes: 10,
            source: (*source).to_owned(),
        };
        (1..).zip(sources).map(size).collect()
    }

    #[test]
    fn a_user_s_incidents_push_out_his_own() {
        let mine = incident::source("oom-kill", "oom_kill", Some("cgroup /user.slice/u1/x/y"));
        let db = incident::source("probe", "db", Some("cgroup /user.slice/u1/x"));
        assert_eq!((mine.as_str(), db.as_str()), ("oom_kill/user.slice/u1", "probe/db"));
        let pressure = incident::source("pressure", "pressure", Some("reclaim"));
        let mut sources = vec![db.as_str(), "oom_kill/system.slice/db", &pressure];
        sources.extend(vec![mine.as_str(); 100]);
        let goes = expendable(sizes(&sources), 200);
        assert_eq!(goes, (4..=86).collect::<Vec<u64>>());
        assert_eq!(expendable(sizes(&sources), 2000), [] as [u64; 0]);
        // Alone it may have all of it, and the oldest go.
        assert_eq!(expendable(sizes(&vec!["probe/db"; 30]), 200), (1..=10).collect::<Vec<u64>>());
    }

    #[test]
    fn another_layout_ends_a_run() {
        let mut chunks = hours(1, 1);
        chunks.truncate(4);
        chunks.extend(hours(25, 2).into_iter().map(|c| ChunkHead { seq: c.seq + 1200, ..c }));
        let merges = merges(&chunks, &Retention::default(), 300);
        assert_eq!(merges[0].seqs, [1, 301, 601, 901]);
        assert_eq!(merges[1].layout, 2);
    }

    #[test]
    fn age_is_recorded_time() {
        let chunks = hours(48, 1);
        let (kept, old) = expired(&chunks, DAY);
        assert_eq!((kept.len(), old.len()), (288, 288));
        assert_eq!(old[0], 1);
        assert!(expired(&chunks, 3 * DAY).1.is_empty());
    }
}
