//! The processes and the group behind a probe's connection, and what became of them.
//!
//! The way from a connection: the socket at its other end (sock_diag), the process that holds that socket
//! (/proc/PID/fd), its unit, and those that come from the unit's first process. Where the other end was not
//! accepted yet or is closed, the socket that listens. Nothing is guessed: what is on another machine, or in
//! another network namespace, is missing, with the reason.

mod configured;
mod connections;
mod diag;
mod lost;
mod outage;
mod party;
mod processes;
mod reached_limits;
mod sockets;
mod stopped_devices;
mod upstreams;

use crate::group_use::GroupNames;
use crate::source::Source;
pub use connections::{WaitingConnections, current_processes, waiting_connections};
pub use lost::{FormerProcess, writer_process};
use mw_model::{Connection, ListenQueue, Missing, Service, ServiceProcess};
pub use party::{PartyFacts, read_party};
pub use processes::family;
use processes::{leader, memberships, named, owners, stat, unit};
pub use reached_limits::reached_limits;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use stopped_devices::stopped_devices;
pub use upstreams::upstreams;

/// Time limit of a search for a service: some milliseconds, but more where 10,000 processes run or CPUs are busy.
pub const SEARCH_LIMIT: Duration = Duration::from_secs(2);
/// Time limit of the search for the listener at the address of a service that failed.
const HOLDER_LIMIT: Duration = Duration::from_millis(50);
/// A search that failed is repeated after so many times as long as it took.
const REST: u32 = 100;
/// The shortest and the longest time until it is repeated.
const MIN_REST: Duration = Duration::from_secs(1);
const MAX_REST: Duration = Duration::from_secs(60);

/// Finds the service of a probe, and again when it restarts.
#[derive(Debug)]
pub struct ServiceTracker {
    finder: Arc<Finder>,
    known: Option<KnownService>,
    missing: Missing,
    /// No search of this connection's other end before this.
    rest_until: Option<(Instant, Option<Connection>)>,
}

/// Sources for the search of services.
#[derive(Debug)]
struct Finder {
    configured: Option<String>,
    source: Source,
    groups: GroupNames,
}

/// A search that is due. It takes some milliseconds, and longer on a busy machine: run it where nothing waits for it.
#[derive(Debug)]
pub struct ServiceSearch {
    finder: Arc<Finder>,
    connection: Option<Connection>,
    /// Processes that are looked at before others.
    first: Vec<u32>,
}

/// Results of a search, for [`ServiceTracker::note`].
#[derive(Debug)]
pub struct ServiceSearchResult {
    found: Result<KnownService, Missing>,
    connection: Option<Connection>,
    took: Duration,
}

/// A service that was found.
#[derive(Debug)]
struct KnownService {
    connection: Option<Connection>,
    service: Service,
    /// The process from which the others come, and the one that listened.
    watched: Vec<WatchedProcess>,
    /// Time at which it was last seen to run.
    seen_unix_ms: u64,
}

/// A process that is followed until it ends.
#[derive(Debug)]
struct WatchedProcess {
    process: ServiceProcess,
    started_ticks: u64,
    /// None where the kernel has no such descriptors (before 5.3).
    pidfd: Option<OwnedFd>,
}

impl WatchedProcess {
    fn new(pid: u32) -> Option<Self> {
        let stat = stat(pid)?;
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = raw.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let process = ServiceProcess { pid, name: stat.name };
        Some(Self { process, started_ticks: stat.started_ticks, pidfd })
    }

    fn runs(&self) -> bool {
        stat(self.process.pid).is_some_and(|stat| stat.started_ticks == self.started_ticks)
    }
}

impl KnownService {
    fn runs(&self) -> bool {
        !self.watched.is_empty() && self.watched.iter().all(WatchedProcess::runs)
    }
}

impl ServiceTracker {
    /// `configured` is a systemd unit or the path of a cgroup, and takes precedence over the connection.
    ///
    /// # Errors
    /// `/` cannot be opened.
    pub fn new(configured: Option<String>) -> Result<Self, Missing> {
        let source = Source::live().map_err(|error| Missing::failed("/", error.to_string()))?;
        let groups = GroupNames::find(&source).unwrap_or_default();
        let missing = Missing::skipped("service", "not searched yet");
        let finder = Arc::new(Finder { configured, source, groups });
        Ok(Self { finder, known: None, missing, rest_until: None })
    }

