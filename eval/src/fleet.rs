//! How long `memwright fleet room` takes to its short list, with the metrics of many nodes in a real server.

use crate::ages;
use crate::{lab, packages};
use anyhow::{Context, ensure};
use mw_test::ChildGuard;
use std::fmt::Write as _;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PACKAGES: &[(&str, &str)] = &[
    ("prometheus", "/usr/bin/prometheus"),
    ("victoria-metrics", "/usr/bin/victoria-metrics"),
    ("curl", "/usr/bin/curl"),
];

const ROUNDS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(240);
const GIB: u64 = 1 << 30;

/// A node has two NUMA nodes, each with these kinds of pages.
const PAGE_SIZES: [&str; 4] = ["4k", "thp", "2M", "1G"];
const SERIES: u64 = 2 * PAGE_SIZES.len() as u64;

/// Pages of one in a hundred nodes.
const REQUEST: &str = "23G,huge=2M";

struct Row {
    server: &'static str,
    nodes: u64,
    found: u64,
    seconds: Vec<f64>,
    resident_mib: u64,
}

pub(crate) fn run(nodes: &[u64], program: Option<PathBuf>, write: bool) -> anyhow::Result<()> {
    packages::install(PACKAGES)?;
    let program = program.map_or_else(lab::build, Ok)?.canonicalize()?;
    let mut rows = Vec::new();
    for &count in nodes {
        for server in ["Prometheus", "VictoriaMetrics"] {
            let row = measure(&program, server, count)?;
            println!("{}", line(&row));
            rows.push(row);
        }
    }
    if write {
        ages::write("eval/results/fleet-scale.md", &page(&rows))?;
    }
    Ok(())
}

fn measure(program: &Path, server: &'static str, nodes: u64) -> anyhow::Result<Row> {
    let dir = TempDir::new()?;
    let target = serve(metrics(nodes))?;
    let (process, port) = start(server, dir.path(), target)?;
    let started = Instant::now();
    while !has_rows(port, nodes * SERIES) {
        ensure!(started.elapsed() < PATIENCE, "{server} has not scraped {nodes} nodes");
        std::thread::sleep(Duration::from_secs(1));
    }
    let url = format!("http://127.0.0.1:{port}");
    let mut seconds = Vec::new();
    let mut found = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let output = Command::new(program)
            .args(["fleet", "room", REQUEST, "--by-metrics", "--json", "--prometheus", &url])
            .output()?;
        seconds.push(start.elapsed().as_secs_f64());
        let room: serde_json::Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        ensure!(room["nodes"] == nodes, "{server} has {} nodes", room["nodes"]);
        found = room["answers"].as_array().map_or(0, Vec::len) as u64;
    }
    seconds.sort_by(f64::total_cmp);
    let resident_mib = resident_mib(process.0.id())?;
    Ok(Row { server, nodes, found, seconds, resident_mib })
}

/// Metrics of the recorders of so many nodes, as one page: one node in a hundred has 32 GiB of huge pages.
fn metrics(nodes: u64) -> String {
    let mut page = "# TYPE memwright_allocatable_bytes gauge\n".to_owned();
    for node in 0..nodes {
        for numa in 0..2 {
            for size in PAGE_SIZES {
                let gib = match size {
                    "2M" | "1G" if node % 100 != 0 => node % 8,
                    _ => 16,
                };
                let _ = writeln!(
                    page,
                    "memwright_allocatable_bytes{{instance=\"n{node:06}:9818\",numa_node=\"{numa}\",page_size=\"{size}\"}} {}",
                    gib * GIB
                );
            }
        }
    }
    page
}

/// Serves a page to everybody, to the end of this program.
fn serve(page: String) -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let page = Arc::new(page);
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = mw_test::read_request(&client);
            let length = page.len();
            let _ = write!(
                client,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            let _ = client.write_all(page.as_bytes());
        }
    });
    Ok(port)
}

fn start(server: &str, dir: &Path, target: u16) -> anyhow::Result<(ChildGuard, u16)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let config = format!(
        "global: {{scrape_interval: 15s, scrape_timeout: 15s}}\nscrape_configs:\n- job_name: memwright\n  \
         honor_labels: true\n  static_configs: [{{targets: ['127.0.0.1:{target}']}}]\n"
    );
    std::fs::write(dir.join("prometheus.yml"), config)?;
    let mut command = match server {
        "Prometheus" => {
            let mut command = Command::new("prometheus");
            command.arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data");
            command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
            command
        }
        _ => {
            let mut command = Command::new("victoria-metrics");
            command.args(["-promscrape.config=prometheus.yml", "-storageDataPath=data"]);
            command.args(["-promscrape.maxScrapeSize=1GB", "-search.latencyOffset=1s"]);
            command.args(["-search.maxUniqueTimeseries=10000000"]);
            command.arg(format!("-httpListenAddr=127.0.0.1:{port}"));
            command
        }
    };
    let log = std::fs::File::create(dir.join("log"))?;
    command.current_dir(dir).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().with_context(|| server.to_owned())?;
    Ok((ChildGuard(child), port))
}

fn has_rows(port: u16, rows: u64) -> bool {
    let is_open = TcpStream::connect(("127.0.0.1", port)).is_ok();
    let query = "query=count(memwright_allocatable_bytes)";
    let url = format!("http://127.0.0.1:{port}/api/v1/query");
    let curl = || Command::new("curl").args(["--silent", "--data", query, &url]).output();
    is_open
        && curl().is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).contains(&format!("\"{rows}\""))
        })
}

fn resident_mib(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.context("no VmRSS")? >> 10)
}

fn line(row: &Row) -> String {
    let Row { server, nodes, found, seconds, resident_mib } = row;
    let [least, .., most] = seconds.as_slice() else { return String::new() };
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    format!(
        "| {nodes} | {server} | {found} | {median:.3} ({least:.3} to {most:.3}) | {resident_mib} |"
    )
}

fn page(rows: &[Row]) -> String {
    let lines: Vec<String> = rows.iter().map(line).collect();
    format!(
        "# fleet room with many nodes\n\nThe time of `memwright fleet room {REQUEST} --by-metrics`, from its start to its \
         end: the short list, of which the nodes would then be asked. The metrics of so many nodes, {SERIES} series each, \
         are in a server on the same machine with 2 cores, scraped from one page that imitates their recorders; one node \
         in a hundred has the memory. Medians of {ROUNDS} rounds, in brackets the minimum and the maximum. Generated by \
         `cargo xtask fleet --write`.\n\n| nodes | server | found | time, s | server's memory, MiB |\n|---|---|---|---|---|\n{}\n",
        lines.join("\n")
    )
}
