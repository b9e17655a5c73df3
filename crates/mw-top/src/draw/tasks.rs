//! Cgroups by how near they are to their limits, and tasks.

use super::Pen;
use super::row::TextRow;
use crate::face::TextRole;
use crate::moment::{GroupRow, TaskRow};
use crate::short;
use mw_model::{Incident, Reading, Role as Part};

/// A task that grows faster than this catches the eye, in bytes a second.
const FAST_GROWTH: f64 = 64.0 * 1024.0 * 1024.0;

const GAUGE: usize = 12;

impl Pen<'_> {
    pub(super) fn tasks(&self, width: usize, room: usize) -> Vec<TextRow> {
        let mut rows = self
            .screen
            .incident
            .as_ref()
            .map_or_else(Vec::new, |incident| self.parts_in(incident, width, room / 2));
        let left = room.saturating_sub(rows.len() + 1);
        let groups = self.moment().groups.value().map_or(1, Vec::len).max(1);
        rows.extend(self.group_rows(width, (groups + 1).min(left / 2)));
        rows.push(TextRow::new());
        let left = room.saturating_sub(rows.len());
        rows.extend(self.task_rows(width, left, self.top.scroll));
        rows
    }

    /// Victims and culprits of an incident.
    pub(super) fn parts_in(&self, incident: &Incident, width: usize, lines: usize) -> Vec<TextRow> {
        let mut rows = Vec::new();
        let parts: [(&str, &[Part], TextRole); 2] = [
            ("suffering", &incident.suffering, TextRole::Warn),
            ("causing", &incident.causing, TextRole::Bad),
        ];
        for (title, tasks, role) in parts {
            for part in tasks.iter().take(lines.saturating_sub(2) / 2) {
                let mut row = TextRow::new();
                row.left(title, 11, TextRole::Strong).right(
                    &part.pid.to_string(),
                    8,
                    TextRole::Plain,
                );
                row.put(" ", TextRole::Plain).left(&part.task, 17, role);
                let room = width.saturating_sub(row.width());
                row.put(&self.cut(&part.why, room), TextRole::Plain);
                rows.push(row);
            }
        }
        if !rows.is_empty() {
            rows.push(TextRow::new());
        }
        rows
    }

    /// Groups, the nearest to its limit first, under a heading.
    pub(super) fn group_rows(&self, width: usize, lines: usize) -> Vec<TextRow> {
        let wide = width >= 70;
        let path = width.saturating_sub(if wide { 50 } else { 28 });
        let mut heading = TextRow::new();
        heading.left("cgroup", path, TextRole::Strong).right("charged", 8, TextRole::Faint);
        heading.right("limit", 7, TextRole::Faint);
        if wide {
            heading.right("high", 7, TextRole::Faint).right("max", 7, TextRole::Faint);
            heading.right("oom", 7, TextRole::Faint);
        }
        let mut rows = vec![heading];
        match &self.moment().groups {
            Reading::Value(groups) if groups.is_empty() => {
                rows.push(TextRow::from_text("no group has a limit", TextRole::Faint));
            }
            Reading::Value(groups) => {
                let room = lines.saturating_sub(1);
                rows.extend(groups.iter().take(room).map(|group| self.group(group, path, wide)));
            }
            Reading::Missing(missing) => rows.push(self.unseen("cgroups", missing, width)),
        }
        rows.truncate(lines);
        rows
    }

    fn group(&self, group: &GroupRow, path: usize, wide: bool) -> TextRow {
        let share = group.share();
        let role = match share {
            share if share >= 0.95 => TextRole::Bad,
            share if share >= 0.8 => TextRole::Warn,
            _ => TextRole::Good,
        };
        let mut row = TextRow::new();
        row.left(&tail(&group.path, path.saturating_sub(1)), path, TextRole::Plain);
        row.right(&short::bytes(group.current), 8, TextRole::Plain);
        row.right(&short::bytes(group.limit), 7, TextRole::Plain);
        if wide {
            for met in group.met {
                let text = met.map_or_else(|| "-".to_owned(), |met| short::count(met as f64));
                let role =
                    if met.is_some_and(|met| met > 0) { TextRole::Warn } else { TextRole::Faint };
                row.right(&text, 7, role);
            }
        }
        let filled = ((share * (GAUGE - 4) as f64) as usize).min(GAUGE - 4);
        let glyphs = self.face.glyphs;
        row.put(" ", TextRole::Plain).put(&glyphs.full.to_string().repeat(filled), role);
        row.put(&glyphs.empty.to_string().repeat(GAUGE - 4 - filled), TextRole::Faint);
        row.right(&format!("{:.0}%", (share * 100.0).min(999.0)), 5, role);
        row
    }

    /// Tasks, blocked ones first, under a heading; from row `from` on.
    pub(super) fn task_rows(&self, width: usize, lines: usize, from: usize) -> Vec<TextRow> {
        let wide = width >= 60;
        let mut heading = TextRow::new();
        heading.left("task", 8, TextRole::Strong).left("state", 7, TextRole::Faint);
        heading.right("resident", 8, TextRole::Faint).right("growth/s", 9, TextRole::Faint);
        if wide {
            heading.right("swapped", 9, TextRole::Faint).right("locked", 8, TextRole::Faint);
        }
        heading.put("  name", TextRole::Faint);
        let (present, unseen) = self.moment().tasks_unseen;
        if unseen > 0 {
            let text = format!("   {unseen} of {present} not sampled");
            let room = width.saturating_sub(heading.width());
            heading.put(&self.cut(&text, room), TextRole::Warn);
        }
        let mut rows = vec![heading];
        match &self.moment().tasks {
            Reading::Value(tasks) => {
                let room = lines.saturating_sub(1);
                let from = from.min(tasks.len().saturating_sub(room));
                rows.extend(tasks.iter().skip(from).take(room).map(|task| row_of(task, wide)));
            }
            Reading::Missing(missing) => rows.push(self.unseen("tasks", missing, width)),
        }
        rows.truncate(lines);
        rows
    }
}

fn row_of(task: &TaskRow, wide: bool) -> TextRow {
    let mut row = TextRow::new();
    let (state, role) = match task.state {
        'D' => ("blocked", TextRole::Bad),
        'R' => ("runs", TextRole::Plain),
        'T' | 't' => ("stopped", TextRole::Warn),
        'Z' => ("zombie", TextRole::Faint),
        _ => ("sleeps", TextRole::Faint),
    };
    row.left(&task.pid.to_string(), 8, TextRole::Plain);
    row.put(state, role).fill_to(15);
    row.right(&short::bytes(task.resident), 8, TextRole::Plain);
    let (growth, role) = match task.growth_per_s {
        None => ("-".to_owned(), TextRole::Faint),
        Some(rate) if rate.abs() < 1024.0 => ("0".to_owned(), TextRole::Faint),
        Some(rate) => {
            let sign = if rate < 0.0 { "-" } else { "+" };
            let role = if rate >= FAST_GROWTH { TextRole::Warn } else { TextRole::Plain };
            (format!("{sign}{}", short::bytes(rate.abs() as u64)), role)
        }
    };
    row.right(&growth, 9, role);
    if wide {
        for (bytes, width) in [(task.swap, 9), (task.locked, 8)] {
            let role = if bytes > 0 { TextRole::Plain } else { TextRole::Faint };
            row.right(&short::bytes(bytes), width, role);
        }
    }
    row.put("  ", TextRole::Plain).put(&task.name, TextRole::Plain);
    row
}

/// The end of a path, which says more than its beginning.
fn tail(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    let kept: String = path.chars().skip(length - width.saturating_sub(1)).collect();
    format!("<{kept}")
}