    /// The search that is due where the service is not known, or the known processes have gone, or the
    /// connection is another. Costs about 20 µs. A service that has gone stays known until another is found.
    pub fn search(&mut self, connection: Option<&Connection>) -> Option<ServiceSearch> {
        if let Some(known) = &mut self.known
            && known.runs()
        {
            known.seen_unix_ms = mw_sys::unix_ms();
            if self.finder.configured.is_some() || known.connection.as_ref() == connection {
                return None;
            }
        }
        if self.resting_for().is_some_and(|of| of.as_ref() == connection) {
            return None;
        }
        Some(ServiceSearch {
            finder: Arc::clone(&self.finder),
            connection: connection.cloned(),
            first: self.known.iter().flat_map(KnownService::pids).collect(),
        })
    }

    /// True if the service was known and its processes have ended.
    pub fn has_ended(&self) -> bool {
        self.known.as_ref().is_some_and(|known| !known.runs())
    }

    /// True if the processes have ended, and a search for others is due.
    pub fn may_be_found_again(&self) -> bool {
        self.has_ended() && self.resting_for().is_none()
    }

    /// The connection for which no search is due yet, after one that found nothing.
    fn resting_for(&self) -> Option<&Option<Connection>> {
        let (until, of) = self.rest_until.as_ref()?;
        (Instant::now() < *until).then_some(of)
    }

    /// Notes what a search found.
    pub fn note(&mut self, ServiceSearchResult { found, connection, took }: ServiceSearchResult) {
        match found {
            Ok(known) => {
                self.known = Some(known);
                self.rest_until = None;
            }
            Err(missing) => {
                self.missing = missing;
                let rest = (took * REST).clamp(MIN_REST, MAX_REST);
                self.rest_until = Some((Instant::now() + rest, connection));
            }
        }
    }

    /// The service, or why it is not known.
    ///
    /// # Errors
    /// It is on another machine, in another network namespace, or was not found in time.
    pub fn service(&self) -> Result<&Service, &Missing> {
        self.known.as_ref().map(|known| &known.service).ok_or(&self.missing)
    }

    /// The groups of each of its processes that run, in all hierarchies.
    pub fn groups(&self) -> BTreeMap<u32, Vec<String>> {
        let processes = self.known.iter().flat_map(|known| &known.service.processes);
        let groups = processes.map(|process| {
            let mut groups = self.finder.groups.of(&memberships(process.pid));
            groups.sort_by_key(|path| path == "/");
            (process.pid, groups)
        });
        groups.filter(|(_, groups)| !groups.is_empty()).collect()
    }
}

impl ServiceSearch {
    /// Searches for so long at most.
    pub fn run(self, limit: Duration) -> ServiceSearchResult {
        let begun = Instant::now();
        let found = self.finder.find(self.connection.as_ref(), &self.first, begun + limit);
        ServiceSearchResult { found, connection: self.connection, took: begun.elapsed() }
    }
}

impl Finder {
    fn find(
        &self,
        connection: Option<&Connection>,
        first: &[u32],
        deadline: Instant,
    ) -> Result<KnownService, Missing> {
        if let Some(name) = &self.configured {
            let (_, pids) = configured::find(&self.source, name, deadline).ok_or_else(|| {
                let why = "no unit or cgroup of this name has processes";
                Missing::failed(format!("service {name}"), why)
            })?;
            return Ok(self.known_by(connection, pids, "configured".to_owned()));
        }
        let connection = connection.ok_or_else(|| {
            let why = "the probe has no connection: name the service in the configuration \
                       (service = \"UNIT\")";
            Missing::skipped("service", why)
        })?;
        let (pids, found_by) = find(connection, first, deadline)?;
        let leader = leader(pids.first().copied().unwrap_or(0));
        let mut all = pids;
        for pid in family(leader, deadline) {
            if !all.contains(&pid) {
                all.push(pid);
            }
        }
        Ok(self.known_by(Some(connection), all, found_by))
    }

