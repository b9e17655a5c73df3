//! `memwright fleet`: nodes that answer, hang, refuse or are older, and a real Prometheus for the short list.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_test::ChildGuard;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Beside builds and other tests everything takes longer.
const PATIENCE: Duration = Duration::from_secs(90);
const GIB: u64 = 1 << 30;

/// Command that runs another on a node: here, all nodes are this machine, and some are ill.
const VIA: &str = r#"#!/bin/sh
node=$1
shift 2
case $node in
gone*) echo "ssh: connect to host $node port 22: No route to host" >&2; exit 255 ;;
hangs*) sleep 1000 ;;
old*) echo '{"memwright":"0.0.9","preflight":null}' ;;
noisy*) yes ;;
greets*) echo "Authorized use only"; exit 1 ;;
odd*) PROGRAM "$@" | sed 's|"/proc/sys/vm/zone_reclaim_mode": "[0-9]*"|"/proc/sys/vm/zone_reclaim_mode": "7"|' ;;
fixed*) case $1 in
  incidents) sed "s/NODE/${node#fixed}/g" DIR/incidents.json ;;
  changes) cat DIR/changes.json ;;
  check) cat DIR/check.json ;;
  esac ;;
stalled*) sed "s/NODE/${node#stalled}/g" DIR/incidents.json ;;
calm*) echo '[]' ;;
*) exec PROGRAM "$@" ;;
esac
"#;

struct Nodes {
    dir: TempDir,
}

impl Nodes {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let script = dir.path().join("via");
        let program = env!("CARGO_BIN_EXE_memwright");
        std::fs::write(
            &script,
            VIA.replace("PROGRAM", program).replace("DIR", &dir.path().display().to_string()),
        )
        .unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn via(&self) -> PathBuf {
        self.dir.path().join("via")
    }

    fn fleet(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.arg("fleet").args(args).arg("--via").arg(self.via()).output().unwrap()
    }

