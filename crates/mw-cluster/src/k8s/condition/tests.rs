use super::*;
use proptest::prelude::*;

/// Reply of a kube-apiserver 1.37.2 about a node.
const NODE: &str = include_str!("node.json");

const NOW: &str = "2026-11-25T17:00:00Z";

fn of_fixture(name: &str) -> Vec<PublishedCondition> {
    let source = mw_collect::input::open(&mw_test::fixture(name)).unwrap();
    conditions(&mw_rules::check(&mw_collect::window(&source), None))
}

#[test]
fn a_fragmented_node_has_one_condition_that_is_true() {
    let sick = of_fixture("fragmented-node/firing");
    let states: Vec<_> = sick.iter().map(|condition| (condition.name, condition.status)).collect();
    assert_eq!(
        states,
        [
            ("MemoryFragmented", ConditionStatus::True),
            ("HugePagesUnavailable", ConditionStatus::False),
            ("MemoryStalling", ConditionStatus::False),
        ]
    );
    assert_eq!(sick[0].reason, "FragmentedNode");
    assert!(sick[0].message.starts_with("fragmented-node: "), "{}", sick[0].message);
    let healthy = of_fixture("healthy/debian-6.1");
    assert!(
        healthy.iter().all(|condition| condition.status == ConditionStatus::False),
        "{healthy:?}"
    );
}

#[test]
fn a_status_that_stays_keeps_its_time() {
    let known = KnownConditions::of(serde_json::from_str(NODE).unwrap());
    let of = NodeCondition::MemoryFragmented;
    let time = |status| {
        let patch = patch(&[PublishedCondition::new(of, status, "Reason", "text")], &known, NOW);
        let condition = &patch["status"]["conditions"][0];
        assert_eq!(condition["lastHeartbeatTime"], NOW);
        condition["lastTransitionTime"].as_str().unwrap().to_owned()
    };
    assert_eq!(time(ConditionStatus::True), "2026-11-25T16:38:31Z");
    assert_eq!(time(ConditionStatus::False), NOW);
}

#[test]
fn a_new_size_in_a_message_is_no_change() {
    let of = NodeCondition::MemoryFragmented;
    let condition = |reason, text| PublishedCondition::new(of, ConditionStatus::True, reason, text);
    let before = condition("FragmentedNode", "85% of the free memory");
    assert!(before.is_as(&condition("FragmentedNode", "86% of the free memory")));
    assert!(!before.is_as(&condition("Other", "85% of the free memory")));
    assert!(!before.is_as(&PublishedCondition::unknown(of, "85% of the free memory")));
}

#[test]
fn a_message_is_one_bounded_line() {
    let text = "\u{e4}\n".repeat(2000);
    let condition = PublishedCondition::unknown(NodeCondition::MemoryStalling, &text);
    assert!(condition.message.len() <= MAX_MESSAGE_BYTES && !condition.message.contains('\n'));
}

#[test]
fn conditions_of_others_take_no_memory() {
    let other = r#"{"type":"Other","status":"True","lastTransitionTime":"t","x":[{},{}]},"#;
    let ours = r#"{"type":"MemoryFragmented","status":"True","lastTransitionTime":"then"}"#;
    let others = other.repeat((4 << 20) / other.len());
    let node = format!(r#"{{"status":{{"conditions":[{others}{ours}]}}}}"#);
    let known = KnownConditions::of(serde_json::from_str(&node).unwrap());
    let kept = ("True".to_owned(), "then".to_owned());
    assert_eq!(known.0, BTreeMap::from([("MemoryFragmented", kept)]));
    for empty in ["{}", r#"{"status":null}"#, r#"{"status":{"conditions":null}}"#] {
        assert_eq!(
            KnownConditions::of(serde_json::from_str(empty).unwrap()),
            KnownConditions::default()
        );
    }
}

proptest! {
    #[test]
    fn any_answer_is_taken(at in 0..NODE.len(), text in "[\\[\\]{}\",:a-z0-9]{0,40}") {
        let mut node = NODE.to_owned();
        if node.is_char_boundary(at) {
            node.insert_str(at, &text);
        }
        if let Ok(node) = serde_json::from_str(&node) {
            let known = KnownConditions::of(node);
            let patch = patch(&all_unknown("why"), &known, NOW);
            prop_assert_eq!(patch["status"]["conditions"].as_array().map(Vec::len), Some(3));
        }
    }
}
