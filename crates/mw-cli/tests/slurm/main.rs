//! `memwright slurm` with a real Slurm of two nodes: who drained a node, and what comes of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod cluster;

use cluster::{Cluster, HEALTHY, PATIENCE, SICK, memwright, write_script};
use mw_test::fixture;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// In which slurmd wants its health program to end.
const SLURMD_LIMIT: Duration = Duration::from_secs(60);
const REASON: &str = "memwright: fragmented-node: ";

/// Of a node that was drained here, and is idle.
const RECORD: &str = include_str!("../../../mw-cluster/src/slurm/node/drained.txt");
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The machine could not be told from slurmctld: one line says why, and slurmd has not killed it.
#[track_caller]
fn assert_one_line(output: &Output, took: Duration, part: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(said.lines().count() == 1 && said.contains(part), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(took < SLURMD_LIMIT, "{took:?}");
}

#[test]
fn a_node_with_a_hazard_is_drained_within_an_interval_and_resumed_without() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start("");
    for node in ["n1", "n2"] {
        cluster.wait_for_a_run(node);
        assert_eq!(cluster.node(node).unwrap(), ("IDLE".to_owned(), String::new()));
    }

    let before = cluster.runs("n1").len();
    cluster.set_sick("n1", true);
    cluster.wait_for_state("n1", "IDLE+DRAIN");
    // The last run before may have had the tree read already.
    let runs = cluster.runs("n1");
    let drained = runs.iter().position(|run| run.starts_with("node n1: drained: "));
    assert!(drained.is_some_and(|run| run <= before), "{before}: {runs:?}");
    let listed = cluster.output(&["sinfo", "--noheader", "--list-reasons", "--format=%N %E %u"]);
    assert!(
        listed.starts_with(&format!("n1 {REASON}")) && listed.trim().ends_with(" root"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let refused = cluster.run(&["srun", "--immediate=2", "--nodelist=n1", "true"]);
    assert!(!refused.status.success(), "{refused:?}");
    assert_eq!(cluster.output(&["srun", "--nodes=1", "echo", "ran"]).trim(), "ran");
    // It stays so, and its reason is not written again.
    let drained = cluster.output(&["scontrol", "show", "node", "n1"]);
    let reason = |text: &str| text.lines().find(|line| line.contains("Reason=")).map(str::to_owned);
    cluster.wait_for_a_run("n1");
    let now = cluster.output(&["scontrol", "show", "node", "n1"]);
    assert_eq!(reason(&now), reason(&drained));

    cluster.set_sick("n1", false);
    cluster.wait_for_state("n1", "IDLE");
    assert_eq!(cluster.node("n1").unwrap().1, "");
    let both = cluster.output(&["srun", "--nodes=2", "echo", "ran"]);
    assert_eq!(both, "ran\nran\n", "{}", cluster.logs());
    // The prolog could not make room each time, and held no job.
    let prologs = fs::read_to_string(cluster.dir.path().join("prologs")).unwrap();
    assert!(prologs.lines().count() >= 3 && prologs.lines().all(|code| code == "0"), "{prologs}");
}

#[test]
fn a_node_is_drained_before_its_first_job() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start_with("--after 0s", [SICK, HEALTHY], ["IDLE+DRAIN", "IDLE"]);
    // slurmd had not registered yet.
    assert!(cluster.runs("n1")[0].starts_with("node n1: drained: "), "{:?}", cluster.runs("n1"));
}

/// Promise (Fixing): `slurm health` drains a node for a hazard of the machine that lasts, with the rule as the
/// reason, and resumes it once the hazard is gone and it has no jobs.
#[test]
fn a_hazard_that_does_not_last_drains_nothing() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start_with(
        "--after 1s --state-dir state.$SLURMD_NODENAME",
        [HEALTHY; 2],
        ["IDLE"; 2],
    );
    let before = cluster.runs("n1").len();
    cluster.set_sick("n1", true);
    cluster.wait_for_state("n1", "IDLE+DRAIN");
    let runs = cluster.runs("n1");
    let of_sick: Vec<&String> =
        runs.iter().skip(before.saturating_sub(1)).filter(|run| run.contains(REASON)).collect();
    let not_yet = "node n1: found, to be drained if it lasts: ";
    let drained = of_sick.iter().position(|run| run.starts_with("node n1: drained: "));
    assert!(drained >= Some(2), "{of_sick:?}");
    assert!(of_sick.iter().take(2).all(|run| run.starts_with(not_yet)), "{of_sick:?}");
}

