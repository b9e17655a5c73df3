//! Shapes and text, and how wide text is.

use svg::node::element::Element;
use svg::node::{Node, Text};

/// Apart for colour-blind readers (Okabe and Ito), without the yellow that white paper swallows.
pub(super) const COLOURS: [&str; 7] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000"];
pub(super) const INK: &str = "#222222";
pub(super) const MUTED: &str = "#666666";
pub(super) const GRID: &str = "#dddddd";
pub(super) const PAPER: &str = "#ffffff";

/// The plot's width in pixels.
pub(super) const WIDTH: f64 = 900.0;
pub(super) const MARGIN: f64 = 20.0;
/// The size of text in pixels.
pub(super) const TEXT: f64 = 13.0;
/// The size of ticks and footnotes.
pub(super) const SMALL: f64 = 12.0;
const TITLE: f64 = 17.0;
/// From a line of text to the next, in its size.
const LEADING: f64 = 1.4;
/// Characters of a paragraph.
const MOST_TEXT: usize = 1000;

/// Anchor of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TextStyle {
    pub(super) size: f64,
    pub(super) colour: &'static str,
    pub(super) bold: bool,
}

impl TextStyle {
    pub(super) const PLAIN: Self = Self { size: TEXT, colour: INK, bold: false };
    pub(super) const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    pub(super) const SMALL: Self = Self { size: SMALL, colour: MUTED, bold: false };
    const TITLE: Self = Self { size: TITLE, ..Self::BOLD };

    pub(super) fn width(self, text: &str) -> f64 {
        self.widened(text.chars().map(em).sum())
    }

    /// A width in the text's size, in pixels.
    fn widened(self, em: f64) -> f64 {
        em * self.size * if self.bold { 1.12 } else { 1.0 }
    }

    /// As much of the text as there is room for, on one line.
    pub(super) fn fit(self, text: &str, room: f64) -> String {
        let text = printable(text);
        if self.width(&text) <= room {
            return text;
        }
        let mut left = room - self.width("…");
        let fits = |character: &char| {
            left -= self.width(character.encode_utf8(&mut [0; 4]));
            left >= 0.0
        };
        let start: String = text.chars().take_while(fits).collect();
        start.trim_end().to_owned() + "…"
    }
}

/// The width of a character, in the text's size, in DejaVu Sans: the widest of the usual faces.
fn em(character: char) -> f64 {
    match character {
        ' ' | '!' | '\'' | ',' | '.' | ':' | ';' | 'I' | 'i' | 'j' | 'l' | '|' => 0.34,
        '(' | ')' | '-' | '/' | '[' | ']' | 'f' | 'r' | 't' => 0.41,
        '%' | '@' | 'M' | 'W' | 'm' => 0.99,
        '#' | '+' | '<' | '=' | '>' | 'w' | '~' | '×' => 0.84,
        '&' | 'A'..='Z' => 0.75,
        '\0'..='\u{2ff}' => 0.64,
        '\u{300}'..='\u{10ff}' => 0.8,
        _ => 1.0,
    }
}

/// The text without what XML does not allow, bounded.
fn printable(text: &str) -> String {
    let allowed = |character: char| match character {
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        character if character.is_control() => ' ',
        character => character,
    };
    text.chars().take(MOST_TEXT).map(allowed).collect()
}

/// A plot that is being drawn, what comes last on top.
pub(super) struct Canvas {
    shapes: Vec<Element>,
    title: String,
}

impl Canvas {
    /// Starts with the title; returns the height that it took too.
    pub(super) fn new(title: &str) -> (Self, f64) {
        let mut canvas = Self { shapes: Vec::new(), title: printable(title) };
        let bottom = canvas.paragraph(title, MARGIN, TextStyle::TITLE);
        (canvas, bottom)
    }

    /// A paragraph across the plot; returns where it ends.
    fn paragraph(&mut self, text: &str, top: f64, font: TextStyle) -> f64 {
        const USUAL_EM: f64 = 0.6;
        let room = WIDTH - 2.0 * MARGIN;
        let columns = (room / font.widened(USUAL_EM)) as usize;
        let mut bottom = top;
        for line in textwrap::wrap(printable(text).trim(), columns) {
            let line = font.fit(&line, room);
            self.text(&line, (MARGIN, bottom + font.size), Anchor::Start, font);
            bottom += font.size * LEADING;
        }
        bottom
    }

