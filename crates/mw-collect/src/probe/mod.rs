//! Active checks: they do something and time it.

pub mod calibrate;
