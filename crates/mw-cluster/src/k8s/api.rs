//! Asks the API server about one node.

use super::condition::{KnownConditions, NodeObject};
use mw_http::{Body, Response, SecretFile, Uri};
use mw_model::bounded_json;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// A request may take so long.
const LIMIT: Duration = Duration::from_secs(10);

/// A Node object lists up to 50 images by default; a large one has some 100 KiB.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// A Status object has some hundred bytes.
const MAX_REFUSAL_BYTES: usize = 1 << 20;

/// Length limit of an error's text.
const MAX_SAID_CHARS: usize = 300;

const MERGE: &str = "application/strategic-merge-patch+json";

/// The API server, for one node.
pub struct NodeApi {
    /// `https://HOST:PORT`.
    server: String,
    token: SecretFile,
    ca_file: PathBuf,
    node: String,
}

impl NodeApi {
    /// `server` is that of the cluster unless it is named.
    ///
    /// # Errors
    /// There is no server, or its URL is invalid.
    pub fn new(
        server: Option<&str>,
        token_file: &str,
        ca_file: PathBuf,
        node: String,
    ) -> Result<Self, String> {
        let server = server.map(str::to_owned).or_else(of_cluster);
        let server = server
            .ok_or("no API server: neither --api-server nor KUBERNETES_SERVICE_HOST is set")?;
        let server = server.trim_end_matches('/').to_owned();
        mw_http::checked(&server, true).map_err(|error| format!("--api-server {error}"))?;
        Ok(Self { server, token: SecretFile(token_file.to_owned()), ca_file, node })
    }

    /// Current conditions of the node. A reply from the server's cache does.
    ///
    /// # Errors
    /// The answer of the server, or why there is none.
    pub fn known(&self) -> Result<KnownConditions, String> {
        let answer = self.request("GET", "?resourceVersion=0", None)?;
        // Of what it has, three conditions are kept.
        let node = serde_json::from_slice::<NodeObject>(&answer);
        node.map(KnownConditions::of).map_err(|error| {
            let Self { server, node, .. } = self;
            format!(
                "GET nodes/{node} of {server}: HTTP 200: the answer is no JSON of a Node: {error}"
            )
        })
    }

    /// Changes the node's status.
    ///
    /// # Errors
    /// The answer of the server, or why there is none.
    pub fn patch(&self, patch: &Value) -> Result<(), String> {
        let query = "/status?fieldManager=memwright";
        self.request("PATCH", query, Some(patch)).map(|_| ())
    }

    /// `rest` is what follows the node's path.
    fn request(&self, method: &str, rest: &str, patch: Option<&Value>) -> Result<Vec<u8>, String> {
        let Self { server, node, .. } = self;
        let answer = self.send(&format!("{server}/api/v1/nodes/{node}{rest}"), patch);
        answer.map_err(|why| format!("{method} nodes/{node} of {server}: {why}"))
    }

    fn send(&self, url: &str, patch: Option<&Value>) -> Result<Vec<u8>, String> {
        let token = self.token.read()?;
        let uri: Uri = mw_http::checked(url, true).map_err(|error| error.to_string())?;
        let agent = mw_http::agent(&uri, Some(&self.ca_file), LIMIT)?;
        let authorization = format!("Bearer {}", token.text());
        let answer = match patch {
            None => agent.get(uri).header("authorization", authorization).call(),
            Some(patch) => agent
                .patch(uri)
                .header("authorization", authorization)
                .header("content-type", MERGE)
                .send(patch.to_string()),
        };
        read(answer.map_err(|error| mw_http::failure(&error, LIMIT))?, token.text())
    }
}

/// The cluster's API server, as a pod knows it.
fn of_cluster() -> Option<String> {
    let text = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let host = text("KUBERNETES_SERVICE_HOST")?;
    let port = text("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Some(format!("https://{host}:{port}"))
}

/// Fields that are read of a Status object.
#[derive(Deserialize)]
struct StatusObject {
    message: Option<String>,
}

/// The answer, or the message of the Status object that says why there is none.
fn read(answer: Response<Body>, token: &str) -> Result<Vec<u8>, String> {
    let status = answer.status();
    let said = mw_http::said(answer, MAX_ANSWER_BYTES);
    if status.is_success() {
        return Ok(said);
    }
    let refusal = bounded_json::from_slice::<StatusObject>(&said, MAX_REFUSAL_BYTES);
    let message = refusal.ok().and_then(|refusal| refusal.message);
    let message = message.filter(|text| !text.contains(token)).unwrap_or_default();
    let message: String = message.chars().take(MAX_SAID_CHARS).collect();
    let hint = match status.as_u16() {
        401 => "; is the token of --token-file valid?",
        403 => "; the service account needs get on nodes and patch on nodes/status",
        404 => "; --node or NODE_NAME names the node as kubectl get nodes does",
        _ => "",
    };
    let separator = if message.is_empty() { "" } else { ": " };
    Err(format!("HTTP {}{separator}{}{hint}", status.as_u16(), mw_model::visible::line(&message)))
}
