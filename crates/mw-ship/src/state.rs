//! What of a recording is in a data set already.

use mw_sys::guarded;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "ship.json";

const MAX_BYTES: u64 = 1 << 20;

/// Less the umask.
const MODE: u32 = 0o666;

/// By target and recording.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progresses(BTreeMap<String, ShipProgress>);

/// Progress of one recording in one data set. Days are counted from 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShipProgress {
    /// The last day that needs not be shipped again.
    pub(crate) complete_day: Option<u64>,
    /// Since when the recording had rows when it was shipped last, in milliseconds since 1970.
    pub(crate) since_unix_ms: u64,
    /// Objects that were sent of the days that are not complete: a hash by object.
    #[serde(default)]
    pub(crate) sent: BTreeMap<String, u64>,
}

/// The file, which is replaced as a whole.
#[derive(Debug)]
pub(crate) struct ShipState {
    path: PathBuf,
    all: Progresses,
}

impl ShipState {
    /// Reads the file. One that cannot be understood is as good as none: what is shipped again stays the same.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(crate) fn read(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        let text = match guarded::read(&path, MAX_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        Ok(Self { path, all: serde_json::from_slice(&text).unwrap_or_default() })
    }

    pub(crate) fn get(&self, key: &str) -> Option<ShipProgress> {
        self.all.0.get(key).cloned()
    }

    /// Notes how far it is, on disk.
    pub(crate) fn set(&mut self, key: &str, progress: &ShipProgress) -> io::Result<()> {
        self.all.0.insert(key.to_owned(), progress.clone());
        let text = serde_json::to_vec_pretty(&self.all)?;
        guarded::replace(&self.path, &text, MODE)
    }
}
