//! The journal under everything that can befall it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

mod common;

use common::{
    Dice, SWAPPINESS, THP, Tree, ZONE_RECLAIM, again, all_kinds, is_root, scratch, wants,
};
use mw_remedy::{
    ApplyError, ChangeError, ChangeProgress, ChangeStep, FORMAT_VERSION, Journal, JournalError,
    UndoError, UndoOutcome, UndoSelection, changes, nobody,
};
use mw_test::rounds;
use rustix::fs::{CWD, RenameFlags};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A process that another test is just starting holds our lock and our files until it execs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A tree with changes that are in force, reverted, and drifted.
fn lived_in() -> Tree {
    let tree = Tree::new();
    tree.fix(&all_kinds(), true).unwrap();
    tree.undo(&UndoSelection::Ids(vec![2]), false);
    tree.fix(&[wants("calm", SWAPPINESS, "1")], true).unwrap();
    tree.set(THP, "somebody\n");
    tree
}

/// What a lived-in tree held at the very beginning and holds now.
struct Known {
    first: BTreeMap<PathBuf, Option<Vec<u8>>>,
    last: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Known {
    fn new(start: &Tree) -> Self {
        Self { first: Tree::new().everything(), last: start.everything() }
    }

    /// After an undo, whatever the journal looked like, every kernel file holds one of the two.
    fn check(&self, tree: &Tree, how: &str) {
        for (path, content) in tree.everything().iter().filter(|(path, _)| !path.starts_with("etc"))
        {
            let fine =
                self.first.get(path) == Some(content) || self.last.get(path) == Some(content);
            assert!(fine, "{how}: {} holds {content:?}", path.display());
        }
    }

    /// Brings a tree back to what it held last.
    fn reset(&self, tree: &Tree) {
        let now = tree.everything();
        for (path, content) in self.last.iter().filter(|(path, last)| now.get(*path) != Some(*last))
        {
            let file = tree.root().join(path);
            match content {
                Some(content) => fs::write(file, content).unwrap(),
                None => fs::create_dir_all(file).unwrap(),
            }
        }
    }
}

#[test]
fn a_journal_cut_anywhere_restores_nothing_wrong() {
    let start = lived_in();
    let whole = fs::read(start.journal_file()).unwrap();
    let (tree, known) = (start.copy(), Known::new(&start));
    for length in (0..whole.len()).step_by(rounds(5, 1)) {
        known.reset(&tree);
        fs::write(tree.journal_file(), &whole[..length]).unwrap();
        let seen = changes(&tree.kernel(), &tree.history());
        assert_eq!(seen.damage, [], "cut at {length}: a last line cut short is no damage");
        tree.undo_all();
        known.check(&tree, &format!("cut at {length}"));
        assert_eq!(tree.get(THP), "somebody\n");
        assert_eq!(tree.history().damage(), [], "cut at {length}: the journal is whole again");
    }
}

#[test]
fn rubbish_in_the_journal_restores_nothing_wrong() {
    let start = lived_in();
    let whole = fs::read(start.journal_file()).unwrap();
    let mut dice = Dice(7);
    let (tree, known) = (start.copy(), Known::new(&start));
    for round in 0..rounds(800, 3000) {
        let mut journal = whole.clone();
        for _ in 0..=dice.roll(3) {
            spoil(&mut journal, &mut dice);
        }
        fs::write(tree.journal_file(), &journal).unwrap();
        let history = tree.history();
        changes(&tree.kernel(), &history);
        let force = round % 2 == 0;
        let mut lock = tree.lock();
        let undone =
            mw_remedy::undo(&tree.kernel(), &mut lock, &UndoSelection::All, false, &mut nobody);
        assert_eq!(undone.is_err(), !history.damage().is_empty());
        if force && undone.is_err() {
            let _ =
                mw_remedy::undo(&tree.kernel(), &mut lock, &UndoSelection::All, true, &mut nobody);
        }
        known.check(&tree, &format!("round {round}"));
        known.reset(&tree);
    }
}

/// Flips, drops, doubles or puts in something.
fn spoil(journal: &mut Vec<u8>, dice: &mut Dice) {
    if journal.is_empty() {
        return;
    }
    let at = dice.roll(journal.len());
    let end = (at + 1 + dice.roll(300)).min(journal.len());
    match dice.roll(6) {
        0 => journal[at] ^= 1 << dice.roll(8),
        1 => drop(journal.drain(at..end)),
        2 => {
            let part = journal[at..end].to_vec();
            drop(journal.splice(at..at, part));
        }
        3 => {
            let rubbish: Vec<u8> = (0..dice.roll(200)).map(|_| dice.roll(256) as u8).collect();
            drop(journal.splice(at..at, rubbish));
        }
        4 => journal[at..end].fill(0),
        _ => {
            let lines: Vec<&[u8]> = journal.split_inclusive(|&byte| byte == b'\n').collect();
            let (one, other) = (dice.roll(lines.len()), dice.roll(lines.len()));
            let mut shuffled = lines.clone();
            shuffled.swap(one, other);
            *journal = shuffled.concat();
        }
    }
}

#[test]
fn a_damaged_line_is_named_and_the_others_are_shown() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], false).unwrap();
    tree.fix(&[wants("b", SWAPPINESS, "1")], false).unwrap();
    let mut journal = fs::read(tree.journal_file()).unwrap();
    journal[100] = 0xff;
    fs::write(tree.journal_file(), journal).unwrap();
    let seen = changes(&tree.kernel(), &tree.history());
    assert_eq!(seen.changes.iter().map(|change| change.id).collect::<Vec<_>>(), [2]);
    let lines: Vec<usize> = seen.damage.iter().map(|damage| damage.line).collect();
    assert_eq!(lines, [1, 2], "what was planned in line 1 is applied in line 2");
    let error =
        mw_remedy::undo(&tree.kernel(), &mut tree.lock(), &UndoSelection::All, false, &mut nobody);
    let said = error.unwrap_err().to_string();
    assert!(said.contains("journal.jsonl, line 1: not text"), "{said}");
    assert!(said.contains("undo --force") && said.contains("mv "), "{said}");
    let error = tree.fix(&[wants("c", SWAPPINESS, "2")], false).unwrap_err();
    assert!(matches!(error, ApplyError::NothingChanged { .. }), "{error}");
    assert_eq!(tree.get(SWAPPINESS), "1\n");
    assert!(tree.undo(&UndoSelection::All, true)[0].outcome.is_gone());
    assert_eq!(tree.get(SWAPPINESS), "60\n");
}

