//! The configuration file. Every option is also a flag, and the flag wins.
//!
//! ```toml
//! state-dir = "/var/lib/memwright"
//!
//! [check]
//! fail-on = "warning"
//!
//! [pool]
//! budget = "24G"
//!
//! [[pool.create]]
//! name = "db"
//! size = "16G"
//! huge = "2M"
//! owner = ["postgres"]
//!
//! [run]
//! direct-io = "64k"
//! huge = "auto"
//! threshold = "64M"
//!
//! [watch]
//! limit = "500ms"
//!
//! [[watch.probe]]
//! name = "db"
//! target = "postgres://monitor@localhost/postgres"
//!
//! [[notify]]
//! journal = true
//!
//! [heartbeats]
//! log = ["/var/log/zookeeper/zookeeper.log"]
//!
//! [ship]
//! to = "s3://fleet/memwright"
//! ```

mod notify;
mod pool;
mod run;
mod value;
mod watch;

use crate::args::FailOn;
use crate::{Exit, Failure};
use mw_sys::InputFile;
use serde::Deserialize;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

pub(crate) const DEFAULT_FILE: &str = "/etc/memwright/memwright.toml";

/// Contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Config {
    state_dir: Option<PathBuf>,
    #[serde(default)]
    check: CheckConfig,
    #[serde(default)]
    pool: pool::PoolConfig,
    #[serde(default)]
    run: run::RunConfig,
    #[serde(default)]
    watch: watch::WatchConfig,
    #[serde(default)]
    notify: Vec<notify::Notify>,
    #[serde(default)]
    heartbeats: HeartbeatsConfig,
    #[serde(default)]
    ship: Ship,
}

/// Settings of `heartbeats`, and of `report`, which searches for the same lines.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct HeartbeatsConfig {
    /// Logs that are read beside the journal.
    #[serde(default)]
    pub(crate) log: Vec<PathBuf>,
    /// `NAME=LINE`: lines that are looked for beside those that are shipped.
    #[serde(default)]
    pub(crate) pattern: Vec<String>,
}

/// Settings of `ship`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Ship {
    pub(crate) to: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CheckConfig {
    fail_on: Option<FailOn>,
}

/// The longest configuration file.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl Config {
    /// Reads the file that is named, or the default one where it is there.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, Failure> {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE));
        let mut text = String::new();
        let read = InputFile::open(path)
            .and_then(|input| input.take(MAX_FILE_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => toml::from_str(&text)
                .map_err(|error| Failure::new(Exit::Usage, one_line(path, &text, &error))),
            Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => {
                Ok(Self::default())
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Err(Failure::of_file(path, &error))
            }
            Err(error) => Err(Failure::new(Exit::Usage, format!("{}: {error}", path.display()))),
        }
    }

    pub(crate) fn state_dir(&self, flag: Option<&Path>) -> PathBuf {
        let configured = flag.map(Path::to_owned).or_else(|| self.state_dir.clone());
        configured.unwrap_or_else(|| PathBuf::from(mw_remedy::STATE_DIR))
    }

    /// Settings of `pool`.
    pub(crate) fn pool(&self) -> &pool::PoolConfig {
        &self.pool
    }

    /// Settings of `run`.
    pub(crate) fn run(&self) -> &run::RunConfig {
        &self.run
    }

    /// Settings of `watch`.
    pub(crate) fn watch(&self) -> &watch::WatchConfig {
        &self.watch
    }

    /// Receivers of notifications.
    pub(crate) fn notify(&self) -> Result<Vec<mw_notify::ReceiverConfig>, Failure> {
        notify::tables(&self.notify)
    }

    /// Settings of `heartbeats`.
    pub(crate) fn heartbeats(&self) -> &HeartbeatsConfig {
        &self.heartbeats
    }

    /// Settings of `ship`.
    pub(crate) fn ship(&self) -> &Ship {
        &self.ship
    }

    pub(crate) fn recording(&self, flag: Option<&Path>) -> PathBuf {
        let configured = flag.map(Path::to_owned).or_else(|| self.watch.recording.clone());
        configured.unwrap_or_else(|| self.state_dir(None).join("recording.db"))
    }

    /// The severity from which on `check` exits with 1.
    pub(crate) fn fail_on(&self, flag: Option<FailOn>) -> FailOn {
        flag.or(self.check.fail_on).unwrap_or(FailOn::Critical)
    }
}

fn one_line(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
    let line = before.matches('\n').count() + 1;
    format!("{} line {line}: {}", path.display(), error.message().replace('\n', " "))
}

#[cfg(test)]
#[path = "config/tests.rs"]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
