//! The chart and `memwright k8s condition` against Kubernetes' own API server, etcd and Helm, built from their Go
//! modules. There is no kubelet: the node and the pod are objects, and the pod's program is run here with the pod's token.

mod build;
mod commands;
mod server;

use crate::lab;
use crate::workspace::root;
use anyhow::{Context, ensure};
use commands::{checked, said};
use serde_json::{Value, json};
use server::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAMESPACE: &str = "memwright";
/// Of the release: account, roles and policy have its name.
const RELEASE: &str = "memwright";
const OWN_NODE: &str = "n1";
const OTHER_NODE: &str = "n2";

pub(crate) fn run(program: Option<PathBuf>) -> anyhow::Result<()> {
    let program = program.map_or_else(lab::build, Ok)?.canonicalize()?;
    let bin = build::all()?;
    let server = Server::start(&bin)?;
    install_chart(&bin.join("helm"), &server)?;
    println!("helm lint and install: passed");
    for node in [OWN_NODE, OTHER_NODE] {
        let object = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } });
        server.post("/api/v1/nodes", &object)?;
    }
    let token = token_of_pod(&server)?;
    conditions(&program, &server, &token).context("conditions of its own node")?;
    println!("conditions of its own node: set, kept, changed and removed");
    limits(&program, &server, &token).context("limits of the pod")?;
    println!("another node, the object itself, and the rest of its status: refused");
    Ok(())
}

/// Lints the chart with every option, and installs it.
fn install_chart(helm: &Path, server: &Server) -> anyhow::Result<()> {
    let chart = root().join("packaging/kubernetes/chart");
    let helm = |args: &[&str]| {
        let mut command = Command::new(helm);
        command.args(args).arg("--kubeconfig").arg(server.kubeconfig());
        checked(&mut command)
    };
    let chart = chart.to_str().context("the path is not UTF-8")?;
    helm(&["lint", "--strict", chart])?;
    helm(&["lint", "--strict", chart, "--set", "readinessRule.enabled=true"])?;
    helm(&["install", RELEASE, chart, "--namespace", NAMESPACE, "--create-namespace"])?;
    Ok(())
}

/// A token that the kubelet would mount into the pod on its node: it names both.
fn token_of_pod(server: &Server) -> anyhow::Result<String> {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "memwright-x", "namespace": NAMESPACE },
        "spec": {
            "nodeName": OWN_NODE,
            "serviceAccountName": RELEASE,
            "containers": [{ "name": "condition", "image": "memwright" }],
        },
    });
    let pod = server.post(&format!("/api/v1/namespaces/{NAMESPACE}/pods"), &pod)?;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {
            "audiences": [],
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "memwright-x",
                "uid": pod["metadata"]["uid"],
            },
        },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{RELEASE}/token");
    let token = server.post(&path, &request)?["status"]["token"].as_str().map(str::to_owned);
    token.context("no token")
}

/// Runs `memwright k8s condition` as the pod would.
fn condition(program: &Path, server: &Server, node: &str, args: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(program);
    command.args(["k8s", "condition", "--node", node, "--api-server", server.url()]);
    command.arg("--token-file").arg(server.file("token"));
    command.arg("--ca-file").arg(server.ca_file());
    command.args(args).output().context("memwright")
}

/// State of a condition of its own node in the API server.
fn of_node(server: &Server, name: &str) -> anyhow::Result<Value> {
    let node = server.get(&format!("/api/v1/nodes/{OWN_NODE}"))?;
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    Ok(conditions.into_iter().find(|condition| condition["type"] == name).unwrap_or_default())
}

