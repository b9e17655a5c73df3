//! Real kills of the OOM killer, within cgroups of this test: an incident of each, also where no probe sees it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_model::{Incident, OomShortage, Subject, TriggerKind};
use mw_probe::ProbeSpec;
use mw_test::TestCgroup;
use mw_watch::{Watch, WatchEvent, WatchOptions};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT_BYTES: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// A group whose processes end with it.
struct Group(TestCgroup);

impl Drop for Group {
    fn drop(&mut self) {
        let members = std::fs::read_to_string(self.0.members()).unwrap_or_default();
        if !members.is_empty() {
            let _ = Command::new("kill").arg("-9").args(members.lines()).status();
        }
    }
}

/// A group that does not swap; `None`, which is said, where this machine has none for memory.
fn group() -> Option<Group> {
    match TestCgroup::with_memory(LIMIT_BYTES) {
        Ok(group) => {
            let _ = std::fs::write(group.path().join("memory.swap.max"), "0");
            let _ = std::fs::write(group.path().join("memory.swappiness"), "0");
            Some(Group(group))
        }
        Err(error) => {
            mw_test::skip(format!("no memory cgroup: {error}"));
            None
        }
    }
}

/// A program within a group.
fn within(group: &Group, script: &str) -> Child {
    let command = format!("echo $$ >'{}' && {script}", group.0.members().display());
    Command::new("sh").args(["-c", &command]).stdout(Stdio::piped()).spawn().unwrap()
}

fn watch(dir: &TempDir, probes: Vec<ProbeSpec>) -> Watch {
    Watch::start(WatchOptions {
        probes,
        canary: None,
        profile: false,
        ..WatchOptions::new(dir.path().join("recording.db"))
    })
    .unwrap()
}

/// The incident of kills with this one among them, once it is closed.
fn incident(watch: &Watch, is_it: impl Fn(&Incident) -> bool) -> Incident {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match watch.event(Duration::from_secs(1)) {
            Some(WatchEvent::Incident(incident)) if is_it(&incident) => return *incident,
            Some(WatchEvent::Delayed { error, .. }) => panic!("{error}"),
            _ => {}
        }
    }
    panic!("no incident");
}

fn kills(incident: &Incident, name: &str) -> bool {
    let oom = incident.oom.as_ref();
    incident.trigger.kind == TriggerKind::OomKill
        && oom.is_some_and(|oom| oom.victims.iter().any(|victim| victim.process.name == name))
}

#[test]
fn kills_one_after_another_are_one_incident_with_whom_and_why() {
    if !mw_test::is_root() {
        return;
    }
    let _turn = mw_test::alone();
    let Some(group) = group() else { return };
    let dir = TempDir::new().unwrap();
    let watch = watch(&dir, Vec::new());
    // Its name is one that a careless reader takes for the kernel's words.
    let hog = dir.path().join("x),uid=0 (7) a");
    std::os::unix::fs::symlink("/usr/bin/tail", &hog).unwrap();
    let script = format!("for n in 1 2 3; do '{}' /dev/zero; done", hog.display());
    let status = within(&group, &script).wait().unwrap();
    assert!(!status.success(), "{status}");
    let name = "x),uid=0 (7) a";
    let incident = incident(&watch, |incident| kills(incident, name));
    let oom = incident.oom.unwrap();
    let victim = oom.victims.iter().find(|victim| victim.process.name == name).unwrap();
    assert_eq!(victim.count, 3, "{oom:#?}");
    let OomShortage::Cgroup(Some(path)) = &victim.shortage else { panic!("{oom:#?}") };
    assert!(group.0.path().ends_with(path.trim_start_matches('/')), "{path}");
    assert_eq!(victim.limit_bytes, Some(LIMIT_BYTES));
    assert!(victim.resident_bytes > Some(LIMIT_BYTES / 2), "{victim:?}");
    assert_eq!(oom.holders[0].process.name, name, "{oom:#?}");
    let cause = &incident.causes[0].finding;
    assert_eq!(cause.rule, "oom-kill");
    let expected = format!("{name} (3 times, last {})", victim.process.pid);
    assert!(incident.verdict.contains(&expected), "{}", incident.verdict);
    // Another test may have had a process killed meanwhile.
    if oom.victims.len() == 1 {
        assert_eq!(cause.subject, Subject::Cgroup(Some(path.clone())));
        let evidence = format!("{:?}", cause.evidence);
        assert!(evidence.contains(&format!("at the memory limit of {path} (64")), "{evidence}");
    }
    assert_eq!(incident.causing[0].task, name);
    assert!(oom.services.is_empty());
}

