//! The conditions of a node, and the patch that sets them. A strategic merge patch changes those of the named types alone:
//! conditions of the kubelet and of others stay.

use mw_model::{Report, visible};
use mw_rules::{ConditionState, NodeCondition, find};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

const MAX_MESSAGE_BYTES: usize = 512;

/// The reason where a condition could not be decided.
const NOT_CHECKED: &str = "MemoryNotChecked";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    True,
    False,
    Unknown,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) name: &'static str,
    pub(super) status: Status,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Condition {
    fn new(of: NodeCondition, status: Status, reason: &str, message: &str) -> Self {
        let mut message = visible::line(message).to_string();
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or(0));
        Self { name: of.name(), status, reason: reason.to_owned(), message }
    }

    fn unknown(of: NodeCondition, why: &str) -> Self {
        Self::new(of, Status::Unknown, NOT_CHECKED, why)
    }

    /// True if what others act on is the same; sizes in a message change all the time.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (self.name, self.status, &self.reason) == (other.name, other.status, &other.reason)
    }
}

/// Result of a check.
pub(super) fn conditions(report: &Report) -> Vec<Condition> {
    let condition = |of: &NodeCondition| match of.state(report) {
        ConditionState::True(finding) => {
            let reason = find(&finding.rule).map_or(String::new(), mw_rules::Rule::camel_case);
            let message = format!("{}: {}", finding.rule, finding.headline);
            Condition::new(*of, Status::True, &reason, &message)
        }
        ConditionState::False => {
            let (reason, message) = of.fine();
            Condition::new(*of, Status::False, reason, message)
        }
        ConditionState::Unknown(why) => Condition::unknown(*of, &why),
    };
    NodeCondition::ALL.iter().map(condition).collect()
}

/// Of a node that could not be checked at all.
pub(super) fn all_unknown(why: &str) -> Vec<Condition> {
    NodeCondition::ALL.iter().map(|of| Condition::unknown(*of, why)).collect()
}

/// Fields that are read of a Node object, of which the rest may be of any size.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Node {
    #[serde(default)]
    status: Option<NodeStatus>,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    conditions: Known,
}

/// A condition of a node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyCondition<'a> {
    #[serde(borrow, rename = "type")]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    #[serde(borrow)]
    last_transition_time: Option<Cow<'a, str>>,
}

/// Since when memwright's conditions have the status that they have: by type, status and time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Known(BTreeMap<&'static str, (String, String)>);

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Conditions)
    }
}

/// Goes through the conditions of a node, which may be of everybody, and keeps memwright's.
struct Conditions;

impl<'de> Visitor<'de> for Conditions {
    type Value = Known;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("conditions")
    }

    fn visit_unit<E>(self) -> Result<Known, E> {
        Ok(Known::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Known, A::Error> {
        let mut known = Known::default();
        while let Some(condition) = list.next_element::<AnyCondition<'de>>()? {
            let name = condition.name.unwrap_or_default();
            let of = NodeCondition::ALL.iter().find(|of| of.name() == name);
            if let (Some(of), Some(status), Some(since)) =
                (of, condition.status, condition.last_transition_time)
            {
                known.0.insert(of.name(), (status.into_owned(), since.into_owned()));
            }
        }
        Ok(known)
    }
}

impl Known {
    /// Those of a Node object.
    pub(super) fn of(node: Node) -> Self {
        node.status.map(|status| status.conditions).unwrap_or_default()
    }

    /// Since when the condition has this status.
    fn since<'a>(&'a self, condition: &Condition, now: &'a str) -> &'a str {
        match self.0.get(condition.name) {
            Some((status, since)) if status == condition.status.name() => since,
            _ => now,
        }
    }
}

/// Sets the conditions. `now` is in RFC 3339.
pub(super) fn patch(conditions: &[Condition], known: &Known, now: &str) -> Value {
    let list = conditions.iter().map(|condition| {
        json!({
            "type": condition.name,
            "status": condition.status.name(),
            "reason": condition.reason,
            "message": condition.message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": known.since(condition, now),
        })
    });
    json!({ "status": { "conditions": list.collect::<Vec<_>>() } })
}

/// Removes them.
pub(super) fn removal() -> Value {
    let list = NodeCondition::ALL.map(|of| json!({ "$patch": "delete", "type": of.name() }));
    json!({ "status": { "conditions": list } })
}

#[cfg(test)]
#[path = "condition/tests.rs"]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
