//! Puts a screen on a terminal: the verdict, the views' names, the view, time, and keys.

mod hazards;
mod nodes;
mod over;
mod overview;
mod parts;
mod reclaim;
mod row;
mod tasks;

use crate::face::{Face, TextRole};
use crate::moment::{Moment, Screen};
use crate::state::{Mode, Overlay, Top};
use crate::view::View;
use jiff::Timestamp;
use ratatui::Frame;
use row::TextRow;

/// Terminals with fewer lines have no timeline.
const LINES_WITH_TIME: u16 = 10;

/// Terminals with fewer columns show the time without text.
const NARROW: usize = 60;

/// Context of the parts of a drawing.
#[derive(Clone, Copy)]
struct Pen<'a> {
    face: Face,
    top: &'a Top,
    screen: &'a Screen,
}

/// Draws a screen; whatever the size, it does not fail, and the verdict stays longest.
pub fn draw(top: &Top, screen: &Screen, face: Face, frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), area.height);
    let pen = Pen { face, top, screen };
    let mut head = vec![pen.verdict(width), pen.tabs(width)];
    head.extend(pen.notice(width));
    let mut foot = Vec::new();
    if height >= LINES_WITH_TIME && (top.mode == Mode::Replay || top.at_ms().is_some()) {
        foot.push(pen.time(width));
    }
    foot.push(pen.keys(width));
    let room = usize::from(height).saturating_sub(head.len() + foot.len());
    let mut body = pen.body(width, room);
    body.resize(room, TextRow::new());
    let lines = head.into_iter().chain(body).chain(foot).take(usize::from(height));
    for (y, row) in (area.y..).zip(lines) {
        frame.buffer_mut().set_line(area.x, y, &row.line(face), area.width);
    }
}

