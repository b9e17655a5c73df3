//! Lines over time.

use super::axis::{AxisScale, apart, levels};
use super::canvas::{Anchor, COLOURS, Canvas, GRID, INK, MARGIN, MUTED, TEXT, TextStyle, WIDTH};
use super::{
    LARGEST, Lines, MOST_PANELS, MOST_POINTS, MOST_SERIES, MOST_SPANS, Panel, PlotError, PlotSpan,
    Series, Tone, at_most, drawable,
};

const HEIGHT: f64 = 200.0;
/// The widest a name may be.
const WIDEST_NAME: f64 = 240.0;
const LABEL_LINE: f64 = 18.0;
/// Between a shape and its text.
const GAP: f64 = 8.0;
/// The line before a name.
const SWATCH: f64 = 16.0;
const PEN: f64 = 1.8;
const TICKS: f64 = 8.0;
const PANEL_TICKS: f64 = 5.0;

/// Draws lines over time.
///
/// # Errors
///
/// Without a value, with one that cannot be drawn, and with more than fits.
pub fn lines(lines: &Lines) -> Result<String, PlotError> {
    check(lines)?;
    let frame = PlotFrame::new(lines)?;
    let (mut canvas, below_title) = Canvas::new(&lines.title);
    let labels = labels(&lines.spans, &frame);
    let levels = labels.iter().map(|label| label.level + 1).max().unwrap_or(0);
    let mut heading = below_title + LABEL_LINE + GAP / 2.0;
    let mut top = heading + LABEL_LINE * levels as f64 + 1.5 * GAP;
    for label in &labels {
        let y = top - 0.75 * GAP - LABEL_LINE * label.level as f64;
        canvas.text(&label.text, (label.middle, y), Anchor::Middle, TextStyle::PLAIN);
    }
    let mut bottom = top;
    for panel in &lines.panels {
        canvas.text(
            &TextStyle::BOLD.fit(&panel.heading, WIDTH - 2.0 * MARGIN),
            (MARGIN, heading),
            Anchor::Start,
            TextStyle::BOLD,
        );
        bottom = top + HEIGHT;
        frame.spans(&mut canvas, &lines.spans, (top, bottom));
        frame.panel(&mut canvas, panel, (top, bottom));
        frame.moments(&mut canvas, &lines.spans, (top, bottom));
        heading = bottom + LABEL_LINE + GAP;
        top = heading + 1.5 * GAP;
    }
    for (x, text) in frame.time.ticks() {
        canvas.text(&text, (x, bottom + 2.0 * GAP), Anchor::Middle, TextStyle::SMALL);
    }
    let at = (frame.right, bottom + 2.0 * GAP + LABEL_LINE);
    canvas.text("time (s)", at, Anchor::End, TextStyle::SMALL);
    Ok(canvas.finish(&lines.footnote, bottom + 4.0 * GAP + LABEL_LINE))
}

fn check(lines: &Lines) -> Result<(), PlotError> {
    at_most("panels", lines.panels.len(), MOST_PANELS)?;
    at_most("spans", lines.spans.len(), MOST_SPANS)?;
    for span in &lines.spans {
        drawable(&span.name, span.from_s, -LARGEST)?;
        drawable(&span.name, span.to_s, -LARGEST)?;
    }
    for panel in &lines.panels {
        at_most("series", panel.series.len(), MOST_SERIES)?;
        panel.series.iter().try_for_each(check_series)?;
    }
    Ok(())
}

fn check_series(series: &Series) -> Result<(), PlotError> {
    at_most("points", series.points.len(), MOST_POINTS)?;
    series.points.iter().try_for_each(|(time, value)| {
        drawable(&series.name, *time, -LARGEST)?;
        if value.is_finite() { drawable(&series.name, *value, -LARGEST) } else { Ok(()) }
    })
}

/// The least and the most of some values.
fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn seen(series: &Series) -> impl Iterator<Item = (f64, f64)> {
    series.points.iter().copied().filter(|(_, value)| value.is_finite())
}

