//! A remedy that cannot help is not proposed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_collect::text_archive;
use mw_model::{Reading, Remedy, Step, Window};

fn firing(rule: &str) -> Window {
    let archive = mw_test::fixture(&format!("{rule}/firing"));
    mw_collect::window(&text_archive::open(&archive).unwrap())
}

fn remedy(window: &Window, rule: &str) -> Remedy {
    let findings = mw_rules::check(window, None).findings;
    findings.into_iter().find(|finding| finding.rule == rule).unwrap().remedy.unwrap()
}

/// The machine has so much available.
fn leave(window: &mut Window, bytes: u64) {
    let Reading::Value(meminfo) = &mut window.now.sample.meminfo else { panic!("meminfo") };
    meminfo.mem_free_bytes = Some(bytes);
    meminfo.mem_available_bytes = Some(bytes);
}

#[test]
fn a_filesystem_is_not_enlarged_beyond_memory() {
    let enlarges = |remedy: &Remedy| {
        let remounts =
            |step: &Step| matches!(step, Step::Manual { command } if command.contains("remount"));
        remedy.steps.iter().any(remounts)
    };
    let mut window = firing("tmpfs-full");
    leave(&mut window, 1 << 40);
    assert!(enlarges(&remedy(&window, "tmpfs-full")));
    leave(&mut window, 1 << 20);
    let remedy = remedy(&window, "tmpfs-full");
    assert!(!enlarges(&remedy), "{remedy:?}");
    assert!(remedy.summary.contains("too little memory"), "{}", remedy.summary);
}

#[test]
fn huge_pages_beyond_memory_are_not_asked_for_again() {
    let mut window = firing("hugepage-shortage");
    let Reading::Value(wanted) = &mut window.now.hugepages_wanted else { panic!("wanted") };
    let asked = wanted.last_mut().unwrap();
    asked.source = "/etc/sysctl.d/10-db.conf".to_owned();
    leave(&mut window, 1 << 40);
    assert!(remedy(&window, "hugepage-shortage").is_ours());
    leave(&mut window, 1 << 20);
    let remedy = remedy(&window, "hugepage-shortage");
    assert!(!remedy.is_ours(), "fix would drive everything else out of memory: {remedy:?}");
}
