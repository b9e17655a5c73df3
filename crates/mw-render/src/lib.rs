//! Turns a report into what people and programs read, one file a format.
//!
//! Every format leads with the answer. Nothing here decides anything: severity, verdict and
//! remedies come with the report.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(feature = "html")]
pub mod html;
mod incident_words;
pub mod json;
pub mod nagios;
pub mod npd;
mod path_words;
pub mod plot;
pub mod preflight_words;
pub mod profile;
pub mod room_words;
pub mod text;
pub mod trace_event;
mod visible;

pub use incident_words::badge;