/// Anybody can have his own processes killed all the time, under as many names as he likes.
///
/// Promise (The recorder): A kill of the OOM killer is an incident of its own, also between two probes and where
/// nobody probes: who was killed, at whose limit, who held most memory, and what became of the service; those of one
/// cgroup hide none of another.
#[test]
fn a_kill_beside_those_of_another_cgroup_is_an_incident_of_its_own() {
    if !mw_test::is_root() {
        return;
    }
    let _turn = mw_test::alone();
    let (Some(his), Some(own)) = (group(), group()) else { return };
    let dir = TempDir::new().unwrap();
    let watch = watch(&dir, Vec::new());
    for name in (0..17).map(|n| format!("his-{n}")).chain(["database".to_owned()]) {
        std::os::unix::fs::symlink("/usr/bin/tail", dir.path().join(name)).unwrap();
    }
    let script = format!(
        "while :; do for n in $(seq 0 16); do '{}/his-'$n /dev/zero; sleep 0.5; done; done",
        dir.path().display()
    );
    let mut flood = within(&his, &script);
    let begun = |watch: &Watch| {
        let is_kill = |event: &WatchEvent| matches!(event, WatchEvent::Begun(trigger) if trigger.kind == TriggerKind::OomKill);
        let until = Instant::now() + PATIENCE;
        while !watch.event(Duration::from_secs(1)).as_ref().is_some_and(is_kill) {
            assert!(Instant::now() < until, "no kill was seen");
        }
    };
    begun(&watch);
    let script = format!("'{}/database' /dev/zero", dir.path().display());
    let _ = within(&own, &script).wait();
    begun(&watch);
    let incident = incident(&watch, |incident| kills(incident, "database"));
    let _ = flood.kill();
    let oom = incident.oom.unwrap();
    assert_eq!((oom.count, oom.victims.len()), (1, 1), "{oom:#?}");
    assert!(incident.verdict.contains("database ("), "{}", incident.verdict);
    drop((watch, his));
    let _ = flood.wait();
}

/// A service that grows when it is asked for `/grow`, and a supervisor that starts it again at once.
const SERVICE: &str = "
import http.server, os, socketserver
kept = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/grow':
            kept.append(b'x' * (256 << 20))
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *args):
        pass
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
server = Server(('127.0.0.1', int(os.environ['PORT'])), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
";

#[test]
fn a_service_killed_between_two_probes_is_reported_with_what_became_of_it() {
    if !mw_test::is_root() {
        return;
    }
    let _turn = mw_test::alone();
    let Some(group) = group() else { return };
    let dir = TempDir::new().unwrap();
    let program = dir.path().join("service.py");
    std::fs::write(&program, SERVICE).unwrap();
    // The port of the first is that of the others.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let script = format!(
        "PORT={}; export PORT; for n in 1 2; do python3 {}; done",
        address.port(),
        program.display()
    );
    let mut service = within(&group, &script);
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let spec = ProbeSpec {
        name: "web".to_owned(),
        target: format!("http://{address}/").parse().unwrap(),
        limit: Duration::from_secs(2),
        interval: Duration::from_secs(4),
        timeout: Duration::from_secs(5),
        details: mw_probe::Details::default(),
    };
    let watch = watch(&dir, vec![spec]);
    // The recorder looks for the service every 10 s, and the first time after a second.
    std::thread::sleep(Duration::from_secs(5));
    let _ = Command::new("curl").args(["-s", &format!("http://{address}/grow")]).status();
    lines.next().unwrap().unwrap();
    let incident = incident(&watch, |incident| kills(incident, "python3"));
    let oom = incident.oom.clone().unwrap();
    let [fate] = oom.services.as_slice() else { panic!("{oom:#?}") };
    assert_eq!((fate.probe.as_str(), fate.still_runs), ("web", false));
    assert_eq!((fate.listens, fate.answers), (Some(true), Some(true)), "{fate:?}");
    let again = fate.listener.as_ref().unwrap();
    assert_ne!(again.pid, fate.former.pid);
    let expected = format!("started again as python3 ({}) and answers", again.pid);
    let evidence = format!("{:?}", incident.causes[0].finding.evidence);
    assert!(evidence.contains(&expected), "{evidence}");
    drop((watch, group));
    let _ = service.wait();
}
