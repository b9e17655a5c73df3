//! QEMU with memory that it populates at the start.

use super::harness::Harness;
use crate::common::program;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

pub(crate) fn run_workload(harness: &Harness, backend: &str) -> Option<()> {
    let qemu = program(&["qemu-system-x86_64"])?;
    harness.version(&qemu, "--version");
    let mib = harness.scaled(256, |mib| mib / 2);
    let mut command = harness.command(qemu);
    command.args(["-machine", "q35,memory-backend=memory,accel=tcg", "-m", &format!("{mib}M")]);
    command.args(["-S", "-nodefaults", "-display", "none", "-qmp", "stdio", "-object"]);
    command.arg(format!("{backend},id=memory,size={mib}M,prealloc=on,share=on"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    harness.touch_memory();
    let mut child = command.spawn().unwrap();
    let mut replies = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The monitor sends its greeting when the machine exists.
    let greeting = harness.time("start to the monitor's greeting", || replies.next().unwrap());
    harness.record("greeting", greeting.contains("QMP"));
    let mut input = child.stdin.take().unwrap();
    for command in ["qmp_capabilities", "query-status", "query-memory-size-summary", "quit"] {
        writeln!(input, "{{\"execute\": \"{command}\"}}").unwrap();
        harness.record(command, replies.find(|line| line.contains("return")).unwrap());
    }
    harness.record("ended", harness.time("stop", || child.wait().unwrap()));
    harness.record("errors", harness.errors());
    Some(())
}
