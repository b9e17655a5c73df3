//! A pool server with one pool of huge pages.

use crate::huge_pages;
use anyhow::Context;
use mw_pool::{Attach, Attachment, Client, NumaPolicy, Owners, PageSize, PoolName, PoolSpec};
use mw_test::{ChildGuard, HugePages};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time until the server answers, or all memory of the pool is ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two requests: well below the rate at which the server refuses them.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct PoolServer {
    client: Client,
    name: PoolName,
    bytes: u64,
    // In the order in which they end: the pages are free when the server has ended.
    _server: ChildGuard,
    _pages: HugePages,
    _folder: tempfile::TempDir,
}

impl PoolServer {
    pub(super) fn start(memwright: &Path, page_bytes: u64, bytes: u64) -> anyhow::Result<Self> {
        let pages = huge_pages::reserve(memwright, page_bytes, bytes / page_bytes)?;
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("pool.sock");
        let mut command = Command::new(memwright);
        command.args(["pool", "serve", "--budget", &format!("{}M", bytes >> 20), "--socket"]);
        command.arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
        let server = ChildGuard(command.spawn().context("memwright pool serve")?);
        let client = Client::new(&socket);
        let name: PoolName = "ceilings".parse()?;
        let server = Self { client, name, bytes, _server: server, _pages: pages, _folder: folder };
        server.eventually("the server answers", || server.client.server().is_ok())?;
        server.client.create(&PoolSpec {
            name: server.name.clone(),
            bytes,
            pages: PageSize::Hugetlb(page_bytes),
            nodes: NumaPolicy::Default,
            owners: Owners::default(),
            trusting: false,
        })?;
        server.until_ready()?;
        Ok(server)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn attach(&self, bytes: u64) -> anyhow::Result<Attachment> {
        let memory = self.client.attach(&Attach::new(self.name.clone(), bytes))?;
        anyhow::ensure!(memory.is_locked(), "the memory of the pool is not locked");
        Ok(memory)
    }

    /// Waits until all memory has been zeroed and can be attached.
    pub(super) fn until_ready(&self) -> anyhow::Result<()> {
        self.eventually("the pool is ready", || {
            let pool = self.client.pool(&self.name);
            pool.is_ok_and(|pool| pool.bytes.ready == self.bytes && pool.locked)
        })
    }

    fn eventually(&self, what: &str, condition: impl Fn() -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !condition() {
            anyhow::ensure!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for PoolServer {
    fn drop(&mut self) {
        // Its pages are free before the kernel's pool shrinks.
        let _ = self.client.remove(&self.name);
    }
}
