//! A PostgreSQL server, queried over its socket: psql takes 20 ms to start.

use crate::common;
use crate::workloads::postgres::programs;
use crate::workloads::{Harness, Scale, Service, unprivileged};
use rustix::process::{Pid, Signal};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Interval at which the start is polled, and its time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const TIMEOUT: Duration = Duration::from_secs(180);

/// Version 3.0 of the protocol, the user and the database.
const STARTUP: &[u8] = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";

/// Every row fills a page.
const FILL: &str = "CREATE EXTENSION pg_prewarm; CREATE TABLE pages (n bigint, filler text); ALTER TABLE pages \
     ALTER filler SET STORAGE PLAIN; INSERT INTO pages SELECT n, repeat(md5(n::text), 240) FROM \
     generate_series(1, COUNT) n";

pub(crate) struct Cluster {
    harness: Harness,
    bin: PathBuf,
    buffers: String,
}

impl Cluster {
    /// With so many MiB of shared buffers and of data; none if PostgreSQL is not installed.
    pub(crate) fn new(buffers_mib: usize, table_mib: usize) -> Option<Self> {
        let bin = programs()?;
        let harness = Harness::new(Scale::Large(buffers_mib), None);
        harness.version(bin.join("postgres"), "--version");
        let cluster = Self { harness, bin, buffers: format!("shared_buffers={buffers_mib}MB") };
        let mut initdb = cluster.harness.plain_command(cluster.bin.join("initdb"));
        unprivileged(&mut initdb).args(["-k", "-N", "-A", "trust", "-U", "postgres", "-D"]);
        common::run(initdb.arg(cluster.data()));
        let (mut server, _) = cluster.start(false, &[]);
        server.query(&FILL.replace("COUNT", &(table_mib * 128).to_string()));
        server.query("VACUUM (FREEZE, ANALYZE) pages");
        server.stop();
        Some(cluster)
    }

    fn data(&self) -> PathBuf {
        self.harness.path("data")
    }

    /// Before a timed start: see [`Harness::touch_memory`].
    pub(crate) fn touch_memory(&self) {
        self.harness.touch_memory();
    }

    pub(crate) fn version(self) -> String {
        self.harness.outcome().version
    }

    /// The size of its shared memory.
    pub(crate) fn shared_mib(&self) -> usize {
        let mut postgres = self.postgres(false);
        let printed = common::text(common::run(postgres.args(["-C", "shared_memory_size"])));
        printed.trim().trim_end_matches("MB").parse().unwrap()
    }

    fn postgres(&self, huge: bool) -> Command {
        let mut postgres = self.harness.command(self.bin.join("postgres"));
        unprivileged(&mut postgres).arg("-D").arg(self.data()).arg("-k").arg(self.harness.dir());
        for setting in [
            self.buffers.as_str(),
            if huge { "huge_pages=on" } else { "huge_pages=off" },
            "shared_memory_type=mmap",
            "listen_addresses=",
            "max_parallel_workers_per_gather=0",
            // So that filling a table in the transaction that creates it is not logged.
            "wal_level=minimal",
            "max_wal_senders=0",
        ] {
            postgres.args(["-c", setting]);
        }
        postgres
    }

    /// Starts it, with the library if variables for it are given; returns the time to its first reply.
    pub(crate) fn start(&self, huge: bool, variables: &[(&str, &str)]) -> (Server, Duration) {
        let mut postgres = self.postgres(huge);
        if !variables.is_empty() {
            postgres.env("LD_PRELOAD", self.harness.path("library.so"));
            postgres.envs(variables.iter().copied());
        }
        let socket = self.harness.path(".s.PGSQL.5432");
        let start = Instant::now();
        let service = Service::start(&mut postgres);
        let session = loop {
            match connect(&socket) {
                Ok(session) => break session,
                Err(error) if start.elapsed() > TIMEOUT => {
                    panic!("no reply: {error}\n{}", self.harness.errors())
                }
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        };
        (Server { service, session }, start.elapsed())
    }
}

fn connect(socket: &Path) -> io::Result<Session> {
    let mut session = Session::new(socket)?;
    session.query("SELECT 1")?;
    Ok(session)
}

/// A server that has replied.
pub(crate) struct Server {
    service: Service,
    session: Session,
}

impl Server {
    pub(crate) fn query(&mut self, sql: &str) -> String {
        self.session.query(sql).unwrap()
    }

    /// Page faults of all its processes, ended ones too (proc_pid_stat(5), minflt and cminflt).
    pub(crate) fn faults(&self) -> u64 {
        let own = Pid::from_raw(self.service.id().cast_signed());
        own.into_iter().chain(self.service.children()).map(faults).sum()
    }

    /// Stops it as a service manager does, and returns the time.
    pub(crate) fn stop(self) -> Duration {
        drop(self.session);
        let start = Instant::now();
        self.service.signal(Signal::INT);
        let ended = self.service.wait();
        assert!(ended.success(), "{ended}");
        start.elapsed()
    }
}

fn faults(process: Pid) -> u64 {
    let path = format!("/proc/{}/stat", process.as_raw_nonzero());
    // A process that has ended in the meantime is counted with its parent.
    let stat = fs::read_to_string(path).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let counts = after_name.split(' ').skip(7).take(2).flat_map(str::parse::<u64>);
    counts.sum()
}

struct Session(UnixStream);

impl Session {
    fn new(socket: &Path) -> io::Result<Self> {
        let mut session = Self(UnixStream::connect(socket)?);
        session.send(STARTUP)?;
        session.read_reply()?;
        Ok(session)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let length = u32::try_from(message.len() + 4).map_err(io::Error::other)?;
        self.0.write_all(&[&length.to_be_bytes(), message].concat())
    }

    /// The values that a query returns, separated by spaces.
    fn query(&mut self, sql: &str) -> io::Result<String> {
        self.0.write_all(b"Q")?;
        self.send(&[sql.as_bytes(), b"\0"].concat())?;
        self.read_reply()
    }

    /// Reads until the server is ready for a query.
    fn read_reply(&mut self) -> io::Result<String> {
        let (mut values, mut failure) = (Vec::new(), None);
        loop {
            let mut head = [0; 5];
            if let Err(error) = self.0.read_exact(&mut head) {
                return Err(failure.unwrap_or(error));
            }
            let [kind, length @ ..] = head;
            let length = u32::from_be_bytes(length).saturating_sub(4);
            let mut body = Vec::new();
            (&self.0).take(length.into()).read_to_end(&mut body)?;
            match kind {
                b'D' => values.extend(columns(&body)),
                b'E' => failure = Some(io::Error::other(String::from_utf8_lossy(&body))),
                b'Z' => return failure.map_or(Ok(values.join(" ")), Err),
                _ => {}
            }
        }
    }
}

/// The values of a row without nulls.
fn columns(row: &[u8]) -> Vec<String> {
    let (mut rest, mut values) = (&row[2..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let (value, next) = after.split_at(u32::from_be_bytes(*length) as usize);
        values.push(String::from_utf8_lossy(value).into_owned());
        rest = next;
    }
    values
}