/// The vertical axis of a panel.
fn vertical(panel: &Panel, pixels: (f64, f64)) -> AxisScale {
    let values = panel.series.iter().flat_map(seen).map(|(_, value)| value);
    AxisScale::rounded(ends(values.chain([0.0])).unwrap_or_default(), pixels, PANEL_TICKS)
}

struct PlotFrame {
    time: AxisScale,
    left: f64,
    right: f64,
}

impl PlotFrame {
    fn new(lines: &Lines) -> Result<Self, PlotError> {
        let series = || lines.panels.iter().flat_map(|panel| &panel.series);
        if series().flat_map(seen).next().is_none() {
            return Err(PlotError::Empty);
        }
        let points = series().flat_map(|series| &series.points).map(|(time, _)| *time);
        let spans = lines.spans.iter().flat_map(|span| [span.from_s, span.to_s]);
        let times = ends(points.chain(spans)).ok_or(PlotError::Empty)?;
        let names = series().map(|series| TextStyle::PLAIN.width(&label(series)));
        let names = names.fold(0.0, f64::max).min(WIDEST_NAME);
        let ticks = lines.panels.iter().flat_map(|panel| vertical(panel, (0.0, 1.0)).ticks());
        let ticks = ticks.map(|(_, text)| TextStyle::SMALL.width(&text)).fold(0.0, f64::max);
        let (left, right) = (MARGIN + ticks + GAP, WIDTH - MARGIN - names - SWATCH - 2.0 * GAP);
        Ok(Self { time: AxisScale::exact(times, (left, right), TICKS), left, right })
    }

    /// Horizontal extent of a span.
    fn span(&self, span: &PlotSpan) -> (f64, f64) {
        let (from, to) = (self.time.at(span.from_s), self.time.at(span.to_s));
        (from.min(to), from.max(to))
    }

    fn panel(&self, canvas: &mut Canvas, panel: &Panel, (top, bottom): (f64, f64)) {
        let scale = vertical(panel, (bottom, top));
        for (x, _) in self.time.ticks() {
            canvas.line((x, top), (x, bottom), (GRID, 1.0));
        }
        for (y, text) in scale.ticks() {
            canvas.line((self.left, y), (self.right, y), (GRID, 1.0));
            canvas.text(&text, (self.left - GAP, y + 4.0), Anchor::End, TextStyle::SMALL);
        }
        let zero = scale.at(0.0);
        canvas.line((self.left, zero), (self.right, zero), (MUTED, 1.0));
        for (number, series) in panel.series.iter().enumerate() {
            self.series(canvas, series, &scale, LineStyle::new(number));
        }
        self.names(canvas, &panel.series, &scale, (top, bottom));
    }

    fn spans(&self, canvas: &mut Canvas, spans: &[PlotSpan], (top, bottom): (f64, f64)) {
        for span in spans {
            let (from, to) = self.span(span);
            let fill = match span.tone {
                Tone::Plain => "#f0f0f0",
                Tone::Bad => "#fbe6d9",
                Tone::Good => "#ddf1ea",
            };
            canvas.area((from, top), (to - from, bottom - top), fill);
        }
    }

    fn moments(&self, canvas: &mut Canvas, spans: &[PlotSpan], (top, bottom): (f64, f64)) {
        for span in spans.iter().filter(|span| span.from_s == span.to_s) {
            let (x, _) = self.span(span);
            canvas.line((x, top), (x, bottom), (INK, 1.5));
            canvas.dashed();
        }
    }

    fn series(&self, canvas: &mut Canvas, series: &Series, scale: &AxisScale, style: LineStyle) {
        let mut points = series.points.clone();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        for run in points.split(|(_, value)| !value.is_finite()) {
            let pixels = run.iter().map(|(time, value)| (self.time.at(*time), scale.at(*value)));
            let pixels = thinned(&pixels.collect::<Vec<_>>());
            match pixels.as_slice() {
                [] => {}
                [point] => canvas.dot(*point, style.colour),
                points => {
                    canvas.curve(points, (style.colour, PEN));
                    style.finish(canvas);
                }
            }
        }
    }

