//! Stacked bars.

use super::axis::{AxisScale, figure, levels};
use super::canvas::{Anchor, COLOURS, Canvas, GRID, INK, MARGIN, MUTED, PAPER, TextStyle, WIDTH};
use super::{
    Bar, BarOutcome, Bars, MOST_MARKS, MOST_PARTS, MOST_ROWS, Mark, PlotError, Spread, at_most,
    drawable,
};

/// From a bar to the next.
const PITCH: f64 = 27.0;
const THICKNESS: f64 = 17.0;
/// The widest a name may be.
const WIDEST_NAME: f64 = 330.0;
const LABEL_LINE: f64 = 18.0;
/// Between a shape and its text.
const GAP: f64 = 8.0;
const TICKS: f64 = 6.0;
const SPEEDUP: &str = "speed-up";

/// Draws stacked bars.
///
/// # Errors
///
/// Without a row, with a value that cannot be drawn, and with more than fits.
pub fn bars(bars: &Bars) -> Result<String, PlotError> {
    check(bars)?;
    let (mut canvas, below_title) = Canvas::new(&bars.title);
    let below_legend = legend(&mut canvas, &bars.parts, below_title + GAP);
    let plot = Plot::new(bars, below_legend + GAP);
    plot.axis(&mut canvas, &bars.axis);
    for (number, row) in (0_u32..).zip(&bars.rows) {
        plot.name(&mut canvas, number, &row.name);
        if let BarOutcome::Measured { parts, total, .. } = &row.outcome {
            plot.parts(&mut canvas, number, parts, total.median);
        }
    }
    plot.marks(&mut canvas, &bars.marks);
    for (number, row) in (0_u32..).zip(&bars.rows) {
        match &row.outcome {
            BarOutcome::Measured { total, ratio, .. } => {
                plot.total(&mut canvas, number, total);
                plot.ratio(&mut canvas, number, *ratio);
            }
            BarOutcome::Missing(why) => plot.missing(&mut canvas, number, why),
        }
    }
    Ok(canvas.finish(&bars.footnote, plot.bottom + 4.0 * GAP + LABEL_LINE))
}

fn check(bars: &Bars) -> Result<(), PlotError> {
    if bars.rows.is_empty() {
        return Err(PlotError::Empty);
    }
    at_most("rows", bars.rows.len(), MOST_ROWS)?;
    at_most("parts", bars.parts.len(), MOST_PARTS)?;
    at_most("marks", bars.marks.len(), MOST_MARKS)?;
    bars.rows.iter().try_for_each(|row| check_row(row, bars.parts.len()))?;
    bars.marks.iter().try_for_each(|mark| drawable(&mark.name, mark.at, 0.0))
}

fn check_row(row: &Bar, wanted: usize) -> Result<(), PlotError> {
    let BarOutcome::Measured { parts, total, .. } = &row.outcome else { return Ok(()) };
    if parts.len() != wanted {
        return Err(PlotError::Parts { name: row.name.clone(), parts: parts.len(), wanted });
    }
    let ends = [total.median, total.min, total.max];
    parts.iter().chain(&ends).try_for_each(|value| drawable(&row.name, *value, 0.0))
}

/// Ends of a bar and its whisker.
fn end(total: &Spread) -> f64 {
    total.max.max(total.median)
}

/// The colours of the parts; returns where it ends.
fn legend(canvas: &mut Canvas, parts: &[String], top: f64) -> f64 {
    const SQUARE: f64 = 12.0;
    let mut left = MARGIN;
    let room = (WIDTH - 2.0 * MARGIN) / parts.len().max(1) as f64 - SQUARE - 4.0 * GAP;
    for (part, colour) in parts.iter().zip(COLOURS) {
        let part = TextStyle::PLAIN.fit(part, room);
        canvas.area((left, top + 1.0), (SQUARE, SQUARE), colour);
        canvas.text(&part, (left + SQUARE + GAP, top + SQUARE), Anchor::Start, TextStyle::PLAIN);
        left += SQUARE + TextStyle::PLAIN.width(&part) + 4.0 * GAP;
    }
    if parts.is_empty() { top } else { top + LABEL_LINE }
}