#[test]
fn lines_that_are_missing_doubled_or_swapped_are_seen() {
    let start = lived_in();
    let whole = fs::read_to_string(start.journal_file()).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let check = |lines: &[&str]| {
        fs::write(start.journal_file(), lines.concat()).unwrap();
        assert_ne!(start.history().damage(), []);
    };
    for at in 0..lines.len() - 1 {
        check(&[&lines[..at], &lines[at + 1..]].concat());
        check(&[&lines[..at], &lines[at..=at], &lines[at..]].concat());
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        check(&swapped);
    }
}

#[test]
fn a_journal_of_a_newer_version_is_left_alone() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], false).unwrap();
    let rest = format!("\"v\":{},\"seq\":3,\"hue\":\"blue\"}}", FORMAT_VERSION + 1);
    let line = format!("{{\"crc\":\"{:08x}\",{rest}\n", crc32fast::hash(rest.as_bytes()));
    let journal = fs::read_to_string(tree.journal_file()).unwrap() + &line;
    fs::write(tree.journal_file(), &journal).unwrap();
    let error =
        mw_remedy::undo(&tree.kernel(), &mut tree.lock(), &UndoSelection::All, true, &mut nobody);
    let error = error.unwrap_err();
    assert!(matches!(error, UndoError::Journal(JournalError::Newer { line: 3, .. })), "{error}");
    let error = tree.fix(&[wants("b", SWAPPINESS, "1")], false).unwrap_err();
    assert!(error.to_string().contains("newer memwright"), "{error}");
    assert_eq!(changes(&tree.kernel(), &tree.history()).changes.len(), 1);
    assert_eq!(fs::read_to_string(tree.journal_file()).unwrap(), journal);
}

#[test]
fn a_journal_of_this_version_stays_readable() {
    // Never change these lines: a later version has to read them.
    let journal = include_str!("data/journal-v1.jsonl");
    let tree = Tree::new();
    tree.set(ZONE_RECLAIM, "0\n");
    let _ = tree.lock();
    fs::write(tree.journal_file(), journal).unwrap();
    assert_eq!(tree.history().damage(), []);
    assert_eq!(tree.undo_all(), [UndoOutcome::Restored { to: "7".to_owned() }]);
    assert_eq!(tree.get(ZONE_RECLAIM), "7\n");
}

#[test]
fn only_one_memwright_is_at_work() {
    let tree = Tree::new();
    let held = tree.lock();
    let start = Instant::now();
    let error = Journal::lock(&tree.state(), Duration::from_millis(200)).unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert!(error.to_string().contains("another memwright"), "{error}");
    drop(held);
    Journal::lock(&tree.state(), PATIENCE).unwrap();
}

