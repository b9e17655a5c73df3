//! Recordings in a data set: nothing is lost or doubled, whatever fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use mw_model::{Host, INCIDENT_SCHEMA, Incident};
use mw_record::{Retention, Writer};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// 2023-11-14T23:50:00Z.
const START_MS: u64 = 1_700_005_800_000;

const PATIENCE: Duration = Duration::from_secs(60);

/// A recording, a data set and a directory of state.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// From ten minutes before midnight to ten after it, a row in ten seconds, each with two more stalls.
    fn new() -> Self {
        let machine = Self { dir: TempDir::new().unwrap() };
        std::fs::create_dir(machine.data()).unwrap();
        machine.record((0..120).map(|row| (START_MS + row * 10_000, row * 2)));
        machine
    }

    fn record(&self, rows: impl Iterator<Item = (u64, u64)>) {
        let incident = Incident {
            schema: INCIDENT_SCHEMA,
            started_unix_ms: START_MS + 660_000,
            ended_unix_ms: START_MS + 662_000,
            verdict: "db did not answer".to_owned(),
            ..Incident::default()
        };
        self.record_with(rows, Some(incident));
    }

    fn record_with(&self, rows: impl Iterator<Item = (u64, u64)>, incident: Option<Incident>) {
        let host = Host { name: "db1".to_owned(), ..Host::default() };
        let writer = Writer::start(&self.recording(), &host, Retention::default()).unwrap();
        writer.layout(&["vmstat.allocstall", "meminfo.MemFree"].map(str::to_owned));
        for (at, stalls) in rows {
            mw_test::wait_until("room for a row", PATIENCE, || {
                writer.offer(at, &[stalls, 1 << 30])
            });
        }
        if let Some(incident) = incident {
            writer.keep_incident(incident).unwrap();
        }
        assert!(writer.finish(PATIENCE));
    }

    fn recording(&self) -> PathBuf {
        self.dir.path().join("recording.db")
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn command(&self, to: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.args(["ship", "--to", to, "--recording"]).arg(self.recording());
        command.arg("--state-dir").arg(self.dir.path());
        command.env_remove("AWS_ENDPOINT_URL").env_remove("AWS_ACCESS_KEY_ID");
        command
    }

    fn ship(&self) -> String {
        said(&self.command(self.data().to_str().unwrap()).output().unwrap())
    }

    /// All files of the data set with rows, with their contents.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut dirs = vec![self.data()];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => dirs.push(path),
                    false => {
                        let key = path.strip_prefix(self.data()).unwrap().display().to_string();
                        files.insert(key, std::fs::read(&path).unwrap());
                    }
                }
            }
        }
        files.retain(|key, _| !is_of_columns(key));
        files
    }
}

/// True if this is a file without rows, which each table has.
fn is_of_columns(key: &str) -> bool {
    key.contains("/date=1970-01-01/host=none/columns-")
}

fn said(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The sum of a column over all rows of a file, and how many rows there are.
fn sum(file: &[u8], name: &str) -> (i64, usize) {
    let reader = SerializedFileReader::new(parquet_bytes(file)).unwrap();
    let (mut sum, mut rows) = (0, 0);
    for row in reader.get_row_iter(None).unwrap() {
        for (column, field) in row.unwrap().get_column_iter() {
            if let (true, Field::Long(value)) = (column == name, field) {
                sum += value;
            }
        }
        rows += 1;
    }
    (sum, rows)
}

fn parquet_bytes(file: &[u8]) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(file)
}

/// Of all files of a table.
fn total(files: &BTreeMap<String, Vec<u8>>, table: &str, column: &str) -> (i64, usize) {
    let own = files.iter().filter(|(key, _)| key.contains(&format!("{table}/date=")));
    own.map(|(_, file)| sum(file, column)).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
}

