//! One line of the screen, built from left to right.

use crate::face::{Face, TextRole};
use ratatui::text::{Line, Span};

/// A line that is being built: text and what it means. The face decides at the end what that
/// looks like.
#[derive(Debug, Clone, Default)]
pub(super) struct TextRow {
    pieces: Vec<(String, TextRole)>,
    width: usize,
}

impl TextRow {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// A row of one piece.
    pub(super) fn from_text(text: &str, role: TextRole) -> Self {
        let mut row = Self::new();
        row.put(text, role);
        row
    }

    /// Columns so far.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn put(&mut self, text: &str, role: TextRole) -> &mut Self {
        // What a program calls itself must not move the cursor.
        let text: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        self.width += Span::raw(text.as_str()).width();
        self.pieces.push((text, role));
        self
    }

    /// Adds text in a column of its own, at its left, with a blank behind it.
    pub(super) fn left(&mut self, text: &str, width: usize, role: TextRole) -> &mut Self {
        let end = self.width + width;
        self.put(&cut(text, width.saturating_sub(1), '.'), role);
        self.fill_to(end)
    }

    /// Adds text in a column of its own, at its right.
    pub(super) fn right(&mut self, text: &str, width: usize, role: TextRole) -> &mut Self {
        let taken = Span::raw(text).width();
        self.fill_to(self.width + width.saturating_sub(taken));
        self.put(text, role)
    }

    /// Adds blanks up to a column.
    pub(super) fn fill_to(&mut self, column: usize) -> &mut Self {
        if column > self.width {
            let blanks = " ".repeat(column - self.width);
            self.put(&blanks, TextRole::Plain);
        }
        self
    }

    /// Adds another row behind this one.
    pub(super) fn append(&mut self, other: Self) -> &mut Self {
        self.width += other.width;
        self.pieces.extend(other.pieces);
        self
    }

    /// Highlights the whole row.
    pub(super) fn selected(&mut self, width: usize) {
        self.fill_to(width);
        for (_, role) in &mut self.pieces {
            *role = TextRole::Selected;
        }
    }

    /// The line as the face shows it.
    pub(super) fn line(self, face: Face) -> Line<'static> {
        let shown = |c: char| if face.glyphs.ascii && !c.is_ascii() { '?' } else { c };
        let span = |(text, role): (String, TextRole)| {
            let text: String = text.chars().map(shown).collect();
            Span::styled(text, face.style(role))
        };
        Line::from(self.pieces.into_iter().map(span).collect::<Vec<_>>())
    }
}

/// Two columns of rows, the second from column `at` on.
pub(super) fn beside(left: Vec<TextRow>, at: usize, right: Vec<TextRow>) -> Vec<TextRow> {
    let count = left.len().max(right.len());
    let mut right = right.into_iter();
    let mut rows: Vec<TextRow> = left;
    rows.resize(count, TextRow::new());
    for row in &mut rows {
        row.fill_to(at);
        if let Some(more) = right.next() {
            row.append(more);
        }
    }
    rows
}

/// Text that fits, with `more` where something was cut off.
pub(super) fn cut(text: &str, width: usize, more: char) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(width.saturating_sub(1)).collect();
    while Span::raw(kept.as_str()).width() >= width.max(1) {
        kept.pop();
    }
    if width > 0 {
        kept.push(more);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_width() {
        for (text, width, kept) in
            [("short", 5, "short"), ("longer", 5, "long~"), ("x", 0, ""), ("漢字漢字", 5, "漢字~")]
        {
            assert_eq!(cut(text, width, '~'), kept);
        }
    }

    #[test]
    fn columns_stay_where_they_are() {
        let mut row = TextRow::new();
        row.left("name", 8, TextRole::Plain).right("7", 4, TextRole::Plain).left(
            "a\x1b[2J",
            9,
            TextRole::Plain,
        );
        let text = row.line(Face::plain()).to_string();
        assert_eq!(text, "name       7a?[2J    ");
    }
}
