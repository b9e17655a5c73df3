//! Asks a server that speaks PromQL for the memory of nodes by their metrics.

use crate::asking::line;
use mw_http::{SecretFile, Uri, checked};
use mw_model::bounded_json::{self, JsonError};
use mw_model::{PageSize, Request};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The server answers within it, or says that it does not; Prometheus' own limit is two minutes.
const LIMIT: Duration = Duration::from_secs(30);

/// A node takes some 130 bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Memory limit of a reply, of two hundred thousand nodes.
const MAX_MEMORY_BYTES: usize = 256 << 20;

const METRIC: &str = "memwright_allocatable_bytes";

/// Sorts by memory, the most first.
pub(crate) fn sort(candidates: &mut [FleetCandidate]) {
    candidates.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
}

/// Fields that are read of a reply of the API. Its rows are those of a vector.
#[derive(Deserialize)]
struct ApiAnswer {
    status: String,
    error: Option<String>,
    data: Option<ApiData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiData {
    result_type: String,
    result: Vec<VectorRow>,
}

#[derive(Deserialize)]
struct VectorRow {
    metric: BTreeMap<String, String>,
    /// Time of the scrape, in seconds since 1970, and the value.
    value: (f64, String),
}

/// A node, and what it can give by its metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetCandidate {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// Credentials for the server.
#[derive(Debug, Clone)]
pub enum Credentials {
    Token(SecretFile),
    /// `USER:PASSWORD`.
    Basic(SecretFile),
}

impl Credentials {
    /// File of the secret.
    #[must_use]
    pub fn file(&self) -> &SecretFile {
        match self {
            Self::Token(file) | Self::Basic(file) => file,
        }
    }

    /// The header of requests.
    fn header(&self) -> Result<String, String> {
        let secret = self.file().read()?;
        Ok(match self {
            Self::Token(_) => format!("Bearer {}", secret.text()),
            Self::Basic(_) => format!("Basic {}", base64(secret.text().as_bytes())),
        })
    }
}

/// A server with memwright's metrics.
pub struct MetricsServer {
    uri: Uri,
    authorization: Option<String>,
    ca_file: Option<PathBuf>,
    label: String,
}

impl MetricsServer {
    /// `label` is the one of the metrics that names the node.
    ///
    /// # Errors
    /// The URL is invalid, or the secret cannot be read.
    pub fn new(
        url: &str,
        credentials: Option<&Credentials>,
        ca_file: Option<PathBuf>,
        label: &str,
    ) -> Result<Self, String> {
        let authorization = credentials.map(Credentials::header).transpose()?;
        let url = format!("{}/api/v1/query", url.trim_end_matches('/'));
        let uri = checked(&url, authorization.is_some())
            .map_err(|error| format!("--prometheus {error}"))?;
        Ok(Self { uri, authorization, ca_file, label: label.to_owned() })
    }

    /// Every node with this metric, those with the most first.
    ///
    /// # Errors
    /// The server did not answer, or has no such metric.
    pub fn candidates(&self, request: &Request) -> Result<Vec<FleetCandidate>, String> {
        self.found(request).map_err(|why| {
            let server = self.uri.authority().map_or("", |authority| authority.as_str());
            format!("{server}: {why}")
        })
    }

    fn found(&self, request: &Request) -> Result<Vec<FleetCandidate>, String> {
        let mut found = candidates(self.query(&query(request, &self.label))?, &self.label)?;
        if found.is_empty() {
            return Err(format!(
                "no series of {METRIC} for such pages with the label {}; does it scrape memwright?",
                self.label
            ));
        }
        sort(&mut found);
        Ok(found)
    }