#[test]
fn a_state_directory_that_others_may_write_is_refused() {
    let tree = Tree::new();
    drop(tree.lock());
    let mode = |mode| fs::set_permissions(tree.state(), fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(tree.state()).unwrap().permissions().mode() & 0o777, 0o700);
    mode(0o770);
    let error = Journal::lock(&tree.state(), PATIENCE).unwrap_err();
    assert!(error.to_string().contains("chmod 700"), "{error}");
    mode(0o755);
    Journal::lock(&tree.state(), PATIENCE).unwrap();
}

const TREE: &str = "MW_REMEDY_JOURNAL_TREE";

/// Fixes and reverts, over and over, in a process of its own.
#[test]
fn one_of_two() {
    let Some(tree) = std::env::var_os(TREE) else { return };
    let tree = Tree::at(Path::new(&tree));
    for _ in 0..40 {
        let plan = tree.plan(&all_kinds());
        let applied = mw_remedy::apply(&tree.kernel(), &mut tree.lock(), &plan, true, &mut nobody);
        if let Err(error) = applied {
            assert!(matches!(error.cause(), ChangeError::Moved { .. }), "{error}");
        }
        assert!(tree.undo_all().iter().all(UndoOutcome::is_gone));
    }
}

#[test]
fn two_at_once_do_not_harm_each_other() {
    let tree = Tree::new();
    let before = tree.everything();
    let variables = [(TREE, tree.base().display().to_string())];
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| again("one_of_two", &variables)));
        for one in both {
            assert!(one.join().unwrap().success());
        }
    });
    assert_eq!(tree.history().damage(), []);
    tree.undo_all();
    tree.set(common::COMPACT, "0\n");
    assert_eq!(tree.everything(), before);
}

const LIMIT: &str = "MW_REMEDY_JOURNAL_LIMIT";

/// Fixes with a limit on the length of files, in a process of its own that ignores SIGXFSZ.
#[test]
fn with_a_limit() {
    let (Some(tree), Ok(limit)) = (std::env::var_os(TREE), std::env::var(LIMIT)) else { return };
    let tree = Tree::at(Path::new(&tree));
    let limit = limit.parse().unwrap();
    let resource = rustix::process::Resource::Fsize;
    let rlimit = rustix::process::Rlimit { current: Some(limit), maximum: None };
    rustix::process::setrlimit(resource, rlimit).unwrap();
    let before = tree.everything();
    // Without --persist: the limit would hit those files as well.
    match tree.fix(&all_kinds()[..3], false) {
        Ok(_) => {}
        Err(ApplyError::Stuck { stuck, .. }) => panic!("{stuck:?}"),
        Err(_) => assert_eq!(tree.everything(), before, "limit {limit}"),
    }
    let journal = fs::read(tree.journal_file()).unwrap();
    assert!(journal.is_empty() || journal.ends_with(b"\n"), "half a record was left");
}

#[test]
fn a_journal_that_cannot_grow_at_any_byte_leaves_no_half_applied_change() {
    let whole = Tree::new();
    whole.fix(&all_kinds()[..3], false).unwrap();
    let length = fs::metadata(whole.journal_file()).unwrap().len();
    let before = Tree::new().everything();
    for limit in (8..length + 40).step_by(rounds(39, 13)) {
        let tree = Tree::new();
        // A signal that is ignored stays so over exec; there is no other way without unsafe code.
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "with_a_limit", "--nocapture"])
            .env(TREE, tree.base())
            .env(LIMIT, limit.to_string())
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.unwrap().success(), "limit {limit}");
        assert_eq!(tree.history().damage(), [], "limit {limit}");
        assert!(tree.undo_all().iter().all(UndoOutcome::is_gone));
        assert_eq!(tree.everything(), before, "limit {limit}");
    }
}

/// A tmpfs that is unmounted even when the test fails.
struct Mount(tempfile::TempDir);

impl Mount {
    fn tmpfs(options: &std::ffi::CStr) -> Option<Self> {
        let dir = scratch();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("memwright-test", dir.path(), "tmpfs", flags, Some(options)).ok()?;
        Some(Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_changes_nothing() {
    if !is_root("a_full_disk_changes_nothing") {
        return;
    }
    let Some(disk) = Mount::tmpfs(c"size=256k,mode=700") else {
        mw_test::skip("mounting is not permitted");
        return;
    };
    let tree = Tree::new();
    let before = tree.everything();
    let plan = tree.plan(&all_kinds());
    let filler = disk.path().join("filler");
    while fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&filler)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &[0; 4096]))
        .is_ok()
    {}
    let lock = || Journal::lock(disk.path(), PATIENCE).unwrap();
    let error = mw_remedy::apply(&tree.kernel(), &mut lock(), &plan, true, &mut nobody);
    let error = error.unwrap_err();
    assert!(matches!(error, ApplyError::NothingChanged { .. }), "{error}");
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(tree.everything(), before);

