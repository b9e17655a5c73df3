//! A Java virtual machine that touches its whole heap at the start.

use super::harness::Harness;
use crate::common::{HERE, program, run};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

pub(crate) fn run_workload(harness: &Harness, collector: &str) -> Option<()> {
    let (java, javac) = (program(&["java"])?, program(&["javac"])?);
    harness.version(&java, "-version");
    let source = Path::new(HERE).join("tests/workloads/FillHeap.java");
    run(harness.plain_command(javac).arg("-d").arg(harness.dir()).arg(source));
    let heap = harness.scaled(256, |mib| mib);
    let mut command = harness.command(java);
    command.args([collector, "-XX:+AlwaysPreTouch", "-cp"]).arg(harness.dir());
    command.args([format!("-Xms{heap}m"), format!("-Xmx{heap}m"), "FillHeap".to_owned()]);
    command.arg((heap / 8).to_string()).stdout(Stdio::piped());
    harness.touch_memory();
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    harness.time("start to the program's first line", || output.read_line(&mut line).unwrap());
    harness.time("the program, to its end", || {
        output.read_to_string(&mut line).unwrap();
        harness.record("ended", child.wait().unwrap());
    });
    harness.record("output", line);
    harness.record("errors", harness.errors());
    Some(())
}