    fn room(&self, args: &[&str]) -> Output {
        self.fleet(&[&["room"], args].concat())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Promise (Fixing): `fleet room` answers in the time of one node and of those that hang, says why each node did not
/// answer, and lists those that can, the best first.
#[test]
fn each_node_has_a_line_and_those_that_do_not_answer_say_why() {
    let set = "n[1-3],gone1,hangs[1-2],old1,noisy1,greets1";
    let start = Instant::now();
    let ended = Nodes::new().room(&["16M", "--nodes", set, "--timeout", "3s"]);
    // Two that hang and one that writes without end, side by side.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{said}{}", text(&ended.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "3 of 9 nodes can provide 16 MiB; 6 did not answer", "{said}");
    assert_eq!(lines.len(), 10, "{said}");
    for (node, part) in [
        ("n1 ", "yes"),
        ("gone1", "No route to host"),
        ("hangs2", "did not end within 3 s; killed"),
        ("old1", "memwright there is 0.0.9"),
        ("noisy1", "did not end within 3 s; killed"),
        ("greets1", "unexpected output, not a memwright report"),
    ] {
        let line = lines.iter().find(|line| line.trim_start().starts_with(node));
        assert!(line.is_some_and(|line| line.contains(part)), "{node}: {said}");
    }
}

#[test]
fn a_request_that_nobody_can_provide_is_said_so() {
    let nodes = Nodes::new();
    let ended = nodes.room(&["9000G", "--nodes", "n[1-2]"]);
    assert_eq!(ended.status.code(), Some(1));
    let said = text(&ended.stdout);
    assert!(said.starts_with("0 of 2 nodes can provide 8.8 TiB\n"), "{said}");
    let json = nodes.room(&["9000G", "--nodes", "n[1-2]", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&json["schema"], &json["request"], &json["nodes"]),
        (&1.into(), &"9000G".into(), &2.into())
    );
    assert_eq!(json["answers"][1]["verdict"], "no");
}

#[test]
fn nodes_that_answer_yes_are_a_node_set() {
    let ended = Nodes::new().room(&["16M", "--nodes", "n[08-11],gone1", "--format", "nodeset"]);
    assert_eq!(text(&ended.stdout), "n[08-09],n[10-11]\n");
}

#[test]
fn what_is_wrong_is_said_before_any_node_is_asked() {
    let nodes = Nodes::new();
    let check = |args: &[&str], code: i32, part: &str| {
        let ended = nodes.room(args);
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    };
    check(&["1G"], 2, "--nodes");
    check(&["1G", "--nodes", "n[1-"], 2, "no ']'");
    check(&["1G", "--nodes", "n1;reboot"], 2, "invalid name of a node");
    check(&["1G,huge=3M", "--nodes", "n1"], 2, "invalid page size");
    check(&["1G", "--nodes", "n1", "--jobs", "0"], 2, "--jobs");
    check(&["1G", "--prometheus", "nowhere"], 2, "must begin with https://");
    check(&["1G", "--prometheus", "http://127.0.0.1:1"], 3, "127.0.0.1:1: ");
}

/// A server that answers every request with this.
fn server(answer: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = mw_test::read_request(&client);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    port
}

fn http(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Promise (Fixing): Whatever the server of metrics answers, that is one line and exit code 3.
#[test]
fn a_server_of_metrics_that_answers_something_else_is_one_line() {
    let nodes = Nodes::new();
    let json = "application/json";
    let wrong =
        r#"{"status":"error","errorType":"bad_data","error":"invalid parameter \"query\""}"#;
    let none = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    for (answer, part) in [
        (http("400 Bad Request", json, wrong), "HTTP 400: invalid parameter"),
        (http("200 OK", json, none), "no series of memwright_allocatable_bytes"),
        (http("200 OK", "text/html", "<html>"), "no answer of the API of Prometheus"),
        (http("200 OK", json, "{}"), "no answer of the API of Prometheus"),
        (http("302 Found", json, ""), "HTTP 302"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n{".to_owned(), "1 bytes"),
        ("nonsense".to_owned(), ""),
    ] {
        let url = format!("http://127.0.0.1:{}", server(answer));
        let ended = nodes.room(&["1G", "--prometheus", &url]);
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(3), "{part}: {error}");
        assert!(error.contains(part) && error.lines().count() == 1, "{part}: {error}");
    }
}

/// The URL of a server whose metrics have these names, each with a terabyte.
fn server_of_names(names: &[&str]) -> String {
    let row =
        |name: &&str| serde_json::json!({ "metric": { "instance": name }, "value": [1, "1e12"] });
    let rows: Vec<Value> = names.iter().map(row).collect();
    let data = serde_json::json!({ "resultType": "vector", "result": rows });
    let body = serde_json::json!({ "status": "success", "data": data }).to_string();
    format!("http://127.0.0.1:{}", server(http("200 OK", "application/json", &body)))
}

/// Names from metrics become arguments of ssh, lines, and a node set that `sbatch` or a shell gets.
///
/// Promise (Fixing): A name in metrics that is an option, a set, a command of a shell or several lines reaches
/// neither ssh nor a node set, and is one line.
#[test]
fn a_name_that_is_no_host_is_neither_asked_nor_listed() {
    let names = [
        "-oProxyCommand=touch x:9818",
        "$(touch x)",
        "--exclusive",
        "n[1-100]",
        "n7,n8",
        "@all",
        "n2\nn3  yes      1 TiB",
        "\u{1b}[2Jn4",
    ];
    let all = [&names[..], &["n1:9818"]].concat();
    let room = |args: &[&str]| {
        let url = server_of_names(&all);
        let ended = Nodes::new().room(&[&["16M", "--prometheus", &url], args].concat());
        text(&ended.stdout)
    };
    for args in [&[][..], &["--by-metrics"]] {
        let said = room(args);
        assert_eq!(said.matches("not queried: invalid host name").count(), 8, "{said}");
        assert_eq!(said.lines().count(), 1 + all.len(), "{said}");
        assert!(said.starts_with("1 of 9 nodes ") && !said.contains('\u{1b}'), "{said}");
    }
    assert_eq!(room(&["--format", "nodeset"]), "n1\n");
    assert_eq!(room(&["--format", "nodeset", "--by-metrics"]), "n1\n");
}

/// The formatter panics with a width beyond 65,535.
#[test]
fn a_name_of_any_length_is_a_line() {
    let long = "n".repeat(70_000);
    for args in [&[][..], &["--by-metrics"], &["--format", "nodeset"], &["--json"]] {
        let url = server_of_names(&[&long]);
        let ended = Nodes::new().room(&[&["16M", "--prometheus", &url], args].concat());
        assert_eq!(ended.status.code(), Some(1), "{args:?}: {}", text(&ended.stderr));
        assert!(ended.stdout.len() < 2000, "{args:?}: {} bytes", ended.stdout.len());
    }
    let wide = format!("n[{}1]", "0".repeat(70_000));
    let ended = Nodes::new().room(&["16M", "--nodes", &wide]);
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));
}

/// Whatever the user's configuration of ssh has, a node gets neither the agent nor a port of this machine.
///
/// Promise (Fixing): `fleet` gives a node neither the user's ssh agent nor a port of this machine.
#[test]
fn ssh_forwards_nothing() {
    let dir = TempDir::new().unwrap();
    let ssh = dir.path().join("ssh");
    std::fs::write(&ssh, "#!/bin/sh\necho \"$@\" >&2\n").unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    command.args(["fleet", "room", "16M", "--nodes", "n1"]).env("PATH", path);
    let said = text(&command.output().unwrap().stdout);
    let options = "-o ClearAllForwardings=yes -o ForwardAgent=no -o ForwardX11=no";
    assert!(said.contains(&format!("{options} n1 memwright check --json --for 16M")), "{said}");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Metrics of `nodes` recorders, as one page: node I has I GiB of 2 MiB pages in two halves.
fn page(nodes: u64) -> String {
    let mut page = "# TYPE memwright_allocatable_bytes gauge\n".to_owned();
    for node in 1..=nodes {
        for (numa, size) in [(0, "2M"), (1, "2M"), (0, "4k"), (1, "4k")] {
            let bytes = node * GIB / 2;
            let _ = writeln!(
                page,
                "memwright_allocatable_bytes{{instance=\"n{node:04}:9818\",numa_node=\"{numa}\",page_size=\"{size}\"}} {bytes}"
            );
        }
    }
    page
}

fn prometheus(dir: &Path, target: u16) -> Option<(ChildGuard, u16)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .map(|dir| dir.join("prometheus"))
        .find(|path| path.is_file())?;
    let port = free_port();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: memwright\n  honor_labels: true\n  \
         static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
    );
    std::fs::write(dir.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new(program);
    command.arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data");
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).current_dir(dir);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    Some((ChildGuard(child), port))
}

/// True if Prometheus has scraped all rows.
fn has_rows(port: u16, rows: u64) -> bool {
    let ask = || -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        let query = "count(memwright_allocatable_bytes)";
        write!(stream, "GET /api/v1/query?query={query} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    ask().is_some_and(|answer| answer.contains(&format!("\"{rows}\"")))
}

