//! memwright on another kernel: a virtual machine with two nodes is booted, the condition is made,
//! memwright captures inside, and the capture is looked at here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use mw_lab::{LabError, Outcome, fixtures};
use std::path::Path;
use std::process::Command;

#[test]
fn a_hazard_made_on_another_kernel_is_found() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = tempfile::tempdir().unwrap();
    let memwright = Path::new(env!("CARGO_BIN_EXE_memwright"));
    let names = ["zone-reclaim/firing".to_owned()];
    let mut captured = Vec::new();
    let mut keep = |one| {
        captured.push(one);
        Ok(())
    };
    let mut progress = |line: &str| println!("{line}");
    let lab = repository.join("lab");
    match fixtures::capture(&lab, &names, memwright, &mut progress, &mut keep) {
        Err(LabError::ProgramMissing { program, package }) => {
            mw_test::skip(format!("{program} is not installed: apt-get install {package}"));
            return;
        }
        result => result.unwrap(),
    }
    assert_eq!(captured[0].outcome, Outcome::Passed);
    let tree = scratch.path().join("captured.tar.zst");
    std::fs::write(&tree, &captured[0].capture).unwrap();
    let output = Command::new(memwright).arg("check").arg("--root").arg(&tree).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("critical zone-reclaim: vm.zone_reclaim_mode"), "{said}");
}
