//! The report of all runs: a summary line, then a table; as text, as Markdown, and as JSON by its
//! fields.

mod figures;
pub mod logs;
mod markdown;
mod rounds;
mod stalls;
mod summary;
mod text;

use serde::Serialize;

use crate::runner::CaseRun;

pub use figures::short;
pub use summary::{Tally, outcome_word};

/// The version of the JSON form of [`LabReport`]; it is raised when a consumer could break.
pub const SCHEMA_VERSION: u32 = 2;

#[derive(Debug, Clone, Serialize)]
pub struct LabReport {
    pub schema: u32,
    /// The version of memwright that was tested.
    pub memwright: String,
    /// One line: how many cases passed, and which failed.
    pub summary: String,
    pub runs: Vec<CaseRun>,
}

impl LabReport {
    pub fn new(memwright: &str, runs: Vec<CaseRun>) -> LabReport {
        let summary = summary::line(&runs);
        LabReport { schema: SCHEMA_VERSION, memwright: memwright.to_owned(), summary, runs }
    }

    pub fn text(&self) -> String {
        text::render(&self.summary, &self.runs)
    }

    /// For pages: eval/results/lab.md is one.
    pub fn markdown(&self) -> String {
        let is_watched = self.runs.iter().any(|run| run.stall.is_some());
        let body = match is_watched {
            true => stalls::table(&self.runs),
            false => markdown::render(&self.runs),
        };
        format!("{}.\n\n{}", self.summary, body.trim_start())
    }
}

#[cfg(test)]
mod tests;
