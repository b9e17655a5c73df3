//! The answer of a node to a request: the JSON report of `check --for`, by whichever version of memwright.

use crate::asking::{json, line};
use serde::{Deserialize, Serialize};

/// Outcome of a query, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeVerdict {
    Yes,
    Slowly,
    Unknown,
    No,
    /// The node did not answer, or not what was asked.
    Failed,
}

impl NodeVerdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Slowly => "slowly",
            Self::Unknown => "unknown",
            Self::No => "no",
            Self::Failed => "failed",
        }
    }
}

/// Fields that are read of a node's report.
#[derive(Deserialize)]
struct NodeReport {
    memwright: Option<String>,
    preflight: Option<NodePreflight>,
}

#[derive(Deserialize)]
struct NodePreflight {
    answer: String,
    #[serde(default)]
    summary: String,
    time: Option<NodeTime>,
}

#[derive(Deserialize)]
struct NodeTime {
    high_ms: Option<f64>,
}

/// A node's answer.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct NodeAnswer {
    /// The node.
    pub node: String,
    /// Its verdict.
    pub verdict: NodeVerdict,
    /// The time that the node predicts, in milliseconds, at most.
    pub time_ms: Option<f64>,
    /// Memory that the node can give by its metrics, in bytes; absent without a server of metrics.
    pub by_metrics_bytes: Option<u64>,
    /// Its answer in one line, or why there is none.
    pub text: String,
}

/// Reads what a node has printed on standard output; the answer has no name yet.
pub(crate) fn read(output: &[u8]) -> Result<NodeAnswer, String> {
    let report: NodeReport = json(output, "unexpected output, not a memwright report")?;
    let said = report.preflight.and_then(|preflight| {
        let verdict = match preflight.answer.as_str() {
            "yes" => NodeVerdict::Yes,
            "slowly" => NodeVerdict::Slowly,
            "no" => NodeVerdict::No,
            "unknown" => NodeVerdict::Unknown,
            _ => return None,
        };
        Some((verdict, preflight))
    });
    let Some((verdict, preflight)) = said else {
        let version = report.memwright.unwrap_or_else(|| "an unknown version".to_owned());
        return Err(format!("no answer to the request; memwright there is {version}"));
    };
    Ok(NodeAnswer {
        node: String::new(),
        verdict,
        time_ms: preflight.time.and_then(|time| time.high_ms),
        by_metrics_bytes: None,
        text: line(&preflight.summary),
    })
}

/// The answer of a node that has not answered.
pub(crate) fn failed(node: &str, why: &str) -> NodeAnswer {
    NodeAnswer {
        node: node.to_owned(),
        verdict: NodeVerdict::Failed,
        time_ms: None,
        by_metrics_bytes: None,
        text: why.to_owned(),
    }
}

/// The best first: by verdict, then by the time, then by what they have by their metrics, then by name.
pub(crate) fn sort(answers: &mut [NodeAnswer]) {
    answers.sort_by(|a, b| {
        let time = |answer: &NodeAnswer| answer.time_ms.unwrap_or(f64::INFINITY);
        let by_verdict = a.verdict.cmp(&b.verdict);
        by_verdict
            .then(time(a).total_cmp(&time(b)))
            .then(b.by_metrics_bytes.cmp(&a.by_metrics_bytes))
            .then_with(|| a.node.cmp(&b.node))
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn report(answer: &str, time: &str) -> String {
        format!(
            r#"{{"memwright":"0.1.0","preflight":{{"answer":"{answer}","summary":"s","time":{time}}}}}"#
        )
    }

    #[test]
    fn answers_are_sorted_the_best_first() {
        let answer = |node: &str, verdict: &str, time: &str| NodeAnswer {
            node: node.to_owned(),
            ..read(report(verdict, time).as_bytes()).unwrap()
        };
        let mut answers = vec![
            failed("a", "no route to host"),
            answer("b", "no", "null"),
            answer("c", "yes", r#"{"high_ms":200.0}"#),
            answer("d", "unknown", "null"),
            answer("e", "yes", r#"{"high_ms":90.0}"#),
            answer("f", "slowly", r#"{"high_ms":9.0}"#),
            answer("g", "yes", "null"),
        ];
        sort(&mut answers);
        let order: String = answers.iter().map(|answer| answer.node.as_str()).collect();
        assert_eq!(order, "ecgfdba");
    }

    #[test]
    fn what_is_no_answer_says_what_it_is() {
        assert!(
            read(b"bash: memwright: command not found")
                .unwrap_err()
                .contains("not a memwright report")
        );
        let old = read(br#"{"memwright":"0.0.9","preflight":null}"#).unwrap_err();
        assert!(old.contains("memwright there is 0.0.9"), "{old}");
        assert!(read(b"{}").unwrap_err().contains("unknown version"));
    }
}
