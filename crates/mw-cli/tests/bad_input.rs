//! Bad input: a one-line error or a "skipped: why" that names file and line; never a panic.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use assert_cmd::Command;
use mw_collect::text_archive::TextArchive;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn memwright() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.env("NO_COLOR", "1");
    command
}

struct Said {
    code: i32,
    out: String,
    err: String,
}

fn run(args: &[&str]) -> Said {
    let output = memwright().args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

/// A usage error or a failure to look: one line, this exit code, these words.
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let said = run(args);
    assert_eq!(said.code, code, "{args:?}: {}", said.err);
    assert!(said.out.is_empty(), "{args:?}: {}", said.out);
    for word in words {
        assert!(said.err.contains(word), "{args:?}: no '{word}' in: {}", said.err);
    }
    assert!(!said.err.contains("panicked"), "{}", said.err);
}

/// A healthy tree in which `change` does some damage; what `check --root` says of it.
fn check_damaged(change: impl FnOnce(&Path)) -> Said {
    let dir = TempDir::new().unwrap();
    let healthy = TextArchive::load(&mw_test::fixture("healthy/debian-6.1")).unwrap();
    for (path, contents) in healthy.tree.files() {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }
    change(dir.path());
    let said = run(&["check", "--root", dir.path().to_str().unwrap()]);
    assert!(!said.err.contains("panicked"), "{}", said.err);
    said
}

#[test]
fn a_tree_that_is_not_there_or_empty_is_refused() {
    refused(&["check", "--root", "/nonexistent/tree"], 3, &["/nonexistent/tree", "No such file"]);
    let dir = TempDir::new().unwrap();
    refused(&["check", "--root", dir.path().to_str().unwrap()], 3, &["neither proc/ nor sys/"]);
}

#[test]
fn an_empty_proc_could_not_be_looked_at() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("proc")).unwrap();
    let said = run(&["check", "--root", dir.path().to_str().unwrap()]);
    assert_eq!(said.code, 3);
    assert!(said.out.starts_with("could not be checked: /proc/meminfo"), "{}", said.out);
}

/// Promise (Checking): A captured tree without /proc/meminfo or /proc/vmstat, as from gVisor or WSL 1, is reported as
/// one that could not be checked.
#[test]
fn a_tree_without_counters_could_not_be_checked() {
    for name in ["meminfo", "vmstat"] {
        let said = check_damaged(|root| fs::remove_file(root.join("proc").join(name)).unwrap());
        assert_eq!(said.code, 3, "{}", said.out);
        let first = format!("could not be checked: /proc/{name}: not in this tree");
        assert!(said.out.starts_with(&first), "{}", said.out);
    }
}

/// Promise (Checking): What cannot be read is reported with file, line and reason, and never counts as passed.
#[test]
fn a_truncated_file_is_named_with_its_line() {
    let said = check_damaged(|root| {
        let file = root.join("proc/buddyinfo");
        let text = fs::read(&file).unwrap();
        fs::write(file, &text[..text.len() - 20]).unwrap();
    });
    assert_eq!(said.code, 0);
    assert!(
        said.out.contains("unchecked  fragmented-node: /proc/buddyinfo: line "),
        "{}",
        said.out
    );
}

#[test]
fn a_binary_file_is_named() {
    let said = check_damaged(|root| {
        let rubbish: Vec<u8> = (0..4096_u32).map(|n| (n * 131 % 251) as u8).collect();
        fs::write(root.join("proc/meminfo"), rubbish).unwrap();
    });
    assert!(said.out.contains("unchecked  slab-bloat: /proc/meminfo: line "), "{}", said.out);
}

#[test]
fn a_file_of_a_gigabyte_is_not_loaded() {
    let said = check_damaged(|root| {
        let file = fs::File::create(root.join("proc/vmstat")).unwrap();
        file.set_len(1 << 30).unwrap();
    });
    assert!(said.out.contains("oom-kill: /proc/vmstat: larger than 4 MiB"), "{}", said.out);
}