/// Promise (Fixing): `fleet room --prometheus` asks only nodes that have the memory by their metrics; the nodes
/// decide.
#[test]
fn a_real_prometheus_makes_the_short_list_and_the_nodes_decide() {
    const NODES: u64 = 1000;
    let nodes = Nodes::new();
    let target = server(http("200 OK", "text/plain; version=0.0.4", &page(NODES)));
    let Some((_prometheus, port)) = prometheus(nodes.dir.path(), target) else {
        return mw_test::skip("no Prometheus; apt-get install prometheus");
    };
    mw_test::wait_until("all rows", PATIENCE, || has_rows(port, 4 * NODES));
    let url = format!("http://127.0.0.1:{port}");
    let start = Instant::now();
    let ended = nodes.room(&["990G,huge=2M", "--prometheus", &url, "--by-metrics"]);
    let took = start.elapsed();
    let said = text(&ended.stdout);
    assert_eq!(said.lines().count(), 12, "{said}{}", text(&ended.stderr));
    let first =
        "11 of 1000 nodes have 990 GiB on 2 MiB huge pages; 989 with too little by their metrics";
    assert_eq!(said.lines().next(), Some(first));
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(ended.status.code(), Some(0));
    assert!(said.lines().nth(1).is_some_and(|line| line.contains("n1000")), "{said}");
    let by_metrics = ["--prometheus", &url, "--by-metrics", "--format", "nodeset"];
    let ended = nodes.room(&[&["990G,huge=2M"][..], &by_metrics].concat());
    assert_eq!(text(&ended.stdout), "n1000,n[0990-0999]\n");

    // By their metrics they have it; asked, they have not.
    let ended = nodes.room(&["990G,huge=2M", "--prometheus", &url, "--ask", "3"]);
    assert_eq!(ended.status.code(), Some(1));
    let said = text(&ended.stdout);
    assert!(said.contains("8 not asked (--ask)") && said.contains("n1000  no"), "{said}");
    // Only these are looked at.
    let ended = nodes.room(&["8M", "--prometheus", &url, "--nodes", "n[0007-0008],n2000"]);
    let said = text(&ended.stdout);
    let first = "2 of 3 nodes can provide 8 MiB; 1 without metrics\n";
    assert!(said.starts_with(first) && said.ends_with("  without metrics: n2000\n"), "{said}");
    // Metrics have no domain, or the nodes have none.
    let whole = "n0007.example.org,n0007.example.net";
    let ended = nodes.room(&["8M", "--prometheus", &url, "--nodes", whole]);
    assert!(text(&ended.stdout).starts_with("2 of 2 nodes can provide"), "{}", text(&ended.stdout));
}