    // Room for the change, but none when it is to be reverted: the kernel's file comes first.
    fs::remove_file(&filler).unwrap();
    let plan = tree.plan(&[wants("a", ZONE_RECLAIM, "1"), wants("b", SWAPPINESS, "1")]);
    mw_remedy::apply(&tree.kernel(), &mut lock(), &plan, false, &mut nobody).unwrap();
    let plan = tree.plan(&[wants("c", ZONE_RECLAIM, "0")]);
    mw_remedy::apply(&tree.kernel(), &mut lock(), &plan, false, &mut nobody).unwrap();
    let undone = {
        let mut journal = lock();
        make_read_only(disk.path(), true);
        mw_remedy::undo(&tree.kernel(), &mut journal, &UndoSelection::All, false, &mut nobody)
            .unwrap()
    };
    assert!(undone.iter().all(|one| one.outcome.is_gone() && one.not_recorded.is_some()));
    assert_eq!(tree.everything(), before);
    make_read_only(disk.path(), false);
    let again =
        mw_remedy::undo(&tree.kernel(), &mut lock(), &UndoSelection::All, false, &mut nobody);
    assert!(again.unwrap().iter().all(|one| one.outcome == UndoOutcome::AlreadyBefore));
    assert_eq!(tree.everything(), before);
}

fn make_read_only(path: &Path, read_only: bool) {
    let flag = rustix::mount::MountFlags::RDONLY;
    let flags = if read_only { flag } else { rustix::mount::MountFlags::empty() };
    mw_test::wait_until("the remount", PATIENCE, || {
        rustix::mount::mount_remount(path, flags, c"").is_ok()
    });
}

#[test]
fn a_read_only_proc_sys_changes_nothing() {
    if !is_root("a_read_only_proc_sys_changes_nothing") {
        return;
    }
    let Some(disk) = Mount::tmpfs(c"mode=700") else {
        mw_test::skip("mounting is not permitted");
        return;
    };
    let state = scratch();
    let file = disk.path().join(ZONE_RECLAIM.trim_start_matches('/'));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "7\n").unwrap();
    make_read_only(disk.path(), true);
    let kernel = mw_remedy::Kernel::at(disk.path());
    let plan = mw_remedy::Plan::new(&kernel, &[wants("a", ZONE_RECLAIM, "0")]).unwrap();
    let mut journal = Journal::lock(state.path(), PATIENCE).unwrap();
    let error = mw_remedy::apply(&kernel, &mut journal, &plan, false, &mut nobody).unwrap_err();
    assert!(error.is_privilege(), "{error}");
    assert!(error.to_string().contains("the mount is read-only, as in a container"), "{error}");
    let undone = mw_remedy::undo(&kernel, &mut journal, &UndoSelection::All, false, &mut nobody);
    assert!(undone.unwrap().is_empty());
}

#[test]
fn the_record_is_there_before_the_kernel_is_touched() {
    let tree = Tree::new();
    let plan = tree.plan(&[wants("a", ZONE_RECLAIM, "0")]);
    let mut seen = 0;
    let mut observer = |point: ChangeProgress| {
        if point.moment == ChangeStep::Planned {
            let journal = fs::read_to_string(tree.journal_file()).unwrap();
            assert!(journal.ends_with("\"sides\":[]}\n") && journal.contains("7\\n"), "{journal}");
            assert_eq!(tree.get(ZONE_RECLAIM), "7\n");
            seen += 1;
        }
    };
    mw_remedy::apply(&tree.kernel(), &mut tree.lock(), &plan, false, &mut observer).unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn a_journal_that_is_too_long_is_said_to_be() {
    let tree = Tree::new();
    drop(tree.lock());
    let file = fs::File::create(tree.journal_file()).unwrap();
    file.set_len(5 * mw_remedy::JOURNAL_BYTES_MAX).unwrap();
    let error = Journal::lock(&tree.state(), PATIENCE).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
}

#[test]
fn a_journal_at_its_limit_only_reverts() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], false).unwrap();
    let mut journal = fs::read_to_string(tree.journal_file()).unwrap();
    let why = "x".repeat(200_000);
    for seq in 3.. {
        let rest = format!(
            "\"v\":1,\"seq\":{seq},\"change\":1,\"time_ms\":0,\"event\":\"left\",\"why\":\"{why}\"}}"
        );
        let crc = crc32fast::hash(rest.as_bytes());
        journal += &format!("{{\"crc\":\"{crc:08x}\",{rest}\n");
        if journal.len() as u64 > mw_remedy::JOURNAL_BYTES_MAX {
            break;
        }
    }
    fs::write(tree.journal_file(), journal).unwrap();
    let error = tree.fix(&[wants("b", SWAPPINESS, "1")], false).unwrap_err();
    assert!(error.to_string().contains("move it away"), "{error}");
    assert_eq!(tree.get(SWAPPINESS), "60\n");
    assert_eq!(tree.undo_all(), [UndoOutcome::Restored { to: "7".to_owned() }]);
}

