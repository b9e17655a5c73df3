//! Which key does what: one table, from which keys are understood and the help screen is made.

use crate::view::View;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A key, with or without Ctrl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    ctrl: bool,
}

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Quit,
    /// Show the keys, or hide them.
    Help,
    /// The view after this one.
    NextView,
    /// The view before this one.
    PreviousView,
    /// A view by its number.
    Show(View),
    Up,
    Down,
    /// Details of the line, or go to the incident.
    Open,
    /// The page of the line's rule.
    Explain,
    Close,
    /// A step back in time.
    Back,
    /// A step forward in time.
    Forward,
    /// A minute back, or a page up.
    FarBack,
    /// A minute forward, or a page down.
    FarForward,
    First,
    Last,
    /// Hold the picture, or go on.
    Pause,
    /// The incident after this time.
    NextIncident,
    /// The incident before this time.
    PreviousIncident,
    /// Look less often; replay faster.
    More,
    /// Look more often; replay slower.
    Less,
    /// Hand the terminal back for a while.
    Suspend,
    Redraw,
}

/// Keys that do the same.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    pub keys: &'static [Key],
    pub label: &'static str,
    pub action: Action,
    pub help: &'static str,
}

const fn key(code: KeyCode) -> Key {
    Key { code, ctrl: false }
}

const fn char(c: char) -> Key {
    key(KeyCode::Char(c))
}

const fn ctrl(c: char) -> Key {
    Key { code: KeyCode::Char(c), ctrl: true }
}

macro_rules! bind {
    ($label:literal, [$($key:expr),+], $action:expr, $help:literal) => {
        Binding { keys: &[$($key),+], label: $label, action: $action, help: $help }
    };
}

/// All keys, in the order of the help screen.
pub static BINDINGS: &[Binding] = &[
    bind!("q  Ctrl-C", [char('q'), ctrl('c')], Action::Quit, "quit"),
    bind!("?  F1", [char('?'), key(KeyCode::F(1))], Action::Help, "these keys"),
    bind!("1", [char('1')], Action::Show(View::Overview), "overview"),
    bind!("2", [char('2')], Action::Show(View::Nodes), "nodes, zones, fragmentation"),
    bind!("3", [char('3')], Action::Show(View::Reclaim), "pressure, reclaim, swap"),
    bind!("4", [char('4')], Action::Show(View::Tasks), "cgroups and tasks"),
    bind!("5", [char('5')], Action::Show(View::Hazards), "hazards and remedies"),
    bind!("6", [char('6')], Action::Show(View::Incidents), "incidents of a recording"),
    bind!("Tab", [key(KeyCode::Tab)], Action::NextView, "next view"),
    bind!("Shift-Tab", [key(KeyCode::BackTab)], Action::PreviousView, "previous view"),
    bind!("Up  k", [key(KeyCode::Up), char('k')], Action::Up, "line above"),
    bind!("Down  j", [key(KeyCode::Down), char('j')], Action::Down, "line below"),
    bind!("Enter", [key(KeyCode::Enter)], Action::Open, "details; to the incident"),
    bind!("e", [char('e')], Action::Explain, "explain the hazard's rule"),
    bind!("Esc", [key(KeyCode::Esc)], Action::Close, "close, back"),
    bind!("Left  h", [key(KeyCode::Left), char('h')], Action::Back, "a step back in time"),
    bind!("Right  l", [key(KeyCode::Right), char('l')], Action::Forward, "a step forward in time"),
    bind!("PgUp", [key(KeyCode::PageUp), ctrl('b')], Action::FarBack, "a minute back; page up"),
    bind!(
        "PgDn",
        [key(KeyCode::PageDown), ctrl('f')],
        Action::FarForward,
        "a minute forward; page down"
    ),
    bind!("Home  g", [key(KeyCode::Home), char('g')], Action::First, "oldest sample"),
    bind!("End  G", [key(KeyCode::End), char('G')], Action::Last, "newest sample; live"),
    bind!("Space", [char(' ')], Action::Pause, "pause, resume"),
    bind!("n  ]", [char('n'), char(']')], Action::NextIncident, "next incident"),
    bind!("N  [", [char('N'), char('['), char('p')], Action::PreviousIncident, "previous incident"),
    bind!("+", [char('+'), char('=')], Action::More, "slower sampling; play faster"),
    bind!("-", [char('-')], Action::Less, "faster sampling; play slower"),
    bind!("Ctrl-Z", [ctrl('z')], Action::Suspend, "suspend"),
    bind!("Ctrl-L", [ctrl('l')], Action::Redraw, "redraw"),
];

impl Key {
    /// The key of a terminal's event.
    pub fn from_event(event: &KeyEvent) -> Self {
        Self { code: event.code, ctrl: event.modifiers.contains(KeyModifiers::CONTROL) }
    }

    /// A key without Ctrl.
    pub fn plain(code: KeyCode) -> Self {
        key(code)
    }

    /// A character with Ctrl.
    pub fn ctrl(c: char) -> Self {
        ctrl(c)
    }

    /// The key's action.
    pub fn action(self) -> Option<Action> {
        let binding = BINDINGS.iter().find(|binding| binding.keys.contains(&self))?;
        Some(binding.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_meaning_and_a_help_line_that_fits() {
        for (at, binding) in BINDINGS.iter().enumerate() {
            for key in binding.keys {
                assert_eq!(key.action(), Some(binding.action), "{}", binding.label);
            }
            let again = BINDINGS.iter().skip(at + 1).any(|other| other.action == binding.action);
            assert!(!again, "{:?} is bound twice", binding.action);
            assert!(binding.label.len() <= 10 && binding.help.len() <= 28, "{}", binding.help);
        }
        assert_eq!(char('z').action(), None);
        assert_eq!(ctrl('q').action(), None);
    }
}
