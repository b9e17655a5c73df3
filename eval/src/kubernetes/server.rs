//! An API server with its etcd, on free ports of this machine, in a directory of its own.

use super::commands::checked;
use anyhow::Context;
use mw_test::ChildGuard;
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const ADMIN: &str = "admin-of-a-test";
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) struct Server {
    url: String,
    dir: TempDir,
    _api: ChildGuard,
    _etcd: ChildGuard,
}

impl Server {
    /// Starts both, and waits until it is ready.
    pub(super) fn start(bin: &Path) -> anyhow::Result<Self> {
        let dir = TempDir::new()?;
        let file = |name: &str| dir.path().join(name);
        let [clients, peers, secure] = [free_port()?, free_port()?, free_port()?];
        let store = format!("http://127.0.0.1:{clients}");
        let peer = format!("http://127.0.0.1:{peers}");
        let etcd = Command::new(bin.join("etcd"))
            .arg("--data-dir")
            .arg(file("etcd"))
            .args(["--listen-client-urls", &store, "--advertise-client-urls", &store])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(file("etcd.log"))?)
            .spawn()?;
        let etcd = ChildGuard(etcd);
        let key = file("sa.key");
        checked(Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048"))?;
        std::fs::write(file("tokens.csv"), format!("{ADMIN},admin,1,system:masters\n"))?;
        let api = Command::new(bin.join("kube-apiserver"))
            .args(["--etcd-servers", &store, "--secure-port", &secure.to_string()])
            .args(["--bind-address", "127.0.0.1", "--authorization-mode", "RBAC"])
            .args(["--service-cluster-ip-range", "10.0.0.0/24"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .arg("--service-account-key-file")
            .arg(&key)
            .arg("--service-account-signing-key-file")
            .arg(&key)
            .arg("--token-auth-file")
            .arg(file("tokens.csv"))
            .arg("--cert-dir")
            .arg(file("cert"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(file("api.log"))?)
            .spawn()?;
        let url = format!("https://127.0.0.1:{secure}");
        let server = Self { url, dir, _api: ChildGuard(api), _etcd: etcd };
        mw_test::wait_until("the API server", PATIENCE, || server.is_ready());
        std::fs::write(server.kubeconfig(), server.config().to_string())?;
        Ok(server)
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The certificate that it has made for itself.
    pub(super) fn ca_file(&self) -> PathBuf {
        self.file("cert/apiserver.crt")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    fn config(&self) -> Value {
        serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "admin" } }],
            "clusters": [{
                "name": "test",
                "cluster": { "server": self.url, "certificate-authority": self.ca_file() },
            }],
            "users": [{ "name": "admin", "user": { "token": ADMIN } }],
        })
    }

    fn is_ready(&self) -> bool {
        let mut curl = self.curl(ADMIN, "GET", "/readyz", None);
        curl.output().is_ok_and(|output| output.stdout == b"ok")
    }

    fn curl(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--max-time", "30", "--request", method, "--cacert"]);
        curl.arg(self.ca_file()).arg("--header").arg(format!("Authorization: Bearer {token}"));
        if let Some(body) = body {
            let kind = if method == "PATCH" { "strategic-merge-patch+json" } else { "json" };
            curl.arg("--header").arg(format!("Content-Type: application/{kind}"));
            curl.arg("--data").arg(body.to_string());
        }
        curl.arg(format!("{}{path}", self.url));
        curl
    }

    fn ask(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let output = checked(&mut self.curl(token, method, path, body))?;
        serde_json::from_slice(&output.stdout).with_context(|| format!("{method} {path}"))
    }

    fn succeeds(&self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let answer = self.ask(ADMIN, method, path, body)?;
        anyhow::ensure!(answer["status"] != "Failure", "{method} {path}: {answer}");
        Ok(answer)
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.succeeds("GET", path, None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.succeeds("POST", path, Some(body))
    }

    pub(super) fn patch(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.succeeds("PATCH", path, Some(body))
    }

    /// The answer to the pod.
    pub(super) fn refuses(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        self.ask(token, method, path, body)
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
