//! Values that are written as on the command line.

use serde::{Deserialize, Deserializer, de};
use std::fmt::Display;

/// Reads a value that is written as on the command line, by what reads it there.
pub(super) fn as_argument<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(from)?;
    read(&text).map(Some).map_err(de::Error::custom)
}

pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    as_argument(from, mw_model::parse_size)
}
