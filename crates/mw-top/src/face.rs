//! What a terminal can show: colours, attributes, and which characters.

use mw_model::Severity;
use ratatui::style::{Color, Modifier, Style};

/// The characters that bars and curves are made of.
#[derive(Debug, PartialEq, Eq)]
pub struct Glyphs {
    /// True if there are only seven bits.
    pub ascii: bool,
    /// Heights of a curve; the first is zero.
    pub heights: &'static [char],
    /// Memory in use, dirty, clean page cache, free.
    pub memory: [char; 4],
    /// Characters of the full part of a gauge.
    pub full: char,
    /// Characters of the rest of a gauge.
    pub empty: char,
    /// A line across.
    pub line: char,
    /// The place in time.
    pub cursor: char,
    /// An incident on the line of time.
    pub incident: char,
    /// Character that separates the orders below a huge page from those that serve one.
    pub fence: char,
    /// Marks text that was cut off.
    pub more: char,
    /// A level goes up, down.
    pub arrows: [&'static str; 2],
}

const UNICODE: Glyphs = Glyphs {
    ascii: false,
    heights: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
    memory: ['█', '▓', '▒', '░'],
    full: '█',
    empty: '░',
    line: '─',
    cursor: '◆',
    incident: '▲',
    fence: '│',
    more: '…',
    arrows: ["↑↓", "←→"],
};

/// Characters of the font of the Linux console: code page 437.
const CONSOLE: Glyphs = Glyphs {
    ascii: false,
    heights: &['_', '░', '▒', '▓', '█'],
    memory: ['█', '▓', '▒', '░'],
    full: '█',
    empty: '░',
    line: '─',
    cursor: '■',
    incident: '▲',
    fence: '│',
    more: '~',
    arrows: ["↑↓", "←→"],
};

const ASCII: Glyphs = Glyphs {
    ascii: true,
    heights: &['_', '.', ':', '-', '=', '+', '*', '#'],
    memory: ['#', '%', '=', '.'],
    full: '#',
    empty: '.',
    line: '-',
    cursor: 'O',
    incident: '!',
    fence: '|',
    more: '~',
    arrows: ["up/down", "left/right"],
};

/// Style in which a terminal is drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Face {
    /// True if it may have colour.
    pub colour: bool,
    /// True if it has bold, faint and reverse.
    pub attributes: bool,
    /// The characters that it has.
    pub glyphs: &'static Glyphs,
}

/// Meaning of a piece of text; the face decides its look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRole {
    Plain,
    Strong,
    Faint,
    Good,
    Warn,
    Bad,
    Accent,
    Selected,
}

impl Face {
    /// The face for an environment: NO_COLOR, TERM, and the locale (LC_ALL, LC_CTYPE, LANG).
    pub fn from_environment(environment: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let term = set("TERM").unwrap_or_else(|| "dumb".to_owned());
        let dumb = term == "dumb";
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_ascii_lowercase().replace('-', "");
        let glyphs = match term.as_str() {
            _ if dumb || !locale.contains("utf8") => &ASCII,
            "linux" => &CONSOLE,
            _ => &UNICODE,
        };
        let plain = dumb || term.starts_with("vt") || set("NO_COLOR").is_some();
        Self { colour: !plain, attributes: !dumb, glyphs }
    }

    /// Every colour and every character.
    pub fn rich() -> Self {
        Self { colour: true, attributes: true, glyphs: &UNICODE }
    }

    /// Seven bits, no colour, no attributes.
    pub fn plain() -> Self {
        Self { colour: false, attributes: false, glyphs: &ASCII }
    }

    pub(crate) fn style(self, role: TextRole) -> Style {
        let colour = match role {
            TextRole::Good => Some(Color::Green),
            TextRole::Warn => Some(Color::Yellow),
            TextRole::Bad => Some(Color::Red),
            TextRole::Accent => Some(Color::Cyan),
            TextRole::Plain | TextRole::Strong | TextRole::Faint | TextRole::Selected => None,
        };
        let modifier = match role {
            TextRole::Strong | TextRole::Bad => Modifier::BOLD,
            TextRole::Warn if !self.colour => Modifier::BOLD,
            TextRole::Faint => Modifier::DIM,
            TextRole::Selected => Modifier::REVERSED,
            _ => Modifier::empty(),
        };
        let style =
            Style::new().add_modifier(if self.attributes { modifier } else { Modifier::empty() });
        match colour.filter(|_| self.colour) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }

    pub(crate) fn severity(severity: Option<Severity>) -> TextRole {
        match severity {
            None | Some(Severity::Note) => TextRole::Good,
            Some(Severity::Warning) => TextRole::Warn,
            Some(Severity::Critical) => TextRole::Bad,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_decides() {
        type Environment<'a> = &'a [(&'a str, &'a str)];
        let cases: [(Environment<'_>, bool, bool, &Glyphs); 8] = [
            (&[("TERM", "xterm-256color"), ("LANG", "en_GB.UTF-8")], true, true, &UNICODE),
            (
                &[("TERM", "xterm"), ("LANG", "de_DE.utf8"), ("NO_COLOR", "1")],
                false,
                true,
                &UNICODE,
            ),
            (&[("TERM", "xterm"), ("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")], true, true, &ASCII),
            (&[("TERM", "xterm"), ("LANG", "de_DE.UTF-8"), ("LC_ALL", "")], true, true, &UNICODE),
            (&[("TERM", "linux"), ("LC_CTYPE", "C.UTF-8")], true, true, &CONSOLE),
            (&[("TERM", "dumb"), ("LANG", "C.UTF-8")], false, false, &ASCII),
            (&[("TERM", "vt220"), ("LANG", "C")], false, true, &ASCII),
            (&[], false, false, &ASCII),
        ];
        for (environment, colour, attributes, glyphs) in cases {
            let value = |name: &str| {
                let found = environment.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let face = Face { colour, attributes, glyphs };
            assert_eq!(Face::from_environment(value), face, "{environment:?}");
        }
    }

    #[test]
    fn the_fallbacks_have_only_what_their_terminals_have() {
        let all = |glyphs: &Glyphs| -> String {
            let Glyphs { full, empty, line, cursor, incident, fence, more, .. } = *glyphs;
            let mut all: String = glyphs.heights.iter().chain(&glyphs.memory).collect();
            all.extend([full, empty, line, cursor, incident, fence, more]);
            all + glyphs.arrows[0] + glyphs.arrows[1]
        };
        assert!(all(&ASCII).is_ascii());
        let has = |c: char| c.is_ascii() || "░▒▓█─│■▲↑↓←→".contains(c);
        assert!(all(&CONSOLE).chars().all(has), "{}", all(&CONSOLE));
    }
}
