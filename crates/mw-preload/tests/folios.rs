//! `--huge auto` where the machine allows folios below a huge page.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use common::{Compiled, preload, run};
use mw_test::{FolioSwitchGuard, alone, skip};

const NO_SWITCHES: &str = "needs root and switches for folio sizes (Linux 6.11)";

/// The line of the statistics about page sizes, after its colon.
fn sizes(program: &Compiled, args: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = program.command(args);
    let command = preload(&mut command).env("MEMWRIGHT_HUGE", "auto").env("MEMWRIGHT_STATS", "1");
    let output = run(command.envs(variables.iter().copied()));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "wrong 0\n");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find_map(|line| line.split_once("page sizes, by page faults: "));
    line.unwrap_or_else(|| panic!("no page sizes: {text}")).1.to_owned()
}

#[test]
fn memory_consists_of_the_folios_that_are_allowed() {
    let _alone = alone();
    let program = Compiled::new("folios.c");
    for kib in [64, 512] {
        let Some(mut switches) = FolioSwitchGuard::only(&[kib]) else { return skip(NO_SWITCHES) };
        switches.forbid_huge_pages();
        let expected = format!("0.12 GiB in {kib}k");
        for (args, variables) in
            [(["map", "128"], &[][..]), (["later", "128"], &[("MEMWRIGHT_PREFAULT", "1")][..])]
        {
            let sizes = sizes(&program, &args, variables);
            if sizes == "0.12 GiB in 4k" {
                return skip("free memory is too fragmented for folios");
            }
            assert!(sizes.starts_with(&expected), "{args:?}: {sizes}");
        }
    }
}

#[test]
fn without_switches_memory_consists_of_base_pages() {
    let _alone = alone();
    let Some(mut switches) = FolioSwitchGuard::only(&[]) else { return skip(NO_SWITCHES) };
    switches.forbid_huge_pages();
    let program = Compiled::new("folios.c");
    assert_eq!(sizes(&program, &["map", "128"], &[]), "0.12 GiB in 4k");
}

#[test]
fn a_program_that_advises_is_left_alone() {
    let _alone = alone();
    let Some(_switches) = FolioSwitchGuard::only(&[64]) else { return skip(NO_SWITCHES) };
    let program = Compiled::new("folios.c");
    assert_eq!(sizes(&program, &["advises", "128"], &[]), "0.12 GiB in 4k");
}