/// Promise (Checking): A captured tree cannot make the reader leave the tree, loop, hang or load a huge file.
#[test]
fn links_neither_loop_nor_lead_out_of_the_tree() {
    let said = check_damaged(|root| {
        fs::remove_file(root.join("proc/meminfo")).unwrap();
        symlink("meminfo", root.join("proc/meminfo")).unwrap();
        fs::remove_file(root.join("proc/swaps")).unwrap();
        symlink("/../../../../../../proc/swaps", root.join("proc/swaps")).unwrap();
        fs::remove_file(root.join("proc/buddyinfo")).unwrap();
        symlink("/etc/passwd", root.join("proc/buddyinfo")).unwrap();
    });
    assert!(said.out.contains("/proc/meminfo: a link that leads to itself"), "{}", said.out);
    assert!(
        said.out.contains("fragmented-node: /proc/buddyinfo: not in this tree"),
        "{}",
        said.out
    );
    assert!(said.out.contains("swap-thrash: /proc/swaps: a link"), "{}", said.out);
}

#[test]
fn a_fifo_or_a_folder_in_place_of_a_file_does_not_hang() {
    let said = check_damaged(|root| {
        let fifo = root.join("proc/vmstat");
        fs::remove_file(&fifo).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from(0o644),
            0,
        )
        .unwrap();
        fs::remove_file(root.join("proc/swaps")).unwrap();
        fs::create_dir(root.join("proc/swaps")).unwrap();
    });
    assert!(said.out.contains("oom-kill: /proc/vmstat: not a regular file"), "{}", said.out);
    assert!(said.out.contains("swap-thrash: /proc/swaps: not a regular file"), "{}", said.out);
}

#[test]
fn a_kernel_without_psi_numa_thp_or_swap_is_looked_at() {
    let said = check_damaged(|root| {
        for gone in
            ["proc/pressure", "sys/devices/system/node", "sys/kernel/mm", "memwright/earlier"]
        {
            fs::remove_dir_all(root.join(gone)).unwrap();
        }
        fs::remove_file(root.join("proc/swaps")).unwrap();
    });
    assert_eq!(said.code, 0, "{}", said.out);
    assert!(said.out.starts_with("ready: "), "{}", said.out);
    for rule in ["swap-thrash", "thp-compaction", "numa-node-exhausted"] {
        assert!(said.out.contains(&format!("unchecked  {rule}: ")), "{rule}: {}", said.out);
    }
}

#[test]
fn a_file_that_is_no_capture_is_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("capture.tar.zst");
    fs::write(&file, b"not a capture").unwrap();
    refused(
        &["check", "--root", file.to_str().unwrap()],
        3,
        &["capture.tar.zst", "memwright capture"],
    );
    fs::write(&file, b"").unwrap();
    refused(&["check", "--root", file.to_str().unwrap()], 3, &["capture.tar.zst"]);
}

#[test]
fn unknown_rules_and_sizes_are_refused_with_what_to_write() {
    refused(&["explain", "zone-reclame"], 2, &["zone-reclame", "did you mean 'zone-reclaim'"]);
    refused(&["fix", "nonsense", "--dry-run"], 2, &["nonsense", "memwright explain"]);
    refused(
        &["fix", "slow-disk"],
        2,
        &["explains stalls and has nothing to fix", "memwright explain slow-disk"],
    );
    for (request, words) in [
        ("12X", "invalid size '12X'"),
        ("0", "out of range"),
        ("1G,lokc", "unknown option 'lokc'"),
        ("1G,huge=3M", "invalid page size '3M'"),
        ("1G,node=-1", "invalid node '-1'"),
        ("1G,lock,lock", "duplicate option 'lock'"),
    ] {
        refused(&["check", "--for", request], 2, &[words]);
    }
}

#[test]
fn a_bad_configuration_is_named_with_its_line() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("memwright.toml");
    fs::write(&file, "state-dir = \"/tmp\"\n[check]\nfail-at = \"note\"\n").unwrap();
    refused(
        &["--config", file.to_str().unwrap(), "check"],
        2,
        &["memwright.toml line 3", "unknown field `fail-at`"],
    );
    refused(&["--config", "/nonexistent.toml", "check"], 2, &["/nonexistent.toml"]);
}

#[test]
fn a_capture_that_cannot_be_written_is_refused() {
    refused(
        &["capture", "-o", "/nonexistent/c.tar.zst"],
        3,
        &["/nonexistent/c.tar.zst", "--output"],
    );
}