    fn query(&self, query: &str) -> Result<ApiAnswer, String> {
        let agent = mw_http::agent(&self.uri, self.ca_file.as_deref(), LIMIT)?;
        let mut request = agent.post(self.uri.clone());
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let answer = request.send_form([("query", query)]);
        let answer = answer.map_err(|error| mw_http::failure(&error, LIMIT))?;
        let status = answer.status();
        let bytes = mw_http::said(answer, MAX_ANSWER_BYTES);
        let answer = bounded_json::from_slice::<ApiAnswer>(&bytes, MAX_MEMORY_BYTES);
        if status.is_success() {
            return answer.map_err(|error| unreadable(bytes.len(), &error));
        }
        let said = answer.ok().and_then(|answer| answer.error).unwrap_or_default();
        let said = line(&said);
        let separator = if said.is_empty() { "" } else { ": " };
        Err(format!("HTTP {}{separator}{said}", status.as_u16()))
    }
}

fn unreadable(bytes: usize, error: &JsonError) -> String {
    format!("no answer of the API of Prometheus: {bytes} bytes, {error}")
}

/// Memory that each node can give of such pages, from any of its NUMA nodes or from the one of the request. Of a node that is
/// scraped twice one series counts. Folios have no series: a node that has them has as much in base pages.
fn query(request: &Request, label: &str) -> String {
    let page = if request.page.is_folio() { PageSize::Base } else { request.page };
    let node = request.node.map_or(String::new(), |node| format!(",numa_node=\"{node}\""));
    let series = format!("{METRIC}{{page_size=\"{page}\"{node}}}");
    format!("sum by ({label}) (max by ({label}, numa_node) ({series}))")
}

/// The hosts of an answer, each with the most that a port of it reports. A row without the label is left out.
fn candidates(answer: ApiAnswer, label: &str) -> Result<Vec<FleetCandidate>, String> {
    let rows = match answer.data {
        Some(data) if answer.status == "success" && data.result_type == "vector" => data.result,
        _ => return Err("no answer of the API of Prometheus".to_owned()),
    };
    let mut most: BTreeMap<String, u64> = BTreeMap::new();
    for VectorRow { metric, value: (_, value) } in rows {
        let (Some(instance), Ok(value)) = (metric.get(label), value.parse::<f64>()) else {
            continue;
        };
        let bytes = most.entry(without_port(instance).to_owned()).or_default();
        // Saturates: infinite is the largest, and what is no number 0.
        *bytes = (*bytes).max(value as u64);
    }
    Ok(most.into_iter().map(|(name, bytes)| FleetCandidate { name, bytes }).collect())
}

/// The host of `host:9818`, `[fe80::1]:9818` or `host`.
fn without_port(instance: &str) -> &str {
    if let Some((host, _)) = instance.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match instance.split_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => instance,
    }
}

/// Encodes as RFC 4648 has it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        bits <<= 8 * (3 - chunk.len());
        for place in 0..4 {
            let at = (bits >> (18 - 6 * place) & 63) as usize;
            text.push(if place > chunk.len() { '=' } else { char::from(ALPHABET[at]) });
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An answer of Prometheus.
    const ANSWER: &str = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"instance":"n1:9818"},"value":[1764086400.1,"25769803776"]},
        {"metric":{"instance":"n2.example.org:9818"},"value":[1764086400.1,"1.073741824e+09"]},
        {"metric":{"instance":"n1:9100"},"value":[1764086400.1,"9"]},
        {"metric":{},"value":[1764086400.1,"1"]},
        {"metric":{"instance":"n4:9818"},"value":[1764086400.1,"NaN"]}]}}"#;

    #[test]
    fn rows_are_nodes_without_their_ports() {
        let found = candidates(serde_json::from_str(ANSWER).unwrap(), "instance").unwrap();
        let found: Vec<_> =
            found.iter().map(|node| (node.name.as_str(), node.bytes >> 30)).collect();
        assert_eq!(found, [("n1", 24), ("n2.example.org", 1), ("n4", 0)]);
        for (instance, host) in
            [("[fe80::1]:9818", "fe80::1"), ("n1", "n1"), ("fe80::1", "fe80::1"), ("a:b", "a:b")]
        {
            assert_eq!(without_port(instance), host);
        }
    }

    #[test]
    fn a_query_is_for_the_pages_and_the_node_of_the_request() {
        let query = |request: &str| query(&request.parse().unwrap(), "instance");
        let all = r#"sum by (instance) (max by (instance, numa_node) (memwright_allocatable_bytes{page_size="2M"}))"#;
        assert_eq!(query("23G,huge=2M,lock"), all);
        let one = r#"(memwright_allocatable_bytes{page_size="4k",numa_node="1"}))"#;
        for request in ["1G,node=1", "1G,page=64k,node=1", "1G,page=best,node=1"] {
            assert!(query(request).ends_with(one), "{}", query(request));
        }
    }

    #[test]
    fn another_answer_is_an_error() {
        for text in [
            "{}",
            "[]",
            r#"{"status":"error"}"#,
            r#"{"status":"success","data":{"resultType":"vector"}}"#,
        ] {
            let answer = serde_json::from_str(text).map_err(|error| error.to_string());
            let found = answer.and_then(|answer| candidates(answer, "instance"));
            assert!(found.is_err(), "{text}");
        }
    }

    #[test]
    fn credentials_are_encoded_as_rfc_4648_has_it() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_taken(at in 0..ANSWER.len(), text in "[\\[\\]{}\",:a-z0-9]{0,20}") {
            let mut answer = ANSWER.to_owned();
            answer.insert_str(at, &text);
            if let Ok(answer) = serde_json::from_str(&answer) {
                let _ = candidates(answer, "instance");
            }
        }
    }
}