    /// The names beside the last values.
    fn names(&self, canvas: &mut Canvas, series: &[Series], scale: &AxisScale, panel: (f64, f64)) {
        let last = |series: &Series| {
            let last = seen(series).max_by(|a, b| a.0.total_cmp(&b.0));
            scale.at(last.map_or(0.0, |(_, value)| value))
        };
        let mut order: Vec<(f64, usize)> =
            series.iter().enumerate().map(|(number, series)| (last(series), number)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut heights: Vec<f64> = order.iter().map(|(y, _)| *y).collect();
        apart(&mut heights, TEXT * 1.25, panel);
        for (y, (_, number)) in heights.into_iter().zip(order) {
            let Some(series) = series.get(number) else { continue };
            let (style, start) = (LineStyle::new(number), self.right + GAP);
            canvas.line((start, y), (start + SWATCH, y), (style.colour, 2.0 * PEN));
            style.finish(canvas);
            let name = TextStyle::PLAIN.fit(&label(series), WIDEST_NAME);
            canvas.text(&name, (start + SWATCH + GAP, y + 4.5), Anchor::Start, TextStyle::PLAIN);
        }
    }
}

/// A series' name; one that was never seen says so.
fn label(series: &Series) -> String {
    let unseen = if seen(series).next().is_none() { " (no data)" } else { "" };
    format!("{}{unseen}", series.name)
}

/// Line style of a series: when the colours are used up, with dashes.
#[derive(Clone, Copy)]
struct LineStyle {
    colour: &'static str,
    dashes: bool,
}

impl LineStyle {
    fn new(number: usize) -> Self {
        let colour = COLOURS.iter().cycle().nth(number).copied().unwrap_or(INK);
        Self { colour, dashes: number >= COLOURS.len() }
    }

    fn finish(self, canvas: &mut Canvas) {
        if self.dashes {
            canvas.dashed();
        }
    }
}

/// Of the points in a column of pixels the first, the lowest, the highest and the last.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let heights = || column.iter().enumerate();
        let by_height =
            |a: &(usize, &(f64, f64)), b: &(usize, &(f64, f64))| f64::total_cmp(&a.1.1, &b.1.1);
        let ends = [heights().min_by(by_height), heights().max_by(by_height)];
        let mut numbers: Vec<usize> =
            ends.into_iter().flatten().map(|(number, _)| number).collect();
        numbers.extend([0, column.len() - 1]);
        numbers.sort_unstable();
        numbers.dedup();
        kept.extend(numbers.into_iter().filter_map(|number| column.get(number)));
    }
    kept
}

/// A span's text, above the panels.
struct SpanLabel {
    text: String,
    middle: f64,
    level: usize,
}

fn labels(spans: &[PlotSpan], frame: &PlotFrame) -> Vec<SpanLabel> {
    let font = TextStyle::PLAIN;
    let texts: Vec<String> =
        spans.iter().map(|span| font.fit(&span.name, frame.right - frame.left)).collect();
    let range = |(span, text): (&PlotSpan, &String)| {
        let (from, to) = frame.span(span);
        let half = font.width(text) / 2.0;
        let middle = f64::midpoint(from, to).min(frame.right - half).max(frame.left + half);
        (middle - half - GAP / 2.0, middle + half + GAP / 2.0)
    };
    let ranges: Vec<(f64, f64)> = spans.iter().zip(&texts).map(range).collect();
    let places = levels(&ranges).into_iter().zip(&ranges).zip(texts);
    places
        .map(|((level, range), text)| SpanLabel {
            text,
            middle: f64::midpoint(range.0, range.1),
            level,
        })
        .collect()
}
