//! QEMU with memory that it populates at the start.

use super::stage::Stage;
use crate::common::program;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

pub(crate) fn play(stage: &Stage, backend: &str) -> Option<()> {
    let qemu = program(&["qemu-system-x86_64"])?;
    stage.version(&qemu, "--version");
    let mib = stage.sized(256, |mib| mib / 2);
    let mut command = stage.played(qemu);
    command.args(["-machine", "q35,memory-backend=memory,accel=tcg", "-m", &format!("{mib}M")]);
    command.args(["-S", "-nodefaults", "-display", "none", "-qmp", "stdio", "-object"]);
    command.arg(format!("{backend},id=memory,size={mib}M,prealloc=on,share=on"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    stage.warm_up();
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Its monitor greets when the machine is there.
    let greeting = stage.timed("start to the monitor's greeting", || said.next().unwrap());
    stage.say("greeting", greeting.contains("QMP"));
    let mut input = child.stdin.take().unwrap();
    for ask in ["qmp_capabilities", "query-status", "query-memory-size-summary", "quit"] {
        writeln!(input, "{{\"execute\": \"{ask}\"}}").unwrap();
        stage.say(ask, said.find(|line| line.contains("return")).unwrap());
    }
    stage.say("ended", stage.timed("stop", || child.wait().unwrap()));
    stage.say("complaints", stage.complaints());
    Some(())
}
