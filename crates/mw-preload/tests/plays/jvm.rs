//! A Java virtual machine that touches its whole heap at the start.

use super::stage::Stage;
use crate::common::{HERE, program, run};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

pub(crate) fn play(stage: &Stage, collector: &str) -> Option<()> {
    let (java, javac) = (program(&["java"])?, program(&["javac"])?);
    stage.version(&java, "-version");
    let source = Path::new(HERE).join("tests/plays/FillHeap.java");
    run(stage.plain(javac).arg("-d").arg(stage.dir()).arg(source));
    let heap = stage.sized(256, |mib| mib);
    let mut command = stage.played(java);
    command.args([collector, "-XX:+AlwaysPreTouch", "-cp"]).arg(stage.dir());
    command.args([format!("-Xms{heap}m"), format!("-Xmx{heap}m"), "FillHeap".to_owned()]);
    command.arg((heap / 8).to_string()).stdout(Stdio::piped());
    stage.warm_up();
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stage.timed("start to the program's first line", || said.read_line(&mut line).unwrap());
    stage.timed("the program, to its end", || {
        said.read_to_string(&mut line).unwrap();
        stage.say("ended", child.wait().unwrap());
    });
    stage.say("said", line);
    stage.say("complaints", stage.complaints());
    Some(())
}
