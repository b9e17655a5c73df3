//! What the screen shows: the view, the place in time, what is selected and open. Keys in,
//! changes out; nothing is drawn here.

use crate::keys::{Action, Key};
use crate::moment::{Screen, Timeline};
use crate::view::View;
use jiff::tz::TimeZone;

/// Source of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Live,
    Replay,
}

/// Action of the loop around the view after a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyEffect {
    None,
    Draw,
    /// Draw what is not on the screen yet: another place in time.
    Seek,
    /// Get the page of this rule, and give it to [`Top::show_page`].
    Explain(String),
    /// Release the terminal until the program continues (SIGCONT).
    Suspend,
    /// Clear the terminal and draw.
    Clear,
    Quit,
}

/// Overlay of the view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Overlay {
    #[default]
    Nothing,
    Help,
    Details,
    Page(String),
}

/// Intervals that + and - go through, in milliseconds.
const INTERVALS_MS: [u64; 8] = [200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

/// Speeds of replay that + and - go through.
const SPEEDS: [u64; 8] = [1, 2, 5, 10, 30, 60, 300, 600];

const STEP_MS: u64 = 1000;
const FAR_MS: u64 = 60_000;
const PAGE_LINES: usize = 10;

/// The state of the view.
#[derive(Debug, Clone)]
pub struct Top {
    pub(crate) mode: Mode,
    pub(crate) zone: TimeZone,
    pub(crate) view: View,
    pub(crate) over: Overlay,
    pub(crate) scroll: usize,
    pub(crate) selected: usize,
    interval_ms: u64,
    speed: u64,
    /// Follows the newest sample (live), or plays (replay).
    running: bool,
    /// The time shown; `None` is the newest sample.
    at_ms: Option<u64>,
}

impl Top {
    /// A view of the running machine, sampled at this interval.
    pub fn live(interval_ms: u64, zone: TimeZone) -> Self {
        Self::new(Mode::Live, interval_ms, None, zone)
    }

    /// A view of a recording at a time, paused until it is played.
    pub fn replay(at_ms: u64, interval_ms: u64, zone: TimeZone) -> Self {
        Self::new(Mode::Replay, interval_ms, Some(at_ms), zone)
    }

    fn new(mode: Mode, interval_ms: u64, at_ms: Option<u64>, zone: TimeZone) -> Self {
        Self {
            mode,
            zone,
            view: View::Overview,
            over: Overlay::Nothing,
            scroll: 0,
            selected: 0,
            interval_ms,
            speed: 1,
            running: mode == Mode::Live,
            at_ms,
        }
    }

    /// The time to show; `None` is the newest sample.
    pub fn at_ms(&self) -> Option<u64> {
        self.at_ms
    }

    /// The interval of sampling, or of playing, in milliseconds.
    pub fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    /// True if the picture changes by itself.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Seconds of a recording that go by in one.
    pub fn speed(&self) -> u64 {
        self.speed
    }

    /// The view that is shown.
    pub fn view(&self) -> View {
        self.view
    }

    /// An interval has passed: a recording that runs goes on, and stops at its end. Whether there
    /// is something new to show.
    pub fn elapsed(&mut self, timeline: &Timeline) -> bool {
        if !self.running {
            return false;
        }
        if let Some(at_ms) = self.at_ms {
            let next = at_ms.saturating_add(self.interval_ms.saturating_mul(self.speed));
            self.at_ms = Some(next.min(timeline.last_ms));
            self.running = next < timeline.last_ms;
        }
        true
    }

    /// Lays a page over the view.
    pub fn show_page(&mut self, text: String) {
        self.over = Overlay::Page(text);
        self.scroll = 0;
    }

    /// Performs the action of a key; `screen` is what is shown.
    pub fn press(&mut self, key: Key, screen: &Screen) -> KeyEffect {
        match key.action() {
            Some(action) => self.act(action, screen),
            None => KeyEffect::None,
        }
    }

    fn act(&mut self, action: Action, screen: &Screen) -> KeyEffect {
        match action {
            Action::Quit => return KeyEffect::Quit,
            Action::Suspend => return KeyEffect::Suspend,
            Action::Redraw => return KeyEffect::Clear,
            Action::Explain => return self.explain(screen),
            Action::Back | Action::Forward | Action::First | Action::Last => {
                return self.travel(action, &screen.timeline);
            }
            Action::FarBack | Action::FarForward => return self.far(action, &screen.timeline),
            Action::NextIncident | Action::PreviousIncident => {
                return self.jump(action, &screen.timeline);
            }
            Action::Pause => return self.pause(&screen.timeline),
            Action::Help => self.lay(Overlay::Help),
            Action::Close => self.close(),
            Action::Open => return self.open(screen),
            Action::Show(view) => self.show(view),
            Action::NextView => self.turn(1),
            Action::PreviousView => self.turn(-1),
            Action::Up | Action::Down => self.line(action, screen),
            Action::More | Action::Less => self.pace(action),
        }
        KeyEffect::Draw
    }

    /// The views that there are.
    pub(crate) fn views(&self) -> &'static [(View, &'static str)] {
        const VIEWS: [(View, &str); 6] = [
            (View::Overview, "overview"),
            (View::Nodes, "nodes"),
            (View::Reclaim, "reclaim"),
            (View::Tasks, "tasks"),
            (View::Hazards, "hazards"),
            (View::Incidents, "incidents"),
        ];
        match self.mode {
            Mode::Live => &VIEWS[..5],
            Mode::Replay => &VIEWS,
        }
    }

    fn show(&mut self, view: View) {
        if self.views().iter().any(|(known, _)| *known == view) {
            self.view = view;
            self.over = Overlay::Nothing;
            self.scroll = 0;
            self.selected = 0;
        }
    }

    fn turn(&mut self, by: isize) {
        let views = self.views();
        let at = views.iter().position(|(view, _)| *view == self.view).unwrap_or(0);
        let at = (at as isize + by).rem_euclid(views.len() as isize) as usize;
        if let Some((view, _)) = views.get(at) {
            self.show(*view);
        }
    }

    fn lay(&mut self, over: Overlay) {
        self.over = if self.over == over { Overlay::Nothing } else { over };
        self.scroll = 0;
    }

    fn close(&mut self) {
        if self.over == Overlay::Nothing {
            self.show(View::Overview);
        }
        self.over = Overlay::Nothing;
        self.scroll = 0;
    }

    /// Number of lines that can be selected in this view.
    fn lines(&self, screen: &Screen) -> usize {
        match self.view {
            View::Overview | View::Hazards => screen.moment.findings.len(),
            View::Incidents => screen.timeline.incidents.len(),
            View::Nodes | View::Reclaim | View::Tasks => 0,
        }
    }

    fn line(&mut self, action: Action, screen: &Screen) {
        let lines = self.lines(screen);
        let scrolls = self.over != Overlay::Nothing || lines == 0;
        let at = if scrolls { &mut self.scroll } else { &mut self.selected };
        *at = match action {
            Action::Up => at.saturating_sub(1),
            _ => at.saturating_add(1),
        };
        if !scrolls {
            self.selected = self.selected.min(lines - 1);
        }
    }

    fn open(&mut self, screen: &Screen) -> KeyEffect {
        if self.over != Overlay::Nothing {
            self.close();
            return KeyEffect::Draw;
        }
        if self.view == View::Incidents {
            let Some(incident) = screen.timeline.incidents.get(self.selected) else {
                return KeyEffect::None;
            };
            let at_ms = incident.started_ms;
            self.show(View::Overview);
            return self.seek(at_ms, &screen.timeline);
        }
        if self.lines(screen) > 0 || screen.incident.is_some() {
            self.lay(Overlay::Details);
        }
        KeyEffect::Draw
    }

    fn explain(&mut self, screen: &Screen) -> KeyEffect {
        if matches!(self.over, Overlay::Page(_)) {
            self.close();
            return KeyEffect::Draw;
        }
        match screen.moment.findings.get(self.selected) {
            Some(finding) => KeyEffect::Explain(finding.rule.clone()),
            None => KeyEffect::None,
        }
    }

    fn seek(&mut self, at_ms: u64, timeline: &Timeline) -> KeyEffect {
        let at_ms = at_ms.clamp(timeline.first_ms, timeline.last_ms.max(timeline.first_ms));
        let is_newest = self.mode == Mode::Live && at_ms >= timeline.last_ms;
        self.at_ms = (!is_newest).then_some(at_ms);
        self.running = match self.mode {
            Mode::Live => is_newest,
            Mode::Replay => self.running,
        };
        KeyEffect::Seek
    }

    fn travel(&mut self, action: Action, timeline: &Timeline) -> KeyEffect {
        let now = self.at_ms.unwrap_or(timeline.last_ms);
        let step = match self.mode {
            Mode::Live => self.interval_ms.max(STEP_MS),
            Mode::Replay => STEP_MS,
        };
        let at_ms = match action {
            Action::Back => now.saturating_sub(step),
            Action::Forward => now.saturating_add(step),
            Action::First => timeline.first_ms,
            _ => timeline.last_ms,
        };
        self.seek(at_ms, timeline)
    }

    fn far(&mut self, action: Action, timeline: &Timeline) -> KeyEffect {
        let back = action == Action::FarBack;
        if self.over != Overlay::Nothing {
            self.scroll = match back {
                true => self.scroll.saturating_sub(PAGE_LINES),
                false => self.scroll.saturating_add(PAGE_LINES),
            };
            return KeyEffect::Draw;
        }
        let now = self.at_ms.unwrap_or(timeline.last_ms);
        let at_ms = if back { now.saturating_sub(FAR_MS) } else { now.saturating_add(FAR_MS) };
        self.seek(at_ms, timeline)
    }

    fn jump(&mut self, action: Action, timeline: &Timeline) -> KeyEffect {
        let now = self.at_ms.unwrap_or(timeline.last_ms);
        let mut starts = timeline.incidents.iter().map(|i| i.started_ms);
        let there = match action {
            Action::NextIncident => starts.find(|start| *start > now),
            _ => starts.rev().find(|start| *start < now),
        };
        match there {
            Some(at_ms) => {
                self.over = Overlay::Nothing;
                self.seek(at_ms, timeline)
            }
            None => KeyEffect::None,
        }
    }

    fn pause(&mut self, timeline: &Timeline) -> KeyEffect {
        self.running = !self.running;
        match (self.mode, self.running) {
            (Mode::Live, true) => self.at_ms = None,
            (Mode::Live, false) => self.at_ms = Some(timeline.last_ms),
            // At its end a recording starts over.
            (Mode::Replay, true) if self.at_ms >= Some(timeline.last_ms) => {
                self.at_ms = Some(timeline.first_ms);
            }
            (Mode::Replay, _) => {}
        }
        KeyEffect::Seek
    }

    fn pace(&mut self, action: Action) {
        let (steps, value) = match self.mode {
            Mode::Live => (&INTERVALS_MS, &mut self.interval_ms),
            Mode::Replay => (&SPEEDS, &mut self.speed),
        };
        let next = match action {
            Action::More => steps.iter().find(|step| **step > *value),
            _ => steps.iter().rev().find(|step| **step < *value),
        };
        *value = next.copied().unwrap_or(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IncidentMark, Moment};
    use mw_model::{Finding, Severity, Subject};
    use ratatui::crossterm::event::KeyCode::{
        self, BackTab, Char, Down, End, Enter, Esc, Home, Left, PageDown, PageUp, Right, Tab, Up,
    };

    const FIRST_MS: u64 = 1_000_000;
    const LAST_MS: u64 = FIRST_MS + 600_000;

    fn screen() -> Screen {
        let finding = |rule: &str| Finding {
            rule: rule.to_owned(),
            ..Finding::new(Severity::Warning, Subject::Node(0), "slow")
        };
        let incident = |id: u64, after_ms: u64| IncidentMark {
            id,
            started_ms: FIRST_MS + after_ms,
            ended_ms: FIRST_MS + after_ms + 5000,
            verdict: "it stalled".to_owned(),
        };
        let incidents = vec![incident(1, 60_000), incident(2, 300_000), incident(3, 301_000)];
        Screen {
            moment: Moment {
                findings: vec![finding("zone-reclaim"), finding("swap-thrash")],
                ..Moment::default()
            },
            timeline: Timeline { first_ms: FIRST_MS, last_ms: LAST_MS, incidents },
            ..Screen::default()
        }
    }

    /// Result of keys: the view, the time from oldest sample on, and the last effect.
    fn press(top: &mut Top, keys: &[KeyCode]) -> (View, Option<u64>, KeyEffect) {
        let screen = screen();
        let effects = keys.iter().map(|key| top.press(Key::plain(*key), &screen));
        let effect = effects.last().unwrap_or(KeyEffect::None);
        (top.view, top.at_ms.map(|at_ms| at_ms - FIRST_MS), effect)
    }

    #[test]
    fn keys_move_through_a_recording() {
        let cases: [(&[KeyCode], u64); 14] = [
            (&[Left], 99_000),
            (&[Char('h'), Char('l'), Right], 101_000),
            (&[PageUp], 40_000),
            (&[PageUp, PageUp], 0),
            (&[PageDown], 160_000),
            (&[Home], 0),
            (&[End, Right], 600_000),
            (&[Char('g'), Char('G')], 600_000),
            (&[Char('n')], 300_000),
            (&[Char('n'), Char(']')], 301_000),
            (&[Char('n'), Char('n'), Char('n')], 301_000),
            (&[Char('N')], 60_000),
            (&[Char('['), Char('[')], 60_000),
            (&[Char('6'), Down, Enter], 300_000),
        ];
        for (keys, after_ms) in cases {
            let mut top = Top::replay(FIRST_MS + 100_000, 1000, TimeZone::UTC);
            assert_eq!(press(&mut top, keys).1, Some(after_ms), "{keys:?}");
        }
    }

    #[test]
    fn keys_change_the_view() {
        let cases: [(&[KeyCode], View); 8] = [
            (&[Tab], View::Nodes),
            (&[BackTab], View::Hazards),
            (&[Char('3')], View::Reclaim),
            (&[Char('4'), Tab, Tab], View::Overview),
            (&[Char('6')], View::Overview),
            (&[Char('5'), Esc], View::Overview),
            (&[Char('2'), Char('?'), Esc], View::Nodes),
            (&[Char('x'), Char('7')], View::Overview),
        ];
        for (keys, view) in cases {
            assert_eq!(press(&mut Top::live(1000, TimeZone::UTC), keys).0, view, "{keys:?}");
        }
    }

    #[test]
    fn keys_ask_for_what_only_the_loop_can_do() {
        let cases: [(&[KeyCode], KeyEffect); 6] = [
            (&[Char('q')], KeyEffect::Quit),
            (&[Char('e')], KeyEffect::Explain("zone-reclaim".to_owned())),
            (&[Down, Char('e')], KeyEffect::Explain("swap-thrash".to_owned())),
            (&[Char('j'), Char('j'), Up, Char('e')], KeyEffect::Explain("zone-reclaim".to_owned())),
            (&[Char('x')], KeyEffect::None),
            (&[Left], KeyEffect::Seek),
        ];
        for (keys, effect) in cases {
            assert_eq!(press(&mut Top::live(1000, TimeZone::UTC), keys).2, effect, "{keys:?}");
        }
        let mut top = Top::live(1000, TimeZone::UTC);
        assert_eq!(top.press(Key::ctrl('c'), &screen()), KeyEffect::Quit);
        assert_eq!(top.press(Key::ctrl('z'), &screen()), KeyEffect::Suspend);
        assert_eq!(top.press(Key::ctrl('l'), &screen()), KeyEffect::Clear);
    }

    #[test]
    fn a_live_view_follows_until_it_is_held() {
        let mut top = Top::live(1000, TimeZone::UTC);
        assert!(top.elapsed(&screen().timeline));
        assert_eq!(press(&mut top, &[Char(' ')]).1, Some(600_000));
        assert!(!top.elapsed(&screen().timeline));
        assert_eq!(press(&mut top, &[Char(' ')]).1, None);
        assert_eq!(press(&mut top, &[Left, Left]).1, Some(598_000));
        assert!(!top.is_running());
        assert_eq!(press(&mut top, &[End]).1, None);
        assert!(top.is_running());
    }

    #[test]
    fn a_recording_plays_to_its_end_and_starts_over() {
        let mut top = Top::replay(LAST_MS - 15_000, 1000, TimeZone::UTC);
        let timeline = screen().timeline;
        assert!(!top.elapsed(&timeline), "it is paused at first");
        press(&mut top, &[Char(' '), Char('+'), Char('+'), Char('+')]);
        assert_eq!(top.speed(), 10);
        assert!(top.elapsed(&timeline));
        assert_eq!(top.at_ms(), Some(LAST_MS - 5000));
        assert!(top.elapsed(&timeline) && !top.is_running());
        assert_eq!(top.at_ms(), Some(LAST_MS));
        assert_eq!(press(&mut top, &[Char(' ')]).1, Some(0));
    }

    #[test]
    fn the_pace_has_limits() {
        let mut top = Top::live(1000, TimeZone::UTC);
        press(&mut top, &[Char('-'); 20]);
        assert_eq!(top.interval_ms(), 200);
        press(&mut top, &[Char('+'); 20]);
        assert_eq!(top.interval_ms(), 60_000);
    }
}
