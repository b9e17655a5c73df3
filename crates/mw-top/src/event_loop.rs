//! Samples, draws and handles keys until the user quits.

use crate::draw::draw;
use crate::face::Face;
use crate::feed::Feed;
use crate::keys::Key;
use crate::moment::Screen;
use crate::session::{self, TerminalSession};
use crate::state::{KeyEffect, Top};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::time::{Duration, Instant};

/// Time to wait for a key while nothing changes.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Takes over the terminal, and returns it when the user quits or on an error.
///
/// # Errors
/// The terminal cannot be set up, read or written.
pub fn run(top: &mut Top, feed: &mut dyn Feed, face: Face) -> io::Result<()> {
    let session = TerminalSession::enter()?;
    let outcome = show(top, feed, face, &session);
    session.leave();
    outcome
}

fn show(
    top: &mut Top,
    feed: &mut dyn Feed,
    face: Face,
    session: &TerminalSession,
) -> io::Result<()> {
    let mut screen = feed.screen(top.at_ms());
    let mut due = Instant::now() + Duration::from_millis(top.interval_ms());
    session.draw(|frame| draw(top, &screen, face, frame))?;
    loop {
        let moves = feed.is_live() || top.is_running();
        let wait = if moves { due.saturating_duration_since(Instant::now()) } else { STANDSTILL };
        let mut change = KeyEffect::None;
        if event::poll(wait)? {
            change = listen(top, &screen)?;
        } else if moves {
            feed.sample();
            if top.elapsed(feed.timeline()) {
                change = KeyEffect::Seek;
            }
            due = next(due, Duration::from_millis(top.interval_ms()));
        }
        match change {
            KeyEffect::None => continue,
            KeyEffect::Quit => return Ok(()),
            KeyEffect::Suspend => {
                session::suspend();
                continue;
            }
            KeyEffect::Explain(rule) => {
                if let Some(rule) = mw_rules::find(&rule) {
                    top.show_page(rule.page());
                }
            }
            KeyEffect::Seek => screen = feed.screen(top.at_ms()),
            KeyEffect::Clear => session.clear()?,
            KeyEffect::Draw => {}
        }
        session.draw(|frame| draw(top, &screen, face, frame))?;
    }
}

/// Handles all keys that are pending, so that a key that is held down does not draw a screen for each
/// repetition.
fn listen(top: &mut Top, screen: &Screen) -> io::Result<KeyEffect> {
    let mut change = KeyEffect::None;
    loop {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                match top.press(Key::from_event(&key), screen) {
                    KeyEffect::None => {}
                    KeyEffect::Draw if change != KeyEffect::None => {}
                    effect @ (KeyEffect::Draw | KeyEffect::Seek) => change = effect,
                    effect => return Ok(effect),
                }
            }
            Event::Resize(..) if change == KeyEffect::None => change = KeyEffect::Draw,
            _ => {}
        }
        if !event::poll(Duration::ZERO)? {
            return Ok(change);
        }
    }
}

/// The next sample: an interval later, or from now if one was missed.
fn next(due: Instant, interval: Duration) -> Instant {
    let next = due + interval;
    let now = Instant::now();
    if next > now { next.min(now + interval) } else { now + interval }
}