    fn known_by(
        &self,
        connection: Option<&Connection>,
        mut pids: Vec<u32>,
        found_by: String,
    ) -> KnownService {
        pids.truncate(processes::MAX_PROCESSES);
        let first = pids.first().copied().unwrap_or(0);
        let of_first = memberships(first);
        let groups = self.groups.of(&of_first);
        let cgroup = groups.iter().find(|path| *path != "/").or(groups.first()).cloned();
        let service = Service {
            processes: pids.iter().filter_map(|pid| named(*pid)).collect(),
            unit: unit(&of_first),
            cgroup,
            found_by,
            listen_queue: None,
        };
        let mut watched: Vec<u32> = vec![leader(first)];
        watched.extend(pids.first().filter(|first| **first != leader(**first)));
        KnownService {
            connection: connection.cloned(),
            service,
            watched: watched.into_iter().filter_map(WatchedProcess::new).collect(),
            seen_unix_ms: mw_sys::unix_ms(),
        }
    }
}

/// The processes that hold a connection's other end and that listen there, and how they were found.
fn find(
    connection: &Connection,
    first: &[u32],
    deadline: Instant,
) -> Result<(Vec<u32>, String), Missing> {
    let (peer, listener, address) = match connection {
        Connection::Tcp { local, peer } => {
            let connected = local.and_then(|local| sockets::tcp(*peer, Some(local)));
            let listener = sockets::tcp(*peer, None);
            if connected.is_none() && listener.is_none() {
                return Err(nobody(*local, *peer));
            }
            (
                connected.map_or(0, |socket| socket.inode),
                listener.map_or(0, |socket| socket.inode),
                peer.to_string(),
            )
        }
        Connection::Unix { path, inode, listener } => {
            let peer = inode.and_then(sockets::unix_peer).unwrap_or(0);
            let (found, _) = owners(&[peer], first, deadline);
            let mut pids: Vec<u32> = found.into_iter().map(|(_, pid)| pid).collect();
            pids.extend(listener.filter(|pid| stat(*pid).is_some()));
            pids.dedup();
            let found_by = format!("peer of the Unix socket {}", path.display());
            if !pids.is_empty() {
                return Ok((pids, found_by));
            }
            (0, sockets::unix_listener(path).unwrap_or(0), path.display().to_string())
        }
    };
    let (found, all) = owners(&[peer, listener], first, deadline);
    let holder = |inode: u64| found.iter().find(|(held, _)| *held == inode).map(|(_, pid)| *pid);
    let found_by = match holder(peer) {
        Some(_) => "peer of the probe's connection".to_owned(),
        None => format!("listens on {address}"),
    };
    let mut pids: Vec<u32> = holder(peer).into_iter().chain(holder(listener)).collect();
    pids.dedup();
    if !pids.is_empty() {
        return Ok((pids, found_by));
    }
    let why = if all {
        "no process that is visible here holds its socket: it is in a container or hidden, or this is not \
         root; name the service in the configuration (service = \"UNIT\")"
    } else {
        "its process was not found in time: name the service in the configuration (service = \"UNIT\")"
    };
    Err(Missing::failed(format!("service at {address}"), why))
}

/// The reason that no socket of this network namespace is at the other end.
fn nobody(local: Option<SocketAddr>, peer: SocketAddr) -> Missing {
    let what = format!("service at {peer}");
    let own = local.map(|local| local.ip()).or_else(|| source_address(peer));
    let is_local = peer.ip().is_loopback() || own == Some(peer.ip());
    if !is_local {
        return Missing::skipped(what, "it is not on this machine");
    }
    let why = if local.is_some() {
        "the connection is forwarded to another network namespace, as a container's published port is: \
         name the service in the configuration (service = \"UNIT\")"
    } else {
        "nothing listens there"
    };
    Missing::failed(what, why)
}

/// The address that the kernel would send from: that of the machine itself is its own.
fn source_address(peer: SocketAddr) -> Option<std::net::IpAddr> {
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = std::net::UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The queue of the socket that listens at the other end of a connection: a full one is not a slow answer.
pub fn listen_queue(connection: &Connection) -> Option<ListenQueue> {
    let (waiting, limit) = match connection {
        Connection::Tcp { peer, .. } => {
            let socket = sockets::tcp(*peer, None)?;
            (socket.waiting, socket.limit?)
        }
        Connection::Unix { path, .. } => sockets::unix_queue(sockets::unix_listener(path)?)?,
    };
    Some(ListenQueue { waiting, limit })
}

fn is_socket_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

#[cfg(test)]
mod tests;
