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

/// Status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl ConditionStatus {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition as it is sent to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedCondition {
    pub name: &'static str,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
}

impl PublishedCondition {
    fn new(of: NodeCondition, status: ConditionStatus, reason: &str, message: &str) -> Self {
        let mut message = visible::line(message).to_string();
        let end = (0..=MAX_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or(0));
        Self { name: of.name(), status, reason: reason.to_owned(), message }
    }

    fn unknown(of: NodeCondition, why: &str) -> Self {
        Self::new(of, ConditionStatus::Unknown, NOT_CHECKED, why)
    }

    /// True if what others act on is the same; sizes in a message change all the time.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        (self.name, self.status, &self.reason) == (other.name, other.status, &other.reason)
    }
}

/// Result of a check.
#[must_use]
pub fn conditions(report: &Report) -> Vec<PublishedCondition> {
    let condition = |of: &NodeCondition| match of.state(report) {
        ConditionState::True(finding) => {
            let reason = find(&finding.rule).map_or(String::new(), mw_rules::Rule::camel_case);
            let message = format!("{}: {}", finding.rule, finding.headline);
            PublishedCondition::new(*of, ConditionStatus::True, &reason, &message)
        }
        ConditionState::False => {
            let (reason, message) = of.fine();
            PublishedCondition::new(*of, ConditionStatus::False, reason, message)
        }
        ConditionState::Unknown(why) => PublishedCondition::unknown(*of, &why),
    };
    NodeCondition::ALL.iter().map(condition).collect()
}

/// Conditions of a node that could not be checked at all.
#[must_use]
pub fn all_unknown(why: &str) -> Vec<PublishedCondition> {
    NodeCondition::ALL.iter().map(|of| PublishedCondition::unknown(*of, why)).collect()
}

/// Fields that are read of a Node object, of which the rest may be of any size.
#[derive(Debug, Default, Deserialize)]
pub(super) struct NodeObject {
    #[serde(default)]
    status: Option<NodeStatus>,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    conditions: KnownConditions,
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

/// Status and time of the last transition of memwright's conditions, by type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownConditions(BTreeMap<&'static str, (String, String)>);

impl<'de> Deserialize<'de> for KnownConditions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ConditionVisitor)
    }
}

/// Goes through the conditions of a node, which may be of everybody, and keeps memwright's.
struct ConditionVisitor;

impl<'de> Visitor<'de> for ConditionVisitor {
    type Value = KnownConditions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("conditions")
    }

    fn visit_unit<E>(self) -> Result<KnownConditions, E> {
        Ok(KnownConditions::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<KnownConditions, A::Error> {
        let mut known = KnownConditions::default();
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

impl KnownConditions {
    /// Takes the conditions of a Node object.
    pub(super) fn of(node: NodeObject) -> Self {
        node.status.map(|status| status.conditions).unwrap_or_default()
    }

    /// Time since which the condition has this status.
    fn since<'a>(&'a self, condition: &PublishedCondition, now: &'a str) -> &'a str {
        match self.0.get(condition.name) {
            Some((status, since)) if status == condition.status.name() => since,
            _ => now,
        }
    }
}

/// Sets the conditions. `now` is in RFC 3339.
#[must_use]
pub fn patch(conditions: &[PublishedCondition], known: &KnownConditions, now: &str) -> Value {
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
#[must_use]
pub fn removal() -> Value {
    let list = NodeCondition::ALL.map(|of| json!({ "$patch": "delete", "type": of.name() }));
    json!({ "status": { "conditions": list } })
}

#[cfg(test)]
#[path = "condition/tests.rs"]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
