//! The output that Kubernetes' node-problem-detector reads from a custom plugin: one line, of which it keeps 80 bytes
//! (`max_output_length`). An exit status of 0 is OK, 1 is a problem, and any other is unknown.

use mw_model::{Answer, Report, visible};
use std::fmt::Display;

const MAX_BYTES: usize = 80;
const CUT: &str = "...";

pub fn report(report: &Report) -> String {
    let refused = report.preflight.as_ref().filter(|p| p.answer == Answer::No);
    let text = match (refused, report.findings.first()) {
        (Some(preflight), _) => preflight.summary.clone(),
        (None, Some(worst)) if !report.is_unknown() => {
            format!("{}: {}", worst.rule, worst.headline)
        }
        (None, _) => report.verdict.clone(),
    };
    line(&text)
}

/// The output where there is no report.
pub fn unknown(why: &dyn Display) -> String {
    line(&why.to_string())
}

fn line(text: &str) -> String {
    let mut line = visible::line(text).to_string();
    if line.len() > MAX_BYTES {
        let end = (0..=MAX_BYTES - CUT.len()).rev().find(|at| line.is_char_boundary(*at));
        line.truncate(end.unwrap_or(0));
        line.push_str(CUT);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_at_most_eighty_bytes() {
        assert_eq!(unknown(&"short"), "short\n");
        for text in ["x".repeat(81), "\u{e4}".repeat(60), "\u{1F600}".repeat(40)] {
            let line = unknown(&text);
            assert!(line.len() <= MAX_BYTES + 1 && line.ends_with("...\n"), "{line}");
        }
        assert_eq!(unknown(&"a\nb").matches('\n').count(), 1);
    }
}
