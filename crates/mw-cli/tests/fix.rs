//! `fix`, `changes` and `undo` on the running machine. What is set here is put back, also when a
//! test fails. Needs root.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const MODE: &str = "/proc/sys/vm/zone_reclaim_mode";
const SYSCTL_FILE: &str = "/etc/sysctl.d/zz-memwright.conf";

/// One test at a time changes the machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// The machine with a hazard made for the test; dropped, it is as it was.
struct Hazard {
    before: String,
    state: TempDir,
    _alone: MutexGuard<'static, ()>,
    /// Tests of other crates change the machine too; all of them lock this directory.
    _others: fs::File,
}

impl Hazard {
    /// Sets zone_reclaim_mode to 7; `None` where that is not permitted.
    fn make() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            mw_test::skip("needs root");
            return None;
        }
        let alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!Path::new(SYSCTL_FILE).exists(), "memwright is in use on this machine");
        let others = mw_test::alone();
        let before = fs::read_to_string(MODE).unwrap();
        let hazard =
            Self { before, state: TempDir::new().unwrap(), _alone: alone, _others: others };
        fs::write(MODE, "7").unwrap();
        Some(hazard)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwright"));
        command.args(args).args(["--state-dir", self.state.path().to_str().unwrap()]);
        command.output().unwrap()
    }

    fn say(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    fn mode(&self) -> String {
        fs::read_to_string(MODE).unwrap()
    }
}

impl Drop for Hazard {
    fn drop(&mut self) {
        let _ = self.run(&["undo", "--force"]);
        let _ = fs::remove_file(SYSCTL_FILE);
        let _ = fs::write(MODE, self.before.trim());
    }
}

