//! An incident may come from a damaged file or another program: whatever it says, it is explained
//! without a panic.

use crate::stalls::{self, Stall};
use mw_model::Incident;
use mw_rules::explain;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The numbers that a damaged incident has.
const NUMBERS: [u64; 6] = [0, 1, 100, u32::MAX as u64, i64::MAX as u64, u64::MAX];

/// Changes the value at this place of a tree, counted depth first; what is left of the count.
fn change(value: &mut Value, place: usize, to: u64) -> Option<usize> {
    let Some(mut place) = place.checked_sub(1) else {
        match value {
            Value::Number(_) => *value = json!(to),
            Value::String(text) => text.clear(),
            Value::Array(items) => items.truncate(items.len() / 2),
            Value::Object(fields) => fields.clear(),
            Value::Bool(_) | Value::Null => {}
        }
        return None;
    };
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        place = change(child, place, to)?;
    }
    Some(place)
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Promise (The recorder): A damaged incident is explained without a panic, and the data that a rule lacks is
    /// reported.
    #[test]
    fn a_damaged_incident_is_explained_without_a_panic(
        which in any::<prop::sample::Index>(),
        places in prop::collection::vec((any::<prop::sample::Index>(), 0..NUMBERS.len()), 1..8),
        worst_ms in prop::num::f64::ANY,
    ) {
        static STALLS: LazyLock<Vec<Stall>> = LazyLock::new(stalls::of_memory);
        let mut made = which.get(&STALLS[..]).made.clone();
        let mut tree = serde_json::to_value(&made.incident).unwrap();
        for (place, number) in places {
            // The table's values are most of the tree: numbers of its own are few.
            let places = size(&tree);
            change(&mut tree, place.index(places), NUMBERS[number]);
        }
        if let Ok(damaged) = serde_json::from_value::<Incident>(tree) {
            made.incident = damaged;
        }
        made.incident.trigger.worst_ms = worst_ms;
        for calm in [made.calm.as_ref(), None] {
            let mut incident = made.incident.clone();
            explain(&mut incident, &made.window, calm);
            prop_assert!(!incident.verdict.is_empty());
            prop_assert!(incident.causes.iter().all(|cause| cause.confidence_percent <= 100));
        }
    }
}