/// Promise (Fixing): `ship` loses and doubles no row, whatever the server, the note and the clock do; a file appears
/// whole or not at all.
#[test]
fn a_day_is_one_file_and_is_complete_once() {
    let machine = Machine::new();
    let said = machine.ship();
    assert!(said.starts_with("shipped 2 days of db1 to /"), "{said}");
    assert!(said.ends_with("; complete until 2023-11-15\n"), "{said}");
    let files = machine.files();
    let dates: Vec<&str> = files.keys().filter_map(|key| key.split('/').nth(1)).collect();
    assert_eq!(
        dates,
        [
            "date=2023-11-15",
            "date=2023-11-14",
            "date=2023-11-15",
            "date=2023-11-15",
            "date=2023-11-14",
            "date=2023-11-15"
        ],
        "{:?}",
        files.keys()
    );
    // 120 rows, the first without one before it.
    assert_eq!(total(&files, "minutes", "allocation_stalls"), (238, 20));
    assert_eq!(total(&files, "minutes", "rows"), (120, 20));
    assert_eq!(total(&files, "hours", "allocation_stalls"), (238, 2));
    assert_eq!(total(&files, "hours", "minutes"), (20, 2));
    assert_eq!(total(&files, "incidents", "lasted_ms"), (2000, 1));
    assert_eq!(total(&files, "blame", "lost_ms"), (2000, 1));
    assert_eq!(
        machine.ship(),
        format!("nothing new of db1 for {}; complete until 2023-11-15\n", machine.data().display())
    );
}

/// The first machine of a fleet has had no incident yet, and its name is not that of this machine, so that there are no
/// facts: the queries say so, and do not fail for want of a table.
#[test]
fn every_query_runs_over_the_first_machine_and_once_compacted() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let Some(python) = mw_test::python_with_duckdb(target) else { return };
    let machine = Machine { dir: TempDir::new().unwrap() };
    std::fs::create_dir(machine.data()).unwrap();
    machine.record_with((0..120).map(|row| (START_MS + row * 10_000, row * 2)), None);
    machine.ship();
    let script = machine.dir.path().join("ask.py");
    std::fs::write(&script, ASK).unwrap();
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fleet");
    let asked = Command::new(python).arg(script).arg(fleet).current_dir(machine.data()).output();
    let said = said(&asked.unwrap());
    let rows = "headroom [('db1', None, None, None)]\nkernels [('unknown', 1, 0.0, 0, 0.0)]\n\
        pressure [('db1', None, None, None)]\n";
    assert_eq!(said, format!("{rows}{rows}"));
}

/// Prints what the queries say over a data set, and over the one that compact.sql makes of it.
const ASK: &str = r#"
import duckdb, os, pathlib, sys
fleet = pathlib.Path(sys.argv[1])
db = duckdb.connect()
os.mkdir("compacted")
for directory in [".", "compacted"]:
    os.chdir(directory)
    db.execute((fleet / "duckdb.sql").read_text())
    for query in sorted((fleet / "queries").glob("*.sql")):
        rows = db.execute(query.read_text()).fetchall()
        if rows:
            print(query.stem, rows)
    db.execute((fleet / "compact.sql").read_text()) if directory == "." else None
"#;

#[test]
fn without_the_state_the_same_is_shipped_again() {
    let machine = Machine::new();
    machine.ship();
    let before = machine.files();
    for state in [None, Some("{\"x\":"), Some("[]")] {
        let path = machine.dir.path().join("ship.json");
        match state {
            None => std::fs::remove_file(&path).unwrap(),
            Some(text) => std::fs::write(&path, text).unwrap(),
        }
        // What it stopped in the middle of is left behind.
        let left = machine.data().join("minutes/date=2023-11-15/host=db1/x.new");
        std::fs::write(&left, "half").unwrap();
        assert!(machine.ship().contains("complete until 2023-11-15"));
        std::fs::remove_file(&left).unwrap();
        assert!(machine.files() == before);
    }
}

