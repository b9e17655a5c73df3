//! Turns a report into what people and programs read, one file a format.
//!
//! Every format leads with the answer. Nothing here decides anything: severity, verdict and
//! remedies come with the report.

pub mod json;
pub mod nagios;
pub mod plot;
pub mod text;
