//! Turns a report into what people and programs read, one file a format.
//!
//! Every format leads with the answer. Nothing here decides anything: severity, verdict and
//! remedies come with the report.

#[cfg(feature = "html")]
pub mod html;
pub mod json;
pub mod nagios;
pub mod plot;
pub mod profile;
pub mod text;
pub mod trace_event;
#[cfg(feature = "tui")]
pub mod tui;
mod visible;