struct Plot {
    scale: AxisScale,
    left: f64,
    /// The end of the room for bars and the numbers behind them.
    right: f64,
    top: f64,
    bottom: f64,
    labels: Vec<MarkLabel>,
    /// True if there is a speed-up.
    ratios: bool,
}

/// A mark's text, above the bars.
struct MarkLabel {
    text: String,
    middle: f64,
    y: f64,
}

impl Plot {
    fn new(bars: &Bars, top: f64) -> Self {
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let names = widest(&mut bars.rows.iter().map(|row| TextStyle::PLAIN.width(&row.name)));
        let left = MARGIN + names.min(WIDEST_NAME) + GAP;
        let (totals, ratios): (Vec<String>, Vec<String>) =
            bars.rows.iter().filter_map(texts).unzip();
        let column = widest(&mut ratios.iter().map(|text| TextStyle::BOLD.width(text)));
        let ratios = column > 0.0;
        let column =
            if ratios { column.max(TextStyle::SMALL.width(SPEEDUP)) + 2.0 * GAP } else { column };
        let right = WIDTH - MARGIN - column;
        let numbers = widest(&mut totals.iter().map(|text| TextStyle::PLAIN.width(text)));
        let ends = bars.rows.iter().filter_map(|row| match &row.outcome {
            BarOutcome::Measured { total, .. } => Some(end(total)),
            BarOutcome::Missing(_) => None,
        });
        let longest = widest(&mut ends.chain(bars.marks.iter().map(|mark| mark.at)));
        let scale = AxisScale::exact((0.0, longest), (left, right - numbers - 2.0 * GAP), TICKS);
        let labels = labels(&bars.marks, &scale, (left, right), top);
        let lines = labels.iter().map(|label| label.y).fold(top, f64::max);
        let top = lines.max(top + if ratios { LABEL_LINE } else { 0.0 }) + GAP;
        let bottom = top + PITCH * bars.rows.len() as f64;
        Self { scale, left, right, top, bottom, labels, ratios }
    }

    /// The middle of a row.
    fn middle(&self, row: u32) -> f64 {
        self.top + PITCH * (f64::from(row) + 0.5)
    }

    /// The base line of a row's text.
    fn base(&self, row: u32) -> f64 {
        self.middle(row) + 4.5
    }

    fn axis(&self, canvas: &mut Canvas, name: &str) {
        for (x, text) in self.scale.ticks() {
            canvas.line((x, self.top), (x, self.bottom), (GRID, 1.0));
            canvas.text(&text, (x, self.bottom + 2.0 * GAP), Anchor::Middle, TextStyle::SMALL);
        }
        canvas.line((self.left, self.top), (self.left, self.bottom), (MUTED, 1.0));
        let name = TextStyle::SMALL.fit(name, self.right - self.left);
        let at = (self.left, self.bottom + 2.0 * GAP + LABEL_LINE);
        canvas.text(&name, at, Anchor::Start, TextStyle::SMALL);
        if self.ratios {
            let at = (WIDTH - MARGIN, self.top - GAP);
            canvas.text(SPEEDUP, at, Anchor::End, TextStyle::SMALL);
        }
    }

    fn name(&self, canvas: &mut Canvas, row: u32, name: &str) {
        let name = TextStyle::PLAIN.fit(name, WIDEST_NAME);
        canvas.text(&name, (self.left - GAP, self.base(row)), Anchor::End, TextStyle::PLAIN);
    }

    /// The parts of a row, as shares of its total: medians of parts do not add up to the median of
    /// the total, and a bar must be as long as its number says.
    fn parts(&self, canvas: &mut Canvas, row: u32, parts: &[f64], total: f64) {
        let (mut from, top) = (0.0, self.middle(row) - THICKNESS / 2.0);
        let sum: f64 = parts.iter().sum();
        let share = if sum > 0.0 { total / sum } else { 0.0 };
        for (part, colour) in parts.iter().map(|part| part * share).zip(COLOURS) {
            let (left, right) = (self.scale.at(from), self.scale.at(from + part));
            canvas.area((left, top), (right - left, THICKNESS), colour);
            from += part;
        }
    }