impl Pen<'_> {
    fn moment(&self) -> &Moment {
        &self.screen.moment
    }

    fn verdict(&self, width: usize) -> TextRow {
        let moment = self.moment();
        let verdict =
            if moment.verdict.is_empty() { "nothing to show yet" } else { &moment.verdict };
        TextRow::from_text(&self.cut(verdict, width), Face::severity(moment.worst))
    }

    fn tabs(&self, width: usize) -> TextRow {
        let clock = self.clock(width);
        let room = width.saturating_sub(clock.chars().count() + 1);
        let views = self.top.views();
        let full: usize = views.iter().map(|(_, name)| name.len() + 4).sum();
        let mut row = TextRow::new();
        for (number, (view, name)) in views.iter().enumerate() {
            let active = *view == self.top.view;
            let text = match full <= room + 1 {
                true => format!("{} {name}", number + 1),
                false if active => format!("{} {name}", number + 1),
                false => format!("{}", number + 1),
            };
            match active {
                true => row.put(&format!("[{text}]"), TextRole::Strong),
                false => row.put(&format!(" {text} "), TextRole::Faint),
            };
        }
        row.fill_to(width.saturating_sub(clock.chars().count()));
        row.put(&clock, TextRole::Plain);
        row
    }

    /// The time that is shown, and whether it goes on.
    fn clock(&self, width: usize) -> String {
        let top = self.top;
        let shown = top.at_ms().or(self.moment().unix_ms);
        let time = shown.map_or_else(|| "--:--:--".to_owned(), |ms| self.time_of(ms));
        match (top.mode, top.is_running()) {
            _ if width < NARROW => time,
            (Mode::Live, true) => format!("{time} every {}", seconds(top.interval_ms())),
            (Mode::Live, false) => format!("{time} paused"),
            (Mode::Replay, true) => format!("{time} x{}", top.speed()),
            (Mode::Replay, false) => format!("{time} still"),
        }
    }

    fn time_of(&self, unix_ms: u64) -> String {
        self.formatted(unix_ms, "%H:%M:%S")
    }

    fn formatted(&self, unix_ms: u64, format: &str) -> String {
        let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let text = time.map(|time| time.to_zoned(self.top.zone.clone()).strftime(format));
        text.map_or_else(|| "?".to_owned(), |text| text.to_string())
    }

    /// Error of the sample, or the incident that this time lies in.
    fn notice(&self, width: usize) -> Option<TextRow> {
        let mut row = TextRow::new();
        if let Some(trouble) = &self.screen.trouble {
            row.put(&self.cut(trouble, width), TextRole::Bad);
            return Some(row);
        }
        let at_ms = self.top.at_ms()?;
        let place = self.screen.timeline.incident_at(at_ms)?;
        let incidents = &self.screen.timeline.incidents;
        let verdict = &incidents.get(place)?.verdict;
        let mark = self.face.glyphs.incident;
        let text = format!("{mark} incident {} of {}: {verdict}", place + 1, incidents.len());
        row.put(&self.cut(&text, width), TextRole::Bad);
        Some(row)
    }

    fn body(&self, width: usize, room: usize) -> Vec<TextRow> {
        match &self.top.over {
            Overlay::Help => return self.help(width, room),
            Overlay::Page(text) => return self.page(text, width, room),
            Overlay::Details => return self.details(width, room),
            Overlay::Nothing => {}
        }
        match self.top.view {
            View::Overview => self.overview(width, room),
            View::Nodes => self.nodes(width, room),
            View::Reclaim => self.reclaim(width, room),
            View::Tasks => self.tasks(width, room),
            View::Hazards => self.hazards(width, room),
            View::Incidents => self.incidents(width, room),
        }
    }

    /// The line of time, with its incidents and the place that is shown.
    fn time(&self, width: usize) -> TextRow {
        let line = &self.screen.timeline;
        let format = if line.last_ms.saturating_sub(line.first_ms) > 20 * 3_600_000 {
            "%d %b %H:%M"
        } else {
            "%H:%M:%S"
        };
        let ends = [line.first_ms, line.last_ms].map(|ms| self.formatted(ms, format));
        let taken: usize = ends.iter().map(|end| end.chars().count() + 1).sum();
        let room = width.saturating_sub(taken);
        let span = line.last_ms.saturating_sub(line.first_ms).max(1);
        let place = |ms: u64| {
            let into = ms.saturating_sub(line.first_ms).min(span) as f64 / span as f64;
            (into * room.saturating_sub(1) as f64).round() as usize
        };
        let glyphs = self.face.glyphs;
        let mut cells = vec![(glyphs.line, TextRole::Faint); room];
        for incident in &line.incidents {
            if let Some(cell) = cells.get_mut(place(incident.started_ms)) {
                *cell = (glyphs.incident, TextRole::Bad);
            }
        }
        let shown = self.top.at_ms().unwrap_or(line.last_ms);
        if let Some(cell) = cells.get_mut(place(shown)) {
            *cell = (glyphs.cursor, TextRole::Accent);
        }
        let mut row = TextRow::new();
        row.put(&ends[0], TextRole::Faint).put(" ", TextRole::Plain);
        for (glyph, role) in cells {
            row.put(&glyph.to_string(), role);
        }
        row.put(" ", TextRole::Plain).put(&ends[1], TextRole::Faint);
        row
    }

    /// The keys that matter most here.
    fn keys(&self, width: usize) -> TextRow {
        let [vertical, horizontal] = self.face.glyphs.arrows;
        let common = [("q", "quit"), ("?", "keys"), ("Tab", "view")];
        let more: &[(&str, &str)] = match (&self.top.over, self.top.mode) {
            (Overlay::Nothing, Mode::Live) => &[
                (vertical, "select"),
                ("Enter", "details"),
                ("e", "explain"),
                (horizontal, "time"),
                ("Space", "pause"),
            ],
            (Overlay::Nothing, Mode::Replay) => &[
                (horizontal, "time"),
                ("n N", "incident"),
                ("Space", "play"),
                (vertical, "select"),
                ("Enter", "details"),
            ],
            _ => &[("Esc", "back"), (vertical, "scroll"), ("e", "explain")],
        };
        let mut row = TextRow::new();
        for (key, does) in common.iter().chain(more) {
            if row.width() + key.chars().count() + does.len() + 3 > width {
                break;
            }
            row.put(key, TextRole::Accent).put(" ", TextRole::Plain).put(does, TextRole::Plain);
            row.put("  ", TextRole::Plain);
        }
        row
    }
}

/// `1s`, `0.5s`, `60s`.
fn seconds(ms: u64) -> String {
    match ms % 1000 {
        0 => format!("{}s", ms / 1000),
        _ => format!("{}s", ms as f64 / 1000.0),
    }
}