/// Promise (Fixing): `slurm health` neither changes nor ends a drain that others have begun or taken over, and ends
/// none of its own whose rule could not be checked.
#[test]
fn what_others_have_drained_is_left_alone() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start("");
    let theirs = ("IDLE+DRAIN".to_owned(), "fan broken".to_owned());
    let by_hand = ["scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=fan broken"];
    cluster.output(&by_hand);
    for is_sick in [true, false] {
        cluster.set_sick("n1", is_sick);
        cluster.wait_for_a_run("n1");
        assert_eq!(cluster.node("n1").unwrap(), theirs, "{is_sick}");
    }
    // Drained here, and by an administrator meanwhile.
    cluster.set_sick("n2", true);
    cluster.wait_for_state("n2", "IDLE+DRAIN");
    assert!(cluster.node("n2").unwrap().1.starts_with(REASON));
    cluster.output(&by_hand.map(|word| if word == "NodeName=n1" { "NodeName=n2" } else { word }));
    cluster.set_sick("n2", false);
    cluster.wait_for_a_run("n2");
    assert_eq!(cluster.node("n2").unwrap(), theirs);
    // What others end is drained again while the hazard is there.
    cluster.set_sick("n1", true);
    cluster.output(&["scontrol", "update", "NodeName=n1", "State=RESUME"]);
    cluster.wait("a drain", || cluster.node("n1").unwrap().1.starts_with(REASON));
}

#[test]
fn a_node_is_resumed_once_its_jobs_have_ended() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start("");
    let mut srun = cluster.command("srun");
    srun.args(["--nodelist=n1", "sleep", "1000"]).stderr(Stdio::null());
    let mut job = mw_test::ChildGuard(srun.spawn().unwrap());
    cluster.wait_for_state("n1", "ALLOCATED");
    cluster.set_sick("n1", true);
    cluster.wait_for_state("n1", "ALLOCATED+DRAIN");
    cluster.set_sick("n1", false);
    cluster.wait_for_a_run("n1");
    assert_eq!(cluster.node("n1").unwrap().0, "ALLOCATED+DRAIN");
    cluster.output(&["scancel", "--nodelist=n1", "--state=RUNNING"]);
    mw_test::exit_within(&mut job.0, PATIENCE).unwrap();
    cluster.wait_for_state("n1", "IDLE");
}