    fn add(&mut self, name: &str, attributes: &[(&str, f64)]) -> Option<&mut Element> {
        let mut shape = Element::new(name);
        for (attribute, value) in attributes {
            shape.assign(*attribute, tenth(*value));
        }
        self.shapes.push(shape);
        self.shapes.last_mut()
    }

    /// Text on its base line.
    pub(super) fn text(&mut self, text: &str, (x, y): (f64, f64), anchor: Anchor, font: TextStyle) {
        let Some(shape) = self.add("text", &[("x", x), ("y", y), ("font-size", font.size)]) else {
            return;
        };
        shape.assign("fill", font.colour);
        if font.bold {
            shape.assign("font-weight", "bold");
        }
        match anchor {
            Anchor::Start => {}
            Anchor::Middle => shape.assign("text-anchor", "middle"),
            Anchor::End => shape.assign("text-anchor", "end"),
        }
        shape.append(Text::new(printable(text)));
    }

    /// Text that is read over lines and areas.
    pub(super) fn text_over(
        &mut self,
        text: &str,
        at: (f64, f64),
        anchor: Anchor,
        font: TextStyle,
    ) {
        self.text(text, at, anchor, font);
        if let Some(shape) = self.shapes.last_mut() {
            shape.assign("stroke", PAPER);
            shape.assign("stroke-width", 3);
            shape.assign("stroke-linejoin", "round");
            shape.assign("paint-order", "stroke");
        }
    }

    pub(super) fn area(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        let size = [("x", x), ("y", y), ("width", width.max(0.0)), ("height", height.max(0.0))];
        if let Some(shape) = self.add("rect", &size) {
            shape.assign("fill", fill);
            // Neighbours touch without a seam.
            shape.assign("shape-rendering", "crispEdges");
        }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), (colour, width): (&str, f64)) {
        let ends = [("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)];
        if let Some(shape) = self.add("line", &ends) {
            shape.assign("stroke", colour);
            shape.assign("stroke-width", width);
        }
    }

    /// Makes dashes of what was drawn last.
    pub(super) fn dashed(&mut self) {
        if let Some(shape) = self.shapes.last_mut() {
            shape.assign("stroke-dasharray", "5 3");
        }
    }

    pub(super) fn curve(&mut self, points: &[(f64, f64)], (colour, width): (&str, f64)) {
        let point = |(x, y): &(f64, f64)| format!("{},{}", tenth(*x), tenth(*y));
        let points: Vec<String> = points.iter().map(point).collect();
        if let Some(shape) = self.add("polyline", &[("stroke-width", width)]) {
            shape.assign("points", points.join(" "));
            shape.assign("fill", "none");
            shape.assign("stroke", colour);
            shape.assign("stroke-linejoin", "round");
        }
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        if let Some(shape) = self.add("circle", &[("cx", x), ("cy", y), ("r", 2.5)]) {
            shape.assign("fill", colour);
        }
    }

    pub(super) fn finish(mut self, footnote: &[String], mut bottom: f64) -> String {
        for paragraph in footnote {
            bottom = self.paragraph(paragraph, bottom, TextStyle::SMALL);
        }
        let height = (bottom + MARGIN).ceil();
        let mut root = Element::new("svg");
        root.assign("xmlns", "http://www.w3.org/2000/svg");
        root.assign("viewBox", (0.0, 0.0, WIDTH, height));
        root.assign("width", WIDTH);
        root.assign("height", height);
        root.assign("role", "img");
        root.assign("font-family", "Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif");
        let mut title = Element::new("title");
        title.append(Text::new(self.title));
        root.append(title);
        let mut paper = Element::new("rect");
        paper.assign("width", WIDTH);
        paper.assign("height", height);
        paper.assign("fill", PAPER);
        root.append(paper);
        for shape in self.shapes {
            root.append(shape);
        }
        format!("{root}\n")
    }
}

/// A tenth of a pixel is exact enough, and keeps the file small; never a negative zero.
fn tenth(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0 + 0.0
}