/// Promise (Fixing): The journal is read and written in the directory whose owner was checked, even if its path is
/// replaced meanwhile.
#[test]
fn the_journal_is_in_the_directory_that_was_checked() {
    let tree = Tree::new();
    tree.fix(&[wants("a", ZONE_RECLAIM, "0")], false).unwrap();
    let mut journal = tree.lock();
    let moved = tree.base().join("moved");
    fs::rename(tree.state(), &moved).unwrap();
    fs::create_dir(tree.state()).unwrap();
    let which = UndoSelection::Ids(vec![1]);
    let undone = mw_remedy::undo(&tree.kernel(), &mut journal, &which, false, &mut nobody).unwrap();
    assert!(undone[0].outcome.is_gone() && undone[0].not_recorded.is_none(), "{undone:?}");
    assert_eq!(fs::read_dir(tree.state()).unwrap().count(), 0, "somebody else's directory");
    let journal = fs::read_to_string(moved.join(mw_remedy::JOURNAL_FILE)).unwrap();
    assert!(journal.contains("\"event\":\"undone\""), "{journal}");
}

#[test]
fn a_directory_that_is_exchanged_meanwhile_is_not_read() {
    const STRANGER: u32 = 65534;
    const ROUNDS: usize = 3000;
    if !is_root("a_directory_that_is_exchanged_meanwhile_is_not_read") {
        return;
    }
    let (own, forged) = (Tree::new(), Tree::new());
    own.fix(&[wants("ours", ZONE_RECLAIM, "0")], false).unwrap();
    forged
        .fix(&[wants("ours", ZONE_RECLAIM, "0"), wants("forged", SWAPPINESS, "1")], false)
        .unwrap();
    for path in [forged.state(), forged.journal_file()] {
        std::os::unix::fs::chown(path, Some(STRANGER), None).unwrap();
    }
    let other = own.base().join("other");
    assert!(Command::new("cp").arg("-a").args([forged.state(), other.clone()]).status().is_ok());
    let end = AtomicBool::new(false);
    let (state, end) = (own.state(), &end);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &state, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut locked = 0;
        let mut newest = 0;
        for _ in 0..ROUNDS {
            if let Ok(journal) = Journal::lock(&own.state(), Duration::ZERO) {
                locked += 1;
                newest = newest.max(journal.history().newest_change());
            }
        }
        end.store(true, Ordering::Relaxed);
        assert!(locked > 0 && locked < ROUNDS, "{locked}: nothing was exchanged");
        assert_eq!(newest, 1, "a stranger's journal was read");
    });
}

/// Promise (Fixing): No other user's lock prevents changing settings, reverting them, or recording.
#[test]
fn a_lock_of_another_user_stops_nobody() {
    if !is_root("a_lock_of_another_user_stops_nobody") {
        return;
    }
    let tree = Tree::new();
    tree.fix(&[wants("a", SWAPPINESS, "1")], false).unwrap();
    for path in [tree.base().to_owned(), tree.state()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let lock = tree.state().join("journal.lock");
    for (path, is_held) in [(tree.state(), true), (lock.clone(), false)] {
        let mut holder = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "flock"])
            .arg(path)
            .args(["sh", "-c", "echo held; exec sleep 60"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 5];
        let read = std::io::Read::read(&mut holder.stdout.take().unwrap(), &mut said).unwrap();
        let locked = Journal::lock(&tree.state(), Duration::from_millis(200));
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(read > 0, is_held);
        locked.unwrap();
    }
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o666)).unwrap();
    Journal::lock(&tree.state(), PATIENCE).unwrap();
    assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o7777, 0o600);
    std::os::unix::fs::chown(&lock, Some(65534), None).unwrap();
    let error = Journal::lock(&tree.state(), PATIENCE).unwrap_err();
    assert!(matches!(error, JournalError::Unsafe { owner: 65534, .. }), "{error}");
}
