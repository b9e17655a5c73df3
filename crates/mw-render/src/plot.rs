//! Plots as SVG: stacked bars for benchmarks, lines over time for what the lab saw.
//!
//! The same input makes the same bytes. Text stays text, the background is white whatever is
//! behind it, and colour-blind readers can distinguish the colours (Okabe and Ito). Fonts are the
//! viewer's, so that room is kept for the widest of the usual ones. Nothing is too absurd to be
//! handed in: what cannot be drawn is an error that names it.
//!
//! ```
//! use mw_render::plot::{Bar, Bars, Mark, BarOutcome, Spread, bars};
//!
//! let svg = bars(&Bars {
//!     title: "Creating, locking and destroying 1 GiB".into(),
//!     axis: "ms/GiB".into(),
//!     parts: vec!["create".into(), "lock".into(), "destroy".into()],
//!     rows: vec![Bar {
//!         name: "memwright 2M, 2 threads".into(),
//!         outcome: BarOutcome::Measured {
//!             parts: vec![35.0, 0.1, 2.0],
//!             total: Spread { median: 37.0, min: 35.5, max: 41.0 },
//!             ratio: Some(12.5),
//!         },
//!     }],
//!     marks: vec![Mark { name: "upper bound: zeroing only".into(), at: 30.0 }],
//!     footnote: vec!["2 CPUs, kernel 6.18, 5 rounds".into()],
//! })?;
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), mw_render::plot::PlotError>(())
//! ```
//!
//! ```
//! use mw_render::plot::{Lines, Panel, Series, PlotSpan, Tone, lines};
//!
//! let panel = |heading: &str, name: &str, points: &[(f64, f64)]| Panel {
//!     heading: heading.into(),
//!     series: vec![Series { name: name.into(), points: points.to_vec() }],
//! };
//! let svg = lines(&Lines {
//!     title: "Too low a watermark".into(),
//!     panels: vec![
//!         panel("throughput, GiB/s", "service", &[(0.0, 2.1), (1.0, 0.4), (2.0, 2.0)]),
//!         panel("memory, GiB", "available", &[(0.0, 9.0), (1.0, f64::NAN), (2.0, 8.0)]),
//!     ],
//!     spans: vec![PlotSpan { name: "fixed".into(), from_s: 1.5, to_s: 2.0, tone: Tone::Good }],
//!     footnote: vec![],
//! })?;
//! assert!(svg.starts_with("<svg"));
//! # Ok::<(), mw_render::plot::PlotError>(())
//! ```

mod axis;
mod bars;
mod bench;
mod canvas;
mod lines;
#[cfg(test)]
mod tests;

pub use bars::bars;
pub use bench::bench;
pub use lines::lines;
pub use mw_model::BenchSpread as Spread;

/// Rows of a plot of bars.
pub const MOST_ROWS: usize = 200;
/// Parts of a bar: one for each colour.
pub const MOST_PARTS: usize = canvas::COLOURS.len();
/// Marks across the bars.
pub const MOST_MARKS: usize = 8;
/// Panels below each other.
pub const MOST_PANELS: usize = 4;
/// Series of a panel: what has room for a name beside it.
pub const MOST_SERIES: usize = 12;
/// Points of a series; what falls on one pixel is thinned out.
pub const MOST_POINTS: usize = 1 << 20;
/// Phases and moments of a plot of lines.
pub const MOST_SPANS: usize = 24;
/// Values beyond it, either way, are not measurements.
pub const LARGEST: f64 = 1e18;

/// The reason that there is no plot.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// No row, or no series with a value.
    #[error("there is nothing to plot")]
    Empty,
    /// Not a number, beyond [`LARGEST`], or a negative length.
    #[error("{name}: {value} cannot be plotted")]
    Value {
        /// The row, mark, series or span.
        name: String,
        value: f64,
    },
    /// A row whose parts are not those of the plot.
    #[error("{name} has {parts} parts where the plot has {wanted}")]
    Parts { name: String, parts: usize, wanted: usize },
    #[error("{count} {what} are too many to plot; {most} fit")]
    TooMany {
        what: &'static str,
        count: usize,
        /// Maximum number of values.
        most: usize,
    },
}

/// Horizontal bars, one below the other, each stacked from the same parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    pub title: String,
    /// Quantity of the axis, with its unit.
    pub axis: String,
    /// The names of the parts, from left to right.
    pub parts: Vec<String>,
    /// The bars, from top to bottom.
    pub rows: Vec<Bar>,
    /// Vertical lines across the bars.
    pub marks: Vec<Mark>,
    /// Paragraphs below: the machine, its kernel, the rounds.
    pub footnote: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub name: String,
    pub outcome: BarOutcome,
}

/// Outcome of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum BarOutcome {
    Measured {
        /// The length of each part.
        parts: Vec<f64>,
        /// All parts together. Medians of parts need not add up to the median of sums: the bar is
        /// as long as its parts, the number at its end and the whisker are of these.
        total: Spread,
        /// Speed, as a multiple of that of the baseline.
        ratio: Option<f64>,
    },
    /// It could not be measured, and why.
    Missing(String),
}

/// The value that all bars are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub name: String,
    pub at: f64,
}

/// Lines over time, in panels that share the time axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lines {
    pub title: String,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
    /// Phases and moments, across all panels.
    pub spans: Vec<PlotSpan>,
    /// Paragraphs below.
    pub footnote: Vec<String>,
}

/// Series that share a vertical axis, which includes zero.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// Quantity of the axis, with its unit.
    pub heading: String,
    pub series: Vec<Series>,
}

/// Values over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The text at its end.
    pub name: String,
    /// Seconds and values, in any order; a value that is not finite was not seen and leaves a gap.
    pub points: Vec<(f64, f64)>,
}

/// A phase, or a moment where both ends are the same.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotSpan {
    pub name: String,
    /// Start, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    pub tone: Tone,
}

/// Kind of a phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Bad,
    Good,
}

/// Holds a count against its limit.
fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), PlotError> {
    if count > most { Err(PlotError::TooMany { what, count, most }) } else { Ok(()) }
}

/// Holds a value against what can be drawn.
fn drawable(name: &str, value: f64, least: f64) -> Result<(), PlotError> {
    if (least..=LARGEST).contains(&value) {
        return Ok(());
    }
    Err(PlotError::Value { name: name.to_owned(), value })
}