/// A link in the data set does not make root write to another file.
#[test]
fn a_link_is_not_followed() {
    let machine = Machine::new();
    machine.ship();
    let victim = machine.dir.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let file =
        machine.files().into_keys().find(|key| key.starts_with("minutes/date=2023-11-15")).unwrap();
    let path = machine.data().join(file);
    std::os::unix::fs::symlink(&victim, path.with_extension("new")).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    std::fs::remove_file(machine.dir.path().join("ship.json")).unwrap();
    machine.ship();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!path.is_symlink() && sum(&std::fs::read(&path).unwrap(), "rows").1 == 10);
}

/// The retention has deleted the beginning of the day meanwhile.
#[test]
fn a_day_whose_beginning_is_lost_does_not_replace_the_whole() {
    let machine = Machine::new();
    machine.ship();
    let whole =
        machine.files().into_keys().find(|key| key.starts_with("minutes/date=2023-11-14")).unwrap();
    std::fs::write(machine.data().join(&whole), "whole").unwrap();
    std::fs::remove_file(machine.dir.path().join("ship.json")).unwrap();
    machine.ship();
    assert_eq!(machine.files()[&whole], b"whole");
}

/// The file of today is rewritten as rows are added.
#[test]
fn what_is_recorded_later_is_added() {
    let machine = Machine { dir: TempDir::new().unwrap() };
    std::fs::create_dir(machine.data()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    machine.record((0..30).map(|row| (now - 60_000 + row * 1000, row)));
    assert!(!machine.ship().contains("complete until 2023"));
    let first = machine.files();
    // Nothing has changed but the time of the facts, which another machine's recording has not.
    assert!(machine.ship().starts_with("nothing new of db1"));
    machine.record((30..60).map(|row| (now - 60_000 + row * 1000, row)));
    machine.ship();
    let then = machine.files();
    assert_eq!(total(&first, "minutes", "allocation_stalls").0, 29);
    assert_eq!(total(&then, "minutes", "allocation_stalls").0, 59);
    assert_eq!(total(&then, "minutes", "rows").0, 60);
    assert!(first.keys().eq(then.keys()), "{:?}", then.keys());
}

/// Contents of a bucket, and its replies.
#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Vec<u8>>,
    /// Answers that come first.
    faults: Vec<&'static str>,
    requests: usize,
}

/// A server that speaks as much of S3 as is asked of it, and is in trouble first.
fn s3(faults: &[&'static str]) -> (u16, Arc<Mutex<Store>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let store = Arc::new(Mutex::new(Store { faults: faults.to_vec(), ..Store::default() }));
    let shared = Arc::clone(&store);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            answer(client, &mut shared.lock().unwrap());
        }
    });
    (port, store)
}

fn answer(mut client: TcpStream, store: &mut Store) {
    let Some((head, body)) = mw_test::read_request_bytes(&client) else { return };
    store.requests += 1;
    let line = head.lines().next().unwrap_or_default();
    let (method, target) = line.split_once(' ').unwrap_or_default();
    let key = target.split(['?', ' ']).next().unwrap_or_default().replace("%3D", "=");
    assert!(target.contains("X-Amz-Signature="), "{target}");
    let status = match store.faults.pop() {
        Some("close") => return,
        // It is stored, and the client does not learn of it.
        Some("lost") => {
            store.objects.insert(key, body);
            return;
        }
        Some(fault) => fault,
        None if method == "PUT" => {
            store.objects.insert(key, body);
            "200 OK"
        }
        None if store.objects.contains_key(&key) => "200 OK",
        None => "404 Not Found",
    };
    let text = match (method, status) {
        ("HEAD", _) | (_, "200 OK") => "",
        _ => "<?xml version=\"1.0\"?><Error><Code>SomeCode</Code><Message>no</Message></Error>",
    };
    let _ = write!(
        client,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
}

fn to_s3(machine: &Machine, port: u16) -> Command {
    let mut command = machine.command("s3://fleet/memwright");
    command.arg("--endpoint").arg(format!("http://127.0.0.1:{port}"));
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "topsecret");
    command
}