/// Promise (Fixing): `fleet drift` names each fact that differs with the nodes that differ from the most.
#[test]
fn what_differs_is_said_with_the_nodes_that_differ() {
    let nodes = Nodes::new();
    let ended = nodes.fleet(&["drift", "--nodes", "n[1-3],odd[1-2],gone1,old1"]);
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(1), "{said}{}", text(&ended.stderr));
    assert!(
        said.starts_with("1 of ") && said.contains("facts differs on 5 nodes; 2 did not answer"),
        "{said}"
    );
    let line = said.lines().nth(1).unwrap();
    assert!(
        line.starts_with("  /proc/sys/vm/zone_reclaim_mode: ") && line.ends_with("7 on odd[1-2]"),
        "{said}"
    );
    assert!(said.contains("gone1 did not answer: ") && said.contains("No route to host"), "{said}");
    let same = nodes.fleet(&["drift", "--nodes", "n[1-3]"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    let none = nodes.fleet(&["drift", "--nodes", "gone[1-2]"]);
    assert_eq!(none.status.code(), Some(3), "{}", text(&none.stdout));
    assert!(text(&none.stdout).starts_with("no node answered\n  gone1 did not answer: "));
}

/// Output of `incidents --all --json`, of two stalls; NODE becomes a number of minutes.
const INCIDENTS: &str = r#"[
{"id":1,"state":"closed","started_unix_ms":1764086NODE0000,"ended_unix_ms":1764086NODE5000,"trigger_kind":"probe",
 "trigger_name":"db","worst_ms":1200.5,"verdict":"db did not answer for 1.2 s","cause":"thp-compaction"},
{"id":2,"state":"closed","started_unix_ms":1764090000000,"ended_unix_ms":1764090001000,"trigger_kind":"probe",
 "trigger_name":"db","worst_ms":700.0,"verdict":"db did not answer for 0.7 s","cause":null}]"#;

/// Promise (Fixing): `fleet incidents` shows the same cause on many nodes at the same time as one event.
#[test]
fn the_same_cause_on_many_nodes_is_one_line() {
    let nodes = Nodes::new();
    std::fs::write(nodes.dir.path().join("incidents.json"), INCIDENTS).unwrap();
    let ended =
        nodes.fleet(&["incidents", "--nodes", "stalled[10-29],calm1,gone1", "--since", "1 h ago"]);
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{said}{}", text(&ended.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let first = "40 incidents in 2 events on 21 nodes; the most nodes, 20, had thp-compaction; 1 did not answer";
    assert_eq!(lines[0], first, "{said}");
    assert_eq!(lines.len(), 4, "{said}");
    assert!(
        lines[1].contains("thp-compaction on 20 (stalled[10-29]), 20 incidents, worst 1.2 s"),
        "{said}"
    );
    let json = nodes.fleet(&["incidents", "--nodes", "stalled[10-29]", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["events"][0]["nodes"].as_array().map(Vec::len), Some(20), "{json}");
}

#[test]
fn facts_are_of_this_machine_or_of_a_captured_one() {
    let facts = |args: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        let ended = command.args(["fleet", "facts", "--json"]).args(args).output().unwrap();
        serde_json::from_slice::<Value>(&ended.stdout).unwrap()["facts"].take()
    };
    let own = facts(&[]);
    let zone_reclaim = std::fs::read_to_string("/proc/sys/vm/zone_reclaim_mode").unwrap();
    assert_eq!(own["/proc/sys/vm/zone_reclaim_mode"], zone_reclaim.trim());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(own["kernel"], release.trim());
    let tree = mw_test::fixture("zone-reclaim/firing");
    let other = facts(&["--root", tree.to_str().unwrap()]);
    assert!(other["finding zone-reclaim"].is_string(), "{other}");
    assert_eq!(other["memwright"], Value::Null);
}

