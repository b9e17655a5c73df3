//! Settings of block devices, whose numbers and names belong to other disks after a reboot.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Tree, wants};
use mw_remedy::{ChangeState, TMPFILES_FILE, UDEV_FILE, UndoOutcome, UndoSelection, changes};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const RATIO: &str = "/sys/class/bdi/8:16/max_ratio";
const OTHER_RATIO: &str = "/sys/class/bdi/8:0/max_ratio";

/// A machine with two disks: the slow one is `slow` (8:16 at first), the other one 8:0.
struct Disks(Tree);

impl Disks {
    fn new() -> Self {
        let disks = Self(Tree::new());
        disks.0.set("/etc/udev/udev.conf", "");
        disks.boot("1", "sdb", "sda");
        disks
    }

    /// Starts the machine: names, numbers and settings are given out anew.
    fn boot(&self, id: &str, slow: &str, other: &str) {
        self.0.set(BOOT_ID, &format!("{id}\n"));
        for (block, wwid) in [(slow, "naa.5000slow  \n"), (other, "naa.5000other\n")] {
            let number = if block == "sda" { "8:0" } else { "8:16" };
            self.0.set(&format!("/sys/block/{block}/dev"), &format!("{number}\n"));
            self.0.set(&format!("/sys/block/{block}/device/wwid"), wwid);
            self.0.set(&format!("/sys/class/bdi/{number}/max_ratio"), "100\n");
        }
    }
}

/// Promise (Fixing): A disk's setting is persisted and reverted by the disk's identity, whatever its device number
/// after a reboot.
#[test]
fn a_limit_of_a_disk_is_kept_by_what_identifies_the_disk() {
    let Disks(tree) = Disks::new();
    let before = tree.everything();
    tree.fix(&[wants("dirty-throttle", RATIO, "1")], true).unwrap();
    assert!(!tree.has(TMPFILES_FILE), "a line with the number would limit another disk");
    let rule = "ACTION!=\"remove\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", \
                ATTR{device/wwid}==\"naa.5000slow\", ATTR{bdi/max_ratio}=\"1\"\n";
    let rules = tree.get(UDEV_FILE);
    assert!(rules.ends_with(&format!("# memwright change 1 (dirty-throttle)\n{rule}")), "{rules}");
    assert!(tree.undo_all().iter().all(UndoOutcome::is_gone));
    assert_eq!(tree.everything(), before);
}

#[test]
fn a_changed_rule_of_ours_is_left_alone() {
    let Disks(tree) = Disks::new();
    tree.fix(&[wants("a", RATIO, "1")], true).unwrap();
    tree.set(UDEV_FILE, &tree.get(UDEV_FILE).replace("=\"1\"", "=\"5\""));
    let outcome = tree.undo_all().remove(0);
    assert!(matches!(&outcome, UndoOutcome::Drifted { drift } if drift[0].path == UDEV_FILE));
}

#[test]
fn after_a_reboot_the_limit_is_reverted_on_the_disk_that_has_it() {
    let disks = Disks::new();
    disks.0.fix(&[wants("a", RATIO, "1")], true).unwrap();
    disks.boot("2", "sda", "sdb");
    // udev applied the rule to the slow disk; somebody has limited the other one in the same reversal.
    disks.0.set(OTHER_RATIO, "1\n");
    disks.0.set(RATIO, "1\n");
    let status = changes(&disks.0.kernel(), &disks.0.history());
    assert_eq!(status.changes[0].state, ChangeState::InForce);
    assert!(disks.0.undo_all().iter().all(UndoOutcome::is_gone));
    assert_eq!(disks.0.get(OTHER_RATIO), "100\n", "the slow disk is 8:0 now");
    assert_eq!(disks.0.get(RATIO), "1\n", "another disk's setting");
    assert!(!disks.0.has(UDEV_FILE));
}

#[test]
fn a_disk_that_is_not_there_is_said_to_be_so() {
    let Disks(tree) = Disks::new();
    tree.fix(&[wants("a", RATIO, "1")], true).unwrap();
    tree.set("/sys/block/sdb/device/wwid", "naa.5000third\n");
    assert_eq!(tree.undo_all(), [UndoOutcome::Missing]);
    assert_eq!(tree.get(RATIO), "1\n", "another disk's setting");
    assert!(tree.undo(&UndoSelection::All, true)[0].outcome.is_gone());
    assert!(!tree.has(UDEV_FILE));
}

#[test]
fn a_disk_without_an_identifier_of_its_own_is_not_kept() {
    // The second is another path to the same disk.
    for second in ["", "naa.5000slow\n"] {
        let disks = Disks::new();
        let tree = &disks.0;
        tree.set("/sys/block/sda/device/wwid", second);
        if second.is_empty() {
            tree.set("/sys/block/sdb/device/wwid", "");
        }
        let applied = tree.fix(&[wants("a", RATIO, "1")], true).unwrap();
        let why = applied.changes[0].not_kept.as_deref().unwrap();
        assert!(why.contains("no unique identifier"), "{why}");
        assert!(!tree.has(UDEV_FILE) && !tree.has(TMPFILES_FILE));
        // In another boot the number is nobody's that we know.
        tree.set(BOOT_ID, "2\n");
        assert_eq!(tree.undo_all(), [UndoOutcome::AlreadyBefore]);
        assert_eq!(tree.get(RATIO), "1\n", "another disk's setting");
    }
}

#[test]
fn a_machine_without_udev_is_said_to_be_so() {
    let Disks(tree) = Disks::new();
    std::fs::remove_dir_all(tree.file("/etc/udev")).unwrap();
    let applied = tree.fix(&[wants("a", RATIO, "1")], true).unwrap();
    let why = applied.changes[0].not_kept.as_deref().unwrap();
    assert!(why.contains("/etc/udev does not exist"), "{why}");
}

#[test]
fn an_identifier_that_udev_would_not_take_literally_is_not_written() {
    for wwid in ["t10.*", "t10.\"x\"", "t10.$kernel", "t10.[ab]", "t10.a|b"] {
        let Disks(tree) = Disks::new();
        tree.set("/sys/block/sdb/device/wwid", wwid);
        tree.fix(&[wants("a", RATIO, "1")], true).unwrap();
        assert!(!tree.has(UDEV_FILE), "{wwid}");
    }
}