/// Promise (Fixing): `--dry-run` changes nothing.
#[test]
fn a_dry_run_changes_nothing() {
    let Some(hazard) = Hazard::make() else { return };
    let (code, said) = hazard.say(&["fix", "zone-reclaim", "--dry-run"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("would make 1 change; nothing changed (dry run)\n"), "{said}");
    assert!(said.contains("vm.zone_reclaim_mode: 7 -> 0"), "{said}");
    assert_eq!(hazard.mode(), "7\n");
    assert_eq!(fs::read_dir(hazard.state.path()).unwrap().count(), 0);
}

/// Promise (Fixing): `undo` restores what `fix` changed, byte for byte.
#[test]
fn undo_restores_what_fix_changed_byte_for_byte() {
    let Some(hazard) = Hazard::make() else { return };
    let (code, said) = hazard.say(&["fix", "zone-reclaim"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("fixed and verified: zone-reclaim (1 change)\n"), "{said}");
    assert_eq!(hazard.mode(), "0\n");
    let (_, said) = hazard.say(&["changes"]);
    assert!(said.starts_with("1 in force\n"), "{said}");
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("reverted: 1 change\n"), "{said}");
    assert_eq!(hazard.mode(), "7\n");
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!((code, said.as_str()), (0, "nothing to revert\n"));
    let (_, said) = hazard.say(&["changes"]);
    assert!(said.starts_with("no changes in force\n"), "{said}");
}

/// Promise (Fixing): A profile sets what is not as wanted, leaves safer values, and `undo` restores all of it.
#[test]
fn a_profile_sets_what_is_not_as_wanted_and_undo_restores_it() {
    const MAP_COUNT: &str = "/proc/sys/vm/max_map_count";
    const DEFRAG: &str = "/sys/kernel/mm/transparent_hugepage/defrag";
    let Some(hazard) = Hazard::make() else { return };
    let values = || [MODE, MAP_COUNT, DEFRAG].map(|path| fs::read_to_string(path).unwrap());
    let before = values();
    let (code, said) = hazard.say(&["fix", "--profile", "database", "--dry-run"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("vm.zone_reclaim_mode: 7 -> 0"), "{said}");
    assert!(said.contains("run by hand: write backups with O_DIRECT"), "{said}");
    assert_eq!(values(), before);
    let (code, said) = hazard.say(&["fix", "--profile", "database"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("fixed and verified: ") && said.contains("profile-database"), "{said}");
    assert_eq!(hazard.mode(), "0\n");
    assert!(values()[1].trim().parse::<u64>().unwrap() >= 1_048_576);
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!((code, values()), (0, before), "{said}");
    let (code, said) = hazard.say(&["fix", "--profile", "laptop"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("hpc-node") && said.contains("gpu-host"), "{said}");
    let (code, said) = hazard.say(&["fix", "zone-reclaim", "--profile", "database"]);
    assert_eq!(code, 2, "{said}");
}

/// Promise (Fixing): Changes are persisted in files of memwright's own.
#[test]
fn a_change_is_persisted_in_a_file_of_our_own() {
    let Some(hazard) = Hazard::make() else { return };
    let (code, said) = hazard.say(&["fix", "zone-reclaim", "--persist"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("persisted in /etc/sysctl.d/zz-memwright.conf"), "{said}");
    let file = fs::read_to_string(SYSCTL_FILE).unwrap();
    assert!(file.contains("\nvm.zone_reclaim_mode = 0\n"), "{file}");
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!(code, 0, "{said}");
    assert!(!Path::new(SYSCTL_FILE).exists());
    assert_eq!(hazard.mode(), "7\n");
}

#[test]
fn a_change_in_force_can_be_persisted_later() {
    let Some(hazard) = Hazard::make() else { return };
    hazard.say(&["fix", "zone-reclaim"]);
    assert!(!Path::new(SYSCTL_FILE).exists());
    let (code, said) = hazard.say(&["fix", "zone-reclaim", "--persist"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("persisted: 1 change made earlier\n"), "{said}");
    assert!(Path::new(SYSCTL_FILE).exists());
    hazard.say(&["undo"]);
    assert!(!Path::new(SYSCTL_FILE).exists());
    assert_eq!(hazard.mode(), "7\n");
}

/// Promise (Fixing): A value that somebody else has changed since is left alone unless forced.
#[test]
fn a_value_changed_by_another_program_is_left_unless_forced() {
    let Some(hazard) = Hazard::make() else { return };
    hazard.say(&["fix", "zone-reclaim"]);
    fs::write(MODE, "1").unwrap();
    let (_, said) = hazard.say(&["changes"]);
    assert!(said.contains("changed by another program"), "{said}");
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("--force"), "{said}");
    assert_eq!(hazard.mode(), "1\n");
    let (code, said) = hazard.say(&["undo", "--force"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(hazard.mode(), "7\n");
}

#[test]
fn a_rule_that_finds_nothing_is_left_alone() {
    let Some(hazard) = Hazard::make() else { return };
    fs::write(MODE, "0").unwrap();
    let (code, said) = hazard.say(&["fix", "zone-reclaim"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("nothing to fix: zone-reclaim"), "{said}");
    let (code, said) = hazard.say(&["undo", "42"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("no change 42"), "{said}");
}

/// Promise (Fixing): After a kill -9 at any moment `undo` can revert the changes.
#[test]
fn a_change_can_be_reverted_after_a_kill_at_any_moment() {
    let Some(hazard) = Hazard::make() else { return };
    let state = hazard.state.path().to_str().unwrap();
    for round in 0..60_u64 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_memwright"))
            .args(["fix", "zone-reclaim", "--persist", "--state-dir", state])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_micros(round * 1_700));
        let _ = child.kill();
        child.wait().unwrap();
        let (code, said) = hazard.say(&["undo"]);
        assert_eq!(code, 0, "round {round}: {said}");
        assert_eq!(hazard.mode(), "7\n", "round {round}: {said}");
        assert!(!Path::new(SYSCTL_FILE).exists(), "round {round}: {said}");
    }
}

/// Runs a shell command with `$MEMWRIGHT` for the program, in a place where anybody may run it.
fn shell(hazard: &Hazard, script: &str) -> (i32, String) {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("memwright");
    fs::copy(env!("CARGO_BIN_EXE_memwright"), &program).unwrap();
    let output = Command::new("sh")
        .args(["-c", script])
        .env("MEMWRIGHT", &program)
        .env("STATE", hazard.state.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// Promise (Fixing): Without the privilege nothing is changed, and the command that works is printed.
#[test]
fn without_privilege_the_command_that_works_is_printed() {
    let Some(hazard) = Hazard::make() else { return };
    mw_test::compact_memory();
    let nobody = "exec setpriv --reuid=65534 --regid=65534 --clear-groups $MEMWRIGHT";
    let (code, said) = shell(&hazard, &format!("{nobody} fix zone-reclaim"));
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("run: sudo memwright fix zone-reclaim"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let (code, said) = shell(&hazard, &format!("{nobody} check"));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning zone-reclaim"), "{said}");
    assert_eq!(hazard.mode(), "7\n");
}

/// Promise (Fixing): A read-only /proc/sys leaves no half-applied change.
#[test]
fn a_read_only_proc_sys_is_reported_and_nothing_is_half_done() {
    let Some(hazard) = Hazard::make() else { return };
    let script = "exec unshare --mount sh -c 'mount --bind /proc/sys /proc/sys && \
                  mount -o remount,bind,ro /proc/sys && \
                  exec $MEMWRIGHT fix zone-reclaim --state-dir $STATE'";
    let (code, said) = shell(&hazard, script);
    assert!([4, 5].contains(&code), "{code}: {said}");
    assert!(said.contains("read-only") || said.contains("Read-only"), "{said}");
    assert_eq!(hazard.mode(), "7\n");
    let (code, said) = hazard.say(&["changes"]);
    assert_eq!((code, said.as_str()), (0, "no changes in force\n"));
}

/// Promise (Fixing): A damaged journal is reported with its line and never leads to a wrong value.
#[test]
fn a_damaged_journal_is_named_with_its_line() {
    let Some(hazard) = Hazard::make() else { return };
    hazard.say(&["fix", "zone-reclaim"]);
    let journal = hazard.state.path().join("journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    fs::write(&journal, &whole[..whole.len() - 7]).unwrap();
    let (code, said) = hazard.say(&["changes"]);
    assert_eq!(code, 0, "{said}");
    let mut rubbish = whole.clone();
    rubbish[3] = b'\xff';
    fs::write(&journal, &rubbish).unwrap();
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("journal.jsonl") && said.contains("line 1"), "{said}");
    fs::write(&journal, &whole).unwrap();
    let (code, said) = hazard.say(&["undo"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(hazard.mode(), "7\n");
}
