//! In which format a command prints, said the same way by every command.

use clap::{Args as ClapArgs, ValueEnum};

/// Output formats of a command; every command has JSON.
pub trait Formats: ValueEnum + Copy + Send + Sync + 'static {
    const DEFAULT: Self;
    /// The format that `--json` selects.
    const JSON: Self;
}

/// Options that choose a format.
#[derive(Debug, Clone, ClapArgs)]
pub struct FormatArgs<F: Formats> {
    /// Output format
    #[arg(long, value_enum, default_value_t = F::DEFAULT)]
    format: F,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl<F: Formats> Default for FormatArgs<F> {
    fn default() -> Self {
        Self { format: F::DEFAULT, json: false }
    }
}

impl<F: Formats> FormatArgs<F> {
    pub fn chosen(&self) -> F {
        if self.json { F::JSON } else { self.format }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people
    Text,
    /// For programs
    Json,
}

impl Formats for TextOrJson {
    const DEFAULT: Self = Self::Text;
    const JSON: Self = Self::Json;
}

impl FormatArgs<TextOrJson> {
    pub fn is_json(&self) -> bool {
        self.chosen() == TextOrJson::Json
    }
}