fn conditions(program: &Path, server: &Server, token: &str) -> anyhow::Result<()> {
    std::fs::write(server.file("token"), token)?;
    // What the kubelet reports stays.
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    server.patch(&format!("/api/v1/nodes/{OWN_NODE}/status"), &ready)?;
    let fixture = |name: &str| mw_test::fixture(name).display().to_string();
    let expect = |tree: &str, code, status: &str| -> anyhow::Result<Value> {
        let ended = condition(program, server, OWN_NODE, &["--root", &fixture(tree)])?;
        ensure!(ended.status.code() == Some(code), "{tree}: {}", said(&ended));
        let condition = of_node(server, "MemoryFragmented")?;
        ensure!(condition["status"] == status, "{tree}: {condition}");
        Ok(condition)
    };
    let first = expect("fragmented-node/firing", 1, "True")?;
    ensure!(first["reason"] == "FragmentedNode", "{first}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let second = expect("fragmented-node/firing", 1, "True")?;
    let times = |key: &str| (first[key].clone(), second[key].clone());
    let (begun, still) = times("lastTransitionTime");
    let (before, after) = times("lastHeartbeatTime");
    ensure!(begun == still && before != after, "{first}\n{second}");
    let third = expect("healthy/debian-6.1", 0, "False")?;
    ensure!(third["lastTransitionTime"] != begun, "{third}");
    ensure!(of_node(server, "Ready")?["status"] == "True", "the kubelet's condition is lost");
    let removed = condition(program, server, OWN_NODE, &["--remove"])?;
    ensure!(removed.status.success(), "{}", said(&removed));
    ensure!(of_node(server, "MemoryFragmented")?.is_null(), "not removed");
    ensure!(of_node(server, "Ready")?["status"] == "True", "the kubelet's condition is removed");
    Ok(())
}

fn limits(program: &Path, server: &Server, token: &str) -> anyhow::Result<()> {
    let tree = mw_test::fixture("healthy/debian-6.1").display().to_string();
    let other = condition(program, server, OTHER_NODE, &["--root", &tree])?;
    let text = said(&other);
    ensure!(other.status.code() == Some(3) && text.contains("and of no other"), "{text}");
    let path = format!("/api/v1/nodes/{OWN_NODE}");
    let refused = server.refuses(token, "DELETE", &path, None)?;
    ensure!(refused["code"] == 403, "deleted: {refused}");
    let taint = json!({ "spec": { "unschedulable": true } });
    let refused = server.refuses(token, "PATCH", &path, Some(&taint))?;
    ensure!(refused["code"] == 403, "changed: {refused}");
    status_of_others(server, token)?;
    std::fs::write(server.file("token"), "x")?;
    let text = said(&condition(program, server, OWN_NODE, &["--root", &tree])?);
    ensure!(text.contains("HTTP 401") && text.contains("--token-file"), "{text}");
    let unknown = server.get("/api/v1/nodes/n3");
    ensure!(unknown.is_err(), "a node that nobody made");
    Ok(())
}

/// Fields of its own node that a stolen token must not change, although it may patch the status.
fn status_of_others(server: &Server, token: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/nodes/{OWN_NODE}/status");
    let condition = |kind: &str, message: &str| json!({ "status": { "conditions": [{ "type": kind, "status": "True", "reason": "X", "message": message }] } });
    let refused = [
        (json!({ "metadata": { "labels": { "a": "b" } } }), "metadata"),
        (json!({ "metadata": { "annotations": { "a": "b" } } }), "metadata"),
        (
            json!({ "status": { "capacity": { "example.com/x": "9" } } }),
            "nothing else of its status",
        ),
        (
            json!({ "status": { "addresses": [{ "type": "Hostname", "address": "x" }] } }),
            "nothing else",
        ),
        (condition("Ready", ""), "those of nobody else"),
        (condition("DiskPressure", ""), "those of nobody else"),
        (condition("MemoryStalling", &"x".repeat(2000)), "1024 characters"),
    ];
    for (patch, why) in refused {
        let answer = server.refuses(token, "PATCH", &path, Some(&patch))?;
        let message = answer["message"].as_str().unwrap_or_default();
        ensure!(answer["kind"] == "Status" && message.contains(why), "{patch}: {answer}");
    }
    let own = condition("MemoryStalling", "x");
    let answer = server.refuses(token, "PATCH", &path, Some(&own))?;
    ensure!(answer["kind"] == "Node", "{own}: {answer}");
    let removal =
        json!({ "status": { "conditions": [{ "$patch": "delete", "type": "MemoryStalling" }] } });
    server.patch(&path, &removal)?;
    Ok(())
}