fn shell(script: &str) -> Said {
    let mut sh = std::process::Command::new("sh");
    let output = sh.args(["-c", script, "sh", env!("CARGO_BIN_EXE_memwright")]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[test]
fn a_capture_is_checked_from_a_pipe() {
    for root in ["/dev/stdin", "-"] {
        let said =
            shell(&format!("\"$1\" capture -o - 2>/dev/null | \"$1\" check --root {root} --json"));
        let report: serde_json::Value = serde_json::from_str(&said.out).expect(&said.err);
        assert!(report["memory_bytes"].as_u64().unwrap() > 0, "{root}: {}", said.out);
    }
}

#[test]
fn a_pipe_that_delivers_nothing_can_be_interrupted() {
    use std::process::{Command, Stdio};
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
    command.args(["check", "--root", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let waits = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        status.contains("State:\tS")
    };
    mw_test::wait_until("a wait for input", Duration::from_secs(30), waits);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_capture_to_closed_standard_output_fails() {
    let said = shell("\"$1\" capture -o - >&-");
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.err.contains("standard output: Bad file descriptor"), "{}", said.err);
    assert_eq!(shell("\"$1\" capture -o - >/dev/null").code, 0);
}

#[test]
fn a_file_size_limit_is_reported_and_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let dir = dir.path().to_str().unwrap();
    let said = shell(&format!("cd {dir} && ulimit -f 1 && \"$1\" capture -o capture.tar.zst"));
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.err.contains("capture.tar.zst: File too large"), "{}", said.err);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn undo_creates_nothing_and_advises_once() {
    let dir = TempDir::new().unwrap();
    let state = dir.path().join("a b");
    let state = state.to_str().unwrap();
    let said = run(&["undo", "--state-dir", state]);
    assert_eq!((said.code, said.out.as_str()), (0, "nothing to revert\n"), "{}", said.err);
    refused(&["undo", "7", "--state-dir", state], 2, &["no change 7"]);
    assert!(!Path::new(state).exists());
}

#[test]
fn without_privilege_undo_prints_the_command_that_works() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let state = dir.path().join("a b");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("journal.jsonl"), "").unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();
    let (dir, state) = (dir.path().display(), state.display());
    let said = shell(&format!(
        "cp \"$1\" {dir}/memwright && exec setpriv --reuid=65534 --regid=65534 --clear-groups \\
         {dir}/memwright undo 3 --force --state-dir '{state}'"
    ));
    assert_eq!(said.code, 4, "{}", said.err);
    let advice =
        format!("permission denied; run: sudo memwright undo 3 --force --state-dir '{state}'\n");
    assert!(said.err.ends_with(&advice), "{}", said.err);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_memwright"))
        .args(["explain"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}

#[test]
fn without_proc_nothing_is_captured() {
    if !mw_test::is_root() {
        return;
    }
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("x.tar.zst");
    let own_proc = "unshare --mount sh -c 'umount --lazy /proc && exec \"$@\"' sh \"$1\"";
    for command in [format!("capture -o {}", file.display()), "check".to_owned()] {
        let said = shell(&format!("{own_proc} {command}"));
        assert_eq!(said.code, 3, "{command}: {}", said.err);
        assert!((said.out + &said.err).contains("/proc is not mounted"), "{command}");
    }
    assert!(!file.exists());
}

#[test]
fn a_hostile_text_archive_is_refused() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("other.txt");
    for (line, problem) in [
        ("base ../../etc/passwd", "line 2: a base that is no name of a file"),
        ("-- ../proc/meminfo --", "line 2: a path that leads out of the tree"),
    ] {
        fs::write(&file, format!("memwright text archive 1\n{line}\n")).unwrap();
        refused(&["check", "--root", file.to_str().unwrap()], 3, &[problem]);
    }
}

#[test]
fn an_archive_without_a_tree_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("other.tar.zst");
    let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 0).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    tar.append_data(&mut header, "notes.txt", &[][..]).unwrap();
    fs::write(&file, tar.into_inner().unwrap().finish().unwrap()).unwrap();
    let file = file.to_str().unwrap();
    let line = format!("memwright: {file}: not a capture: neither proc/ nor sys/ in it\n");
    let said = run(&["check", "--root", file]);
    assert_eq!((said.code, said.err), (3, line));
}
