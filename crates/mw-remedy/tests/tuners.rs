//! Services that set what memwright sets, in trees as TuneD's and saptune's packages lay them out.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use common::{DIRTY_BYTES, SWAPPINESS, THP, Tree, ZONE_RECLAIM, wants};

/// Who else sets what a plan sets: file, line, value, and whether it wins at the next boot.
fn others(tree: &Tree, path: &str, value: &str) -> Vec<(String, usize, String, bool)> {
    let plan = tree.plan(&[wants("rule", path, value)]);
    let shadowed = plan.changes.into_iter().flat_map(|change| change.shadowed);
    shadowed.map(|other| (other.file, other.line, other.value, other.wins)).collect()
}

fn tuned(tree: &Tree, dir: &str, name: &str, text: &str) {
    tree.set(&format!("{dir}/{name}/tuned.conf"), text);
}

/// Promise (Fixing): What TuneD's active profile and saptune's notes set instead is said, with file and line.
#[test]
fn tuned_sets_what_its_active_profile_includes() {
    let tree = Tree::new();
    tree.set("/etc/tuned/active_profile", "mine\n");
    let base = "[main]\nsummary=base\n\n[sysctl]\nvm.swappiness = 10\nvm.zone_reclaim_mode=1\n";
    tuned(&tree, "/usr/lib/tuned", "base", base);
    let mine = "[main]\ninclude=base\n[vm]\ntransparent_hugepages=always\n[more]\ntype=sysctl\nvm.swappiness=>30\n\
                [vm.arm]\ntype=vm\nuname_regex=aarch64\ntransparent_hugepages=never\n";
    tuned(&tree, "/etc/tuned", "mine", mine);
    tuned(&tree, "/usr/lib/tuned", "other", "[sysctl]\nvm.swappiness=90\n");
    let file = |name: &str| format!("{name}/tuned.conf");
    // sysctl.d is applied once more after TuneD; nothing is for THP.
    let expected = (file("/etc/tuned/mine"), 7, "30".to_owned(), false);
    assert_eq!(others(&tree, SWAPPINESS, "1"), [expected]);
    let expected = (file("/usr/lib/tuned/base"), 6, "1".to_owned(), false);
    assert_eq!(others(&tree, ZONE_RECLAIM, "0"), [expected]);
    tree.set(THP, "[madvise] always never\n");
    let expected = (file("/etc/tuned/mine"), 4, "always".to_owned(), true);
    assert_eq!(others(&tree, THP, "never"), [expected]);
    tree.set("/etc/tuned/tuned-main.conf", "# comment\nreapply_sysctl = 0\n");
    assert!(others(&tree, SWAPPINESS, "1")[0].3);
    assert_eq!(others(&tree, SWAPPINESS, "30"), [], "the same");
    tree.set("/etc/tuned/active_profile", "\n");
    assert_eq!(others(&tree, SWAPPINESS, "1"), []);
}

#[test]
fn the_other_file_of_a_limit_is_named_where_it_undoes_ours() {
    let tree = Tree::new();
    tree.set("/etc/tuned/active_profile", "mine\n");
    tuned(&tree, "/etc/tuned", "mine", "[sysctl]\nvm.dirty_ratio = 40\n");
    assert_eq!(others(&tree, DIRTY_BYTES, "200000"), [], "sysctl.d is applied once more");
    tree.set("/etc/tuned/tuned-main.conf", "reapply_sysctl=0\n");
    let expected = ("/etc/tuned/mine/tuned.conf".to_owned(), 2, "40".to_owned(), true);
    assert_eq!(others(&tree, DIRTY_BYTES, "200000"), [expected]);
}

#[test]
fn profiles_that_include_themselves_or_leave_the_directory_end() {
    let tree = Tree::new();
    tree.set("/etc/tuned/active_profile", "loop ../../secret\n");
    tuned(&tree, "/etc/tuned", "loop", "[main]\ninclude=loop\n[sysctl]\nvm.swappiness=5\n");
    tree.set("/secret/tuned.conf", "[sysctl]\nvm.swappiness=6\n");
    assert_eq!(others(&tree, SWAPPINESS, "1").len(), 1);
}

#[test]
fn saptune_sets_what_its_applied_notes_and_their_overrides_set() {
    let tree = Tree::new();
    tree.set("/etc/sysconfig/saptune", "TUNE_FOR_SOLUTIONS=\"\"\nNOTE_APPLY_ORDER=\"1 2\"\n");
    tree.set("/var/lib/saptune/working/notes/1", "[sysctl]\nvm.swappiness = 10\n[vm]\nTHP=never\n");
    tree.set("/var/lib/saptune/working/notes/2", "[sysctl]\nvm.zone_reclaim_mode=1\n");
    tree.set("/var/lib/saptune/working/notes/3", "[sysctl]\nvm.swappiness=99\n");
    tree.set("/etc/saptune/override/1", "[version]\n[sysctl]\nvm.swappiness=20\n");
    let swappiness = ("/etc/saptune/override/1".to_owned(), 3, "20".to_owned(), true);
    assert_eq!(others(&tree, SWAPPINESS, "1"), [swappiness]);
    assert_eq!(others(&tree, ZONE_RECLAIM, "0").len(), 1);
    tree.set(THP, "[madvise] always never\n");
    assert_eq!(others(&tree, THP, "always").len(), 1);
}