#[test]
fn the_report_is_one_page_with_causes_nodes_and_events() {
    let nodes = Nodes::new();
    std::fs::write(nodes.dir.path().join("incidents.json"), INCIDENTS).unwrap();
    let page = nodes.dir.path().join("fleet.html");
    let ended = nodes.fleet(&[
        "report",
        "--since",
        "2025-11-20T00:00:00Z",
        "--nodes",
        "stalled[10-29],calm1,gone1",
        "-o",
        page.to_str().unwrap(),
    ]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let html = std::fs::read_to_string(&page).unwrap();
    // Each node lost 5 s to one and 1 s to the other.
    assert!(
        html.contains(
            "<h1>2 min 0 s lost on 20 of 21 nodes, 1 min 40 s of it to thp-compaction</h1>"
        ),
        "{html}"
    );
    for part in ["stalled[10-29]", "No route to host", "1.2 s on "] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("Effect of fixes") && !html.contains("Forecasts"), "{html}");
    let none = nodes.fleet(&["report", "--nodes", "gone1", "-o", page.to_str().unwrap()]);
    assert_eq!(none.status.code(), Some(3));
    let wrong = nodes.fleet(&["report", "--nodes", "calm1", "-o", "/nowhere/x.html"]);
    assert!(text(&wrong.stderr).contains("choose another file with --output"));
}

/// Output of `changes --all --json`, of a change between the two stalls and of one that was reverted.
const CHANGES: &str = r#"{"changes":[
{"id":1,"time_ms":1764089000000,"rule":"thp-compaction","path":"/sys/kernel/mm/transparent_hugepage/defrag",
 "before":"always","value":"madvise","state":"in-force","kept_in":null,"file_drift":null,"left":null},
{"id":2,"time_ms":1764089000000,"rule":"zone-reclaim","path":"/proc/sys/vm/zone_reclaim_mode",
 "before":"1","value":"0","state":"undone","how":"restored","kept_in":null,"file_drift":null,"left":null}],"damage":[]}"#;

const FORECAST: &str = r#"{"exhaustion":[{"supply":"contiguous","page_bytes":2097152,"node":0,"request_bytes":0,"bytes":1,
"forecast":"2 MiB pages of node 0 run out in 9 h (6 to 14)","decline":"1 GiB an hour, 9 GiB left","since_unix_ms":1,
"bytes_per_hour":{"expected":1,"least":1,"most":2},"hours_left":{"expected":9,"least":6,"most":14}}]}"#;

/// Promise (Fixing): `fleet report` compares the time lost before and since each fix that is in force, and has the
/// forecasts of all nodes, the soonest first.
#[test]
fn the_report_has_what_fixes_brought_and_what_runs_out() {
    let nodes = Nodes::new();
    for (name, text) in
        [("incidents.json", INCIDENTS), ("changes.json", CHANGES), ("check.json", FORECAST)]
    {
        std::fs::write(nodes.dir.path().join(name), text).unwrap();
    }
    let ended = nodes.fleet(&[
        "report",
        "--since",
        "2025-11-25T00:00:00Z",
        "--nodes",
        "fixed[10-12],stalled13",
        "-o",
        "-",
    ]);
    let html = text(&ended.stdout);
    let (_, fixes) =
        html.split_once("<h2>Effect of fixes</h2>").unwrap_or_else(|| panic!("{html}"));
    let (fixes, forecasts) = fixes.split_once("<h2>Forecasts").unwrap();
    for part in [
        "<td class=\"name\">thp-compaction</td><td class=\"text\">fixed[10-12]</td>",
        "transparent_hugepage&#x2f;defrag = madvise",
        // Five seconds of 16 h 43 min; nothing from then on.
        "<td class=\"number\">0.008%</td><td class=\"number\">0.000%</td>",
    ] {
        assert!(fixes.contains(part), "{part}: {fixes}");
    }
    assert!(!fixes.contains("zone-reclaim"), "it was reverted: {fixes}");
    assert_eq!(forecasts.matches("2 MiB pages of node 0 run out in 9 h").count(), 3, "{forecasts}");
}