/// The tree stays as it was recorded; the pages are real.
///
/// Promise (Fixing): `slurm health --make-room` makes room only on an idle node that it has drained.
#[test]
fn room_is_made_on_an_idle_drained_node() {
    if !mw_test::is_root() {
        return;
    }
    if !Path::new(POOL).exists() {
        mw_test::skip("no huge pages of 2 MiB");
        return;
    }
    let _alone = [mw_test::alone(), mw_test::huge_pages_alone()];
    mw_test::compact_memory();
    let number = |file: &str| -> u64 {
        let path = Path::new(POOL).join(file);
        fs::read_to_string(path).unwrap().trim().parse().unwrap()
    };
    let pages = || number("nr_hugepages");
    let before = pages();
    // Eight more than are free already.
    let request = format!("{}M,huge=2M", (number("free_hugepages") + 8) * 2);
    let state = TempDir::new().unwrap();
    let state_dir = state.path().to_str().unwrap();
    let cluster = Cluster::start(&format!("--make-room {request} --state-dir {state_dir}"));
    cluster.wait_for_a_run("n1");
    assert_eq!(pages(), before, "nothing is done on a healthy node");
    cluster.set_sick("n1", true);
    cluster.wait("pages of the pool", || pages() > before);
    assert!(pages() <= before + 8);
    let (node, reason) = cluster.node("n1").unwrap();
    assert!(node == "IDLE+DRAIN" && reason.starts_with(REASON), "{node} {reason}");
    // What is there already is not made again.
    cluster.wait_for_a_run("n1");
    assert!(pages() <= before + 8);
    cluster.set_sick("n1", false);
    cluster.wait_for_state("n1", "IDLE");
    let undone = Command::new(memwright()).args(["undo", "--state-dir", state_dir]).output();
    assert!(undone.unwrap().status.success());
    assert_eq!(pages(), before);
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start("--dry-run");
    let health = |root: &str, more: &[&str]| {
        let root = fixture(root);
        let mut command = cluster.command(memwright());
        command
            .args(["slurm", "health", "--after", "0s", "--node", "n1", "--root"])
            .arg(root)
            .args(more);
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    let (code, said) = health(SICK, &["--dry-run"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with(&format!("node n1: would be drained: {REASON}")), "{said}");
    let others: [&[&str]; 3] =
        [&["--severity", "never"], &["--drain-on", "oom-kill"], &["--job", "1M"]];
    for other in others {
        assert_eq!(health(SICK, other), (Some(0), "node n1: no hazard\n".to_owned()), "{other:?}");
    }
    assert_eq!(cluster.node("n1").unwrap().0, "IDLE");
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("record"), RECORD).unwrap();
    let shows = format!(
        "#!/bin/sh\ncase $1 in show) cat {}/record ;; *) exit 9 ;; esac\n",
        dir.path().display()
    );
    let (output, _) = with_scontrol(&dir, &shows, &["--dry-run", "--make-room", "1M"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.ends_with("; room would be made\n") && said.lines().count() == 1, "{said}");
    let unknown = cluster.run(&[memwright(), "slurm", "health", "--node", "n3", "--root", "/"]);
    assert_one_line(&unknown, Duration::ZERO, "Node n3 not found");
}

/// Slurm 22.05 has the field; that jobs are scheduled by it is new in 23.11.
///
/// Promise (Fixing): `slurm health --extra` keeps the keys of others, leaves what is no JSON object alone, and writes
/// a size that swings around a step once.
#[test]
fn what_a_node_offers_is_in_its_extra_field_beside_the_keys_of_others() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start("");
    let extra = || {
        let text = cluster.output(&["scontrol", "show", "node", "n1"]);
        text.lines().find_map(|line| line.trim().strip_prefix("Extra=").map(str::to_owned))
    };
    let health = |root: &str| {
        let mut command = cluster.command(memwright());
        command.args(["slurm", "health", "--after", "0s", "--node", "n1"]).args([
            "--severity",
            "never",
            "--extra",
        ]);
        let output = command.arg("--root").arg(fixture(root)).output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    cluster.output(&["scontrol", "update", "NodeName=n1", r#"Extra={"rack":"b2 c"}"#]);
    let (code, said) = health(HEALTHY);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(extra().unwrap(), r#"{"mem":1,"mem2m":1,"rack":"b2 c"}"#);
    assert_eq!(health(HEALTHY).1, "node n1: no hazard\n");
    assert_eq!(health(SICK).0, Some(0));
    assert_eq!(extra().unwrap(), r#"{"mem":1,"mem2m":0,"rack":"b2 c"}"#);
    cluster.output(&["scontrol", "update", "NodeName=n1", "Extra=rack b2"]);
    assert_eq!(health(SICK).0, Some(3));
    assert_eq!(extra().unwrap(), "rack b2");
}

/// Promise (Fixing): Without slurmctld, and with a `scontrol` that hangs or prints anything, `slurm health` ends
/// before slurmd kills it, with one line and nothing left running.
#[test]
fn without_slurmctld_one_line_says_so() {
    if !mw_test::is_root() {
        return;
    }
    let cluster = Cluster::start("");
    cluster.output(&["scontrol", "shutdown", "slurmctld"]);
    cluster.wait("the end of slurmctld", || !cluster.dir.path().join("slurmctld.pid").exists());
    let mut command = cluster.command(memwright());
    command.args(["slurm", "health", "--after", "0s", "--node", "n1", "--root"]).arg(fixture(SICK));
    let begun = Instant::now();
    let output = command.output().unwrap();
    assert_one_line(&output, begun.elapsed(), "scontrol");
}

/// A scontrol that is not Slurm's, in a directory that is searched first.
fn with_scontrol(dir: &TempDir, script: &str, words: &[&str]) -> (Output, Duration) {
    write_script(&dir.path().join("scontrol"), script);
    let mut command = Command::new(memwright());
    command
        .args(["slurm", "health", "--after", "0s", "--node", "n1", "--root"])
        .arg(fixture(SICK))
        .args(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()));
    let begun = Instant::now();
    let output = command.output().unwrap();
    (output, begun.elapsed())
}

/// Between the check and the change an administrator may have drained the node. The scontrol of this test answers with
/// recorded states in turn; after the first, the machine has no hazard any more, as if room had removed it.
#[test]
fn once_room_was_made_the_check_and_the_state_count_that_are_new() {
    if !mw_test::is_root() {
        return;
    }
    let theirs = RECORD.replace("memwright: fragmented-node", "fan broken");
    assert_ne!(theirs, RECORD);
    for (second, updates, said) in [
        (RECORD, "update NodeName=n1 State=RESUME\n", "resumed: the hazard is gone\n"),
        (&theirs, "", "drained or down by others, left alone: fan broken"),
    ] {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        cluster::place(SICK, &path("tree"));
        fs::write(path("states.1"), RECORD).unwrap();
        fs::write(path("states.2"), second).unwrap();
        fs::write(path("updates"), "").unwrap();
        let script = format!(
            "#!/bin/sh\ncd {}\ncase $1 in\n\
             show) echo >>shows; cat states.$(wc -l <shows); ln -sfn {} tree ;;\n\
             *) echo \"$@\" >>updates ;;\nesac\n",
            dir.path().display(),
            fixture(HEALTHY).display()
        );
        write_script(&path("scontrol"), &script);
        let mut command = Command::new(memwright());
        command.args([
            "slurm",
            "health",
            "--after",
            "0s",
            "--node",
            "n1",
            "--make-room",
            "1M",
            "--root",
        ]);
        command.arg(path("tree")).env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let printed = text(&output.stdout);
        assert!(printed.starts_with("ready: 1 MiB") && printed.contains(said), "{printed}");
        assert_eq!(fs::read_to_string(path("updates")).unwrap(), updates);
    }
}

#[test]
fn a_scontrol_that_hangs_is_killed_with_what_it_started() {
    let dir = TempDir::new().unwrap();
    let script = format!("#!/bin/sh\necho $$ >{}/pid\nsleep 1000\n", dir.path().display());
    let (output, took) = with_scontrol(&dir, &script, &[]);
    assert_one_line(&output, took, "scontrol did not end within 10 s");
    let group = fs::read_to_string(dir.path().join("pid")).unwrap();
    let left = || {
        let group = format!("--pgroup={}", group.trim());
        // A killed process that nobody has waited for is none.
        let list = Command::new("pgrep").args([&group, "--runstates", "RSD"]).output().unwrap();
        list.status.success()
    };
    mw_test::wait_until("the end of its group", PATIENCE, || !left());
}

#[test]
fn whatever_scontrol_prints_is_bounded_and_one_line() {
    let dir = TempDir::new().unwrap();
    let (output, took) = with_scontrol(&dir, "#!/bin/sh\nyes Reason=\n", &[]);
    assert_one_line(&output, took, "did not end within");
    let (output, took) = with_scontrol(&dir, "#!/bin/sh\necho nothing\n", &[]);
    assert_one_line(&output, took, "no state of node n1");
    let fails = "#!/bin/sh\nprintf 'first\\nlast\\033[31m\\n' >&2\nexit 1\n";
    let (output, took) = with_scontrol(&dir, fails, &[]);
    assert_one_line(&output, took, "scontrol: last");
    assert!(!text(&output.stderr).contains('\u{1b}'));
    for name in ["n[1-9]", "ALL", "n1,n2", ""] {
        let mut command = Command::new(memwright());
        let output =
            command.args(["slurm", "health", "--after", "0s", "--node", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
    }
}

/// Promise (Fixing): `slurm prolog` ends with exit code 0 whatever happens.
#[test]
fn a_prolog_never_fails() {
    let run = |words: &[&str]| {
        let output = Command::new(memwright()).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        text(&output.stdout) + &text(&output.stderr)
    };
    let said = run(&["slurm", "prolog", "--make-room", "100T,huge=2M"]);
    assert!(said.contains("not possible: 100 TiB"), "{said}");
    assert!(run(&["slurm", "prolog"]).contains("--make-room"));
    assert!(run(&["slurm", "prolog", "--make-room", "much"]).contains("much"));
    assert!(run(&["slurm", "prolog", "--unknown"]).contains("--unknown"));
    let config = ["--config", "/nonexistent.toml", "slurm", "prolog", "--make-room", "1M"];
    assert!(run(&config).contains("/nonexistent.toml"));
    // Standard output cannot be written to.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(memwright());
    command.args(["slurm", "prolog", "--make-room", "100T,huge=2M"]).stdout(full);
    assert!(command.status().unwrap().success());
}
