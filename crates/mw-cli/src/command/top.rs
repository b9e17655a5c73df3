//! `memwright top`: this machine as it is, or any moment of a recording, in the terminal.

mod live;
mod replay;
mod session;

use crate::args::TopArgs;
use crate::{Exit, Failure};
use jiff::tz::TimeZone;
use live::Live;
use mw_render::tui::{Effect, Face, Key, Screen, Timeline, Top, draw};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use replay::Replay;
use session::Session;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How long to wait for a key where nothing changes by itself.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Where screens come from.
trait Feed {
    /// Takes a sample of the running machine.
    fn look(&mut self);

    /// What there is to see at a time; the newest look where there is none.
    fn screen(&mut self, at_ms: Option<u64>) -> Screen;

    /// From when to when there is something to see.
    fn timeline(&self) -> &Timeline;

    /// Whether there is something new every interval, wherever one looks.
    fn goes_on(&self) -> bool;
}

pub(crate) fn run(args: &TopArgs) -> Result<Exit, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "top needs a terminal; 'memwright check' prints the state of memory once",
        ));
    }
    let zone = TimeZone::system();
    let interval_ms = u64::try_from(args.interval.as_millis()).unwrap_or(u64::MAX);
    let (mut top, mut feed): (Top, Box<dyn Feed>) = match &args.recording {
        None => (Top::live(interval_ms, zone), Box::new(Live::open()?)),
        Some(path) => {
            let replay = Replay::open(path)?;
            let at_ms = replay.start(args.at, &zone)?;
            (Top::replay(at_ms, interval_ms, zone), Box::new(replay))
        }
    };
    let face = Face::from_environment(|name| std::env::var(name).ok());
    let session = Session::enter().map_err(terminal_failed)?;
    let outcome = watch(&mut top, feed.as_mut(), face, &session);
    session.leave();
    outcome.map(|()| Exit::Fine).map_err(terminal_failed)
}

fn terminal_failed(error: io::Error) -> Failure {
    Failure::new(Exit::CouldNotCheck, format!("the terminal: {error}"))
}

/// Samples, draws and handles input until the user quits.
fn watch(top: &mut Top, feed: &mut dyn Feed, face: Face, session: &Session) -> io::Result<()> {
    let mut screen = feed.screen(top.at_ms());
    let mut due = Instant::now() + Duration::from_millis(top.interval_ms());
    session.draw(|frame| draw(top, &screen, face, frame))?;
    loop {
        let moves = feed.goes_on() || top.is_running();
        let wait = if moves { due.saturating_duration_since(Instant::now()) } else { STANDSTILL };
        let mut change = Effect::None;
        if event::poll(wait)? {
            change = listen(top, &screen)?;
        } else if moves {
            feed.look();
            if top.elapsed(feed.timeline()) {
                change = Effect::Seek;
            }
            due = next(due, Duration::from_millis(top.interval_ms()));
        }
        match change {
            Effect::None => continue,
            Effect::Quit => return Ok(()),
            Effect::Suspend => {
                session::suspend();
                continue;
            }
            Effect::Explain(rule) => {
                if let Some(rule) = mw_rules::find(&rule) {
                    top.show_page(rule.page());
                }
            }
            Effect::Seek => screen = feed.screen(top.at_ms()),
            Effect::Clear => session.clear()?,
            Effect::Draw => {}
        }
        session.draw(|frame| draw(top, &screen, face, frame))?;
    }
}

/// Does what all keys ask for that have come meanwhile, so that one that is held down does not
/// draw a screen each.
fn listen(top: &mut Top, screen: &Screen) -> io::Result<Effect> {
    let mut change = Effect::None;
    loop {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                match top.press(Key::from_event(&key), screen) {
                    Effect::None => {}
                    Effect::Draw if change != Effect::None => {}
                    effect @ (Effect::Draw | Effect::Seek) => change = effect,
                    effect => return Ok(effect),
                }
            }
            Event::Resize(..) if change == Effect::None => change = Effect::Draw,
            _ => {}
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(change);
        }
    }
}

/// When to look next: an interval later, or from now on where one was missed.
fn next(due: Instant, interval: Duration) -> Instant {
    let next = due + interval;
    let now = Instant::now();
    if next > now { next.min(now + interval) } else { now + interval }
}