#[test]
fn a_bucket_in_trouble_gets_all_of_it_once() {
    let machine = Machine::new();
    let (port, store) =
        s3(&["close", "lost", "503 Slow Down", "404 Not Found", "429 Too Many Requests"]);
    let text = said(&to_s3(&machine, port).output().unwrap());
    assert!(text.contains("complete until 2023-11-15"), "{text}");
    let mut objects = store.lock().unwrap().objects.clone();
    assert_eq!(objects.keys().filter(|key| is_of_columns(key)).count(), 6, "{:?}", objects.keys());
    objects.retain(|key, _| !is_of_columns(key));
    assert_eq!(objects.len(), 6, "{:?}", objects.keys());
    assert!(objects.keys().all(|key| key.starts_with("/fleet/memwright/")), "{:?}", objects.keys());
    assert_eq!(total(&objects, "minutes", "allocation_stalls"), (238, 20));
    // The same rows as in a directory.
    machine.ship();
    assert!(machine.files().values().eq(objects.values()));
}

#[test]
fn a_bucket_that_refuses_is_one_line_and_goes_on_later() {
    let machine = Machine::new();
    // The last comes first: there is no such object, and it is refused.
    let (port, store) = s3(&["403 Forbidden", "404 Not Found"]);
    let refused = to_s3(&machine, port).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(3), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("PUT s3://fleet/memwright/hours/date=2023-11-14/"), "{error}");
    assert!(error.contains("HTTP 403 SomeCode"), "{error}");
    assert!(!error.contains("topsecret") && !error.contains("Signature"), "{error}");
    said(&to_s3(&machine, port).output().unwrap());
    assert_eq!(total(&store.lock().unwrap().objects, "minutes", "rows"), (120, 20));
    // Nobody listens.
    let start = std::time::Instant::now();
    std::fs::remove_file(machine.dir.path().join("ship.json")).unwrap();
    let nobody = to_s3(&machine, 1).output().unwrap();
    assert_eq!(nobody.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains(", 4 times"));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    let machine = Machine::new();
    let data = machine.data();
    let data = data.to_str().unwrap();
    let none = machine.dir.path().join("not-mounted");
    let open = machine.dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o1777)).unwrap();
    for (to, more, code, part) in [
        (
            none.to_str().unwrap(),
            &[][..],
            3,
            "there is no such directory; mount its file system, or create it",
        ),
        (open.to_str().unwrap(), &[][..], 3, "anyone may write there"),
        (data, &["--host", "../x"][..], 2, "choose another one with --host"),
        (data, &["--host", ""][..], 2, "choose another one with --host"),
        (data, &["--state-dir", "/nowhere"][..], 3, "choose one with --state-dir"),
        ("s3://fleet", &[][..], 2, "set AWS_ACCESS_KEY_ID"),
        ("s3://", &[][..], 2, "use s3://BUCKET/PREFIX"),
        ("s3://fleet/../other", &[][..], 2, "use s3://BUCKET/PREFIX"),
    ] {
        let mut command = machine.command(to);
        if more.first() == Some(&"--state-dir") {
            command = Command::new(env!("CARGO_BIN_EXE_memwright"));
            command.args(["ship", "--to", to, "--recording"]).arg(machine.recording());
        }
        let ended = command.args(more).output().unwrap();
        let error = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{to} {more:?}: {error}");
        assert!(error.contains(part) && error.lines().count() == 1, "{to} {more:?}: {error}");
    }
    // A signature is as good as a token.
    let mut plain = machine.command("s3://fleet");
    plain.args(["--endpoint", "http://minio.example"]);
    plain.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    let ended = plain.output().unwrap();
    assert_eq!(ended.status.code(), Some(2), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(machine.files().is_empty());
}

#[test]
fn two_at_once_are_one_after_the_other() {
    let machine = Machine::new();
    let lock = std::fs::File::create(machine.dir.path().join("ship.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ended = machine.command(machine.data().to_str().unwrap()).output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(3), "{error}");
    assert!(error.contains("another memwright ship is at work"), "{error}");
    assert!(machine.files().is_empty());
}