    fn missing(&self, canvas: &mut Canvas, row: u32, why: &str) {
        let why = TextStyle::SMALL.fit(why, self.right - self.left - GAP);
        let at = (self.left + GAP, self.base(row));
        canvas.text_over(&why, at, Anchor::Start, TextStyle::SMALL);
    }

    fn marks(&self, canvas: &mut Canvas, marks: &[Mark]) {
        for (mark, label) in marks.iter().zip(&self.labels) {
            let x = self.scale.at(mark.at);
            canvas.line((x, label.y + 4.0), (x, self.bottom), (PAPER, 2.5));
            canvas.line((x, label.y + 4.0), (x, self.bottom), (INK, 1.5));
            canvas.dashed();
        }
        for label in &self.labels {
            canvas.text_over(
                &label.text,
                (label.middle, label.y),
                Anchor::Middle,
                TextStyle::PLAIN,
            );
        }
    }

    /// The whisker and the number.
    fn total(&self, canvas: &mut Canvas, row: u32, total: &Spread) {
        const CAP: f64 = 4.0;
        let y = self.middle(row);
        let (min, max) = (self.scale.at(total.min), self.scale.at(total.max));
        if max > min {
            for pen in [(PAPER, 3.5), (INK, 1.5)] {
                canvas.line((min, y), (max, y), pen);
                canvas.line((min, y - CAP), (min, y + CAP), pen);
                canvas.line((max, y - CAP), (max, y + CAP), pen);
            }
        }
        let at = (self.scale.at(end(total)) + GAP, self.base(row));
        canvas.text_over(&figure(total.median), at, Anchor::Start, TextStyle::PLAIN);
    }

    fn ratio(&self, canvas: &mut Canvas, row: u32, ratio: Option<f64>) {
        let Some(text) = ratio_text(ratio) else { return };
        let right = WIDTH - MARGIN;
        canvas.text(&text, (right, self.base(row)), Anchor::End, TextStyle::BOLD);
    }
}

/// The number and the speed-up of a row.
fn texts(row: &Bar) -> Option<(String, String)> {
    match &row.outcome {
        BarOutcome::Measured { total, ratio, .. } => {
            Some((figure(total.median), ratio_text(*ratio).unwrap_or_default()))
        }
        BarOutcome::Missing(_) => None,
    }
}

/// A speed-up against nothing is none.
fn ratio_text(ratio: Option<f64>) -> Option<String> {
    let ratio = ratio.filter(|ratio| ratio.is_finite())?;
    Some(if ratio.abs() < 1e4 { format!("{ratio:.1}×") } else { format!("{ratio:.1e}×") })
}

/// Each mark's text and its place, on as many lines as it takes.
fn labels(
    marks: &[Mark],
    scale: &AxisScale,
    (left, right): (f64, f64),
    top: f64,
) -> Vec<MarkLabel> {
    let text = |mark: &Mark| {
        TextStyle::PLAIN.fit(&format!("{} {}", mark.name, figure(mark.at)), (right - left) / 2.0)
    };
    let texts: Vec<String> = marks.iter().map(text).collect();
    let range = |(mark, text): (&Mark, &String)| {
        let half = TextStyle::PLAIN.width(text) / 2.0;
        let middle = scale.at(mark.at).max(left + half).min(right - half);
        (middle - half - GAP, middle + half + GAP)
    };
    let ranges: Vec<(f64, f64)> = marks.iter().zip(&texts).map(range).collect();
    let places = levels(&ranges).into_iter().zip(&ranges).zip(texts);
    places
        .map(|((level, range), text)| MarkLabel {
            text,
            middle: f64::midpoint(range.0, range.1),
            y: top + LABEL_LINE * (level as f64 + 1.0),
        })
        .collect()
}
