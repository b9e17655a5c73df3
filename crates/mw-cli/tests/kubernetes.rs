//! The configuration of node-problem-detector: its commands, run as it runs them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_collect::input;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn config(name: &str) -> Value {
    let path = root().join("packaging/kubernetes").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Output and exit code of a rule's command, of a node that is in the state of a fixture.
fn run(rule: &Value, fixture: &str) -> (Option<i32>, String) {
    let tree = mw_test::fixture(fixture).display().to_string();
    let given = rule["args"].as_array().unwrap().iter().map(text);
    let at_once = given.map(|arg| match arg {
        "/host" => tree.as_str(),
        "3m" => "0s",
        other => other,
    });
    let args: Vec<&str> = at_once.collect();
    let ended = Command::new(env!("CARGO_BIN_EXE_memwright")).args(&args).output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stdout).unwrap())
}

/// What its rules find with a warning is no condition: a pod is not moved for it.
///
/// Promise (Metrics): A condition of a Kubernetes node is true in its captured state and false in others.
#[test]
fn a_condition_is_true_in_its_state_alone() {
    let config = config("memwright-monitor.json");
    let most =
        usize::try_from(config["pluginConfig"]["max_output_length"].as_u64().unwrap()).unwrap();
    let conditions = config["conditions"].as_array().unwrap();
    let rules = config["rules"].as_array().unwrap();
    assert!(rules.len() >= conditions.len());
    for rule in rules {
        let id = text(rule["args"].as_array().unwrap().last().unwrap());
        assert!(conditions.iter().any(|condition| condition["type"] == rule["condition"]), "{id}");
        let (code, said) = run(rule, &format!("{id}/firing"));
        assert!(said.trim_end().len() <= most, "{id}: {said}");
        let archive = mw_test::fixture(&format!("{id}/firing"));
        let expected = input::open(&archive).unwrap().read("/expect.txt").unwrap();
        let expected = String::from_utf8(expected).unwrap();
        let is_critical = expected.contains(&format!("critical {id}:"));
        assert_eq!(code, Some(i32::from(is_critical)), "{id}: {said}");
        let other = if id == "zone-reclaim" { "swap-thrash" } else { "zone-reclaim" };
        for fixture in ["healthy/debian-6.1".to_owned(), format!("{other}/firing")] {
            assert_eq!(run(rule, &fixture).0, Some(0), "{id} in {fixture}");
        }
    }
}

/// As the kernel writes them. A pattern must match the line to its end.
#[test]
fn the_kernels_lines_are_recognized() {
    let rules = config("memwright-kernel-log.json");
    let reason = |line: &str| {
        let rules = rules["rules"].as_array().unwrap().iter();
        let matching = |rule: &&Value| {
            regex::Regex::new(&format!("{}$", text(&rule["pattern"]))).unwrap().is_match(line)
        };
        rules.clone().find(matching).map(|rule| text(&rule["reason"]).to_owned())
    };
    let failure = "java: page allocation failure: order:4, mode:0xcc0(GFP_KERNEL), nodemask=(null)";
    let short =
        "HugeTLB: allocating 512 of page size 2.00 MiB failed.  Only allocated 97 hugepages.";
    assert_eq!(reason(failure).as_deref(), Some("PageAllocationFailure"));
    assert_eq!(reason(short).as_deref(), Some("HugePageAllocationShort"));
    assert_eq!(reason("Memory: 2019620K/2096632K available"), None);
}

fn packaged(path: &str) -> String {
    std::fs::read_to_string(root().join("packaging/kubernetes").join(path)).unwrap()
}

/// A token that was stolen changes these conditions and nothing else.
///
/// Promise (Fixing): A pod's token can change the three conditions of its own node alone; the container's user is its
/// own.
#[test]
fn the_admission_policy_is_about_the_conditions_that_are_set() {
    let policy = packaged("chart/templates/own-node.yaml");
    let line = policy.lines().skip_while(|line| line.trim() != "- name: types").nth(1).unwrap();
    let listed: Vec<&str> = line.split('\'').skip(1).step_by(2).collect();
    let patch = ["k8s", "condition", "--remove", "--dry-run", "--node", "n1"];
    let ended = Command::new(env!("CARGO_BIN_EXE_memwright")).args(patch).output().unwrap();
    let patch: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let set = patch["status"]["conditions"].as_array().unwrap().iter();
    assert_eq!(listed, set.map(|condition| text(&condition["type"])).collect::<Vec<_>>());
    for part in
        ["dyn(object.metadata).all(", "variables.status.all(", "variables.conditions.filter("]
    {
        assert!(policy.contains(part), "{part}");
    }
}

/// With the /proc of the node it could read what other containers of its user have.
#[test]
fn the_container_has_a_user_of_its_own() {
    let values = packaged("chart/values.yaml");
    let user = values.lines().find_map(|line| line.strip_prefix("runAsUser: ")).unwrap();
    let number: u32 = user.parse().unwrap();
    // Neither one of a distribution, nor the first ones of images, nor nobody.
    assert!((20_000..60_000).contains(&number), "{number}");
    assert!(packaged("Containerfile").contains(&format!("\nUSER {user}:{user}\n")));
    let pod = packaged("chart/templates/daemonset.yaml");
    for line in ["runAsUser: {{ .Values.runAsUser }}", "runAsGroup: {{ .Values.runAsUser }}"] {
        assert!(pod.contains(line), "{line}");
    }
}
