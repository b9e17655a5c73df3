//! The programs of others: Debian's, installed or unpacked beside the system, and how long one takes until it is
//! ready and until it has ended.

use crate::packages;
use crate::workspace::{self, target_dir};
use anyhow::Context;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::{NamedTempFile, TempDir};

const PACKAGES: &[&str] =
    &["vmtouch", "libhugetlbfs-dev", "librte-eal23", "libdpdk-dev", "libnuma1", "libbsd0"];

/// Longest time until a program is ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Common interface of the programs below: they print how long getting memory took, and wait.
const REPORT: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static struct timespec begun;
static void begin(void)
{
    clock_gettime(CLOCK_MONOTONIC, &begun);
}
static int report(void)
{
    struct timespec done;
    clock_gettime(CLOCK_MONOTONIC, &done);
    printf("ready %f\n", (done.tv_sec - begun.tv_sec) * 1e3 + (done.tv_nsec - begun.tv_nsec) / 1e6);
    fflush(stdout);
    return pause();
}
"#;

/// Gets memory by `get_huge_pages` of libhugetlbfs, and writes it.
const HUGETLBFS: &str = r#"
#include <hugetlbfs.h>
int main(int argc, char **argv)
{
    size_t bytes = strtoul(argv[argc - 1], NULL, 10) << 20;
    begin();
    void *memory = get_huge_pages(bytes, GHP_DEFAULT);
    if (!memory)
        return 1;
    memset(memory, 0, bytes);
    return report();
}
"#;

/// Initializes DPDK's environment, which gets its memory.
const DPDK: &str = r#"
#include <rte_eal.h>
int main(int argc, char **argv)
{
    begin();
    if (rte_eal_init(argc, argv) < 0)
        return 1;
    return report();
}
"#;

/// Paths of the programs.
pub(super) struct Programs {
    pub(super) memwright: PathBuf,
    tree: PathBuf,
    /// Programs that are compiled here, and mount points.
    folder: TempDir,
}

impl Programs {
    pub(super) fn get(cache: &Path) -> anyhow::Result<Self> {
        let tree = packages::unpacked(PACKAGES, cache)?;
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("mount"))?;
        let programs = Self { memwright: target_dir().join("release/memwright"), tree, folder };
        programs.compile("hugetlbfs", HUGETLBFS, &["-lhugetlbfs"])?;
        programs.compile("dpdk", DPDK, &["-march=corei7", "-lrte_eal"])?;
        Ok(programs)
    }

    fn compile(&self, name: &str, source: &str, options: &[&str]) -> anyhow::Result<()> {
        let include = self.tree.join("usr/include");
        let path = self.compiled(name).with_extension("c");
        std::fs::write(&path, [REPORT, source].concat())?;
        let mut cc = Command::new("cc");
        cc.arg("-O2").arg("-I").arg(&include).arg("-I").arg(include.join("dpdk"));
        cc.arg("-I").arg(include.join("x86_64-linux-gnu/dpdk"));
        cc.arg("-o").arg(self.compiled(name)).arg(path).arg("-L").arg(self.libraries());
        cc.arg("-Wl,--allow-shlib-undefined").args(options);
        workspace::run(&mut cc)
    }

    fn libraries(&self) -> PathBuf {
        self.tree.join("usr/lib/x86_64-linux-gnu")
    }

    /// A program that was compiled here.
    pub(super) fn compiled(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command with the libraries of the unpacked packages.
    pub(super) fn unpacked(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(self.tree.join(program));
        let libraries = [self.libraries(), self.tree.join("lib/x86_64-linux-gnu")];
        let joined = libraries.map(|path| path.display().to_string()).join(":");
        command.env("LD_LIBRARY_PATH", joined);
        command
    }

    /// A command under `memwright run`, or plain.
    pub(super) fn command(&self, program: &str, run: Option<&[&str]>) -> Command {
        let Some(options) = run else { return Command::new(program) };
        let mut command = Command::new(&self.memwright);
        command.arg("run").args(options).arg("--").arg(program);
        command
    }
}

/// The version that a program states, in its first line.
pub(super) fn version(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Ok(said.lines().next().unwrap_or_default().trim().to_owned())
}

/// A program to start.
pub(super) struct Run {
    pub(super) command: Command,
    /// Prefix of its first line when it has its memory.
    pub(super) ready: &'static str,
    /// A file that it locks, which is removed when it has ended.
    pub(super) file: Option<NamedTempFile>,
}

/// Duration of a program.
#[derive(Debug)]
pub(super) struct Times {
    /// From its start until its memory is populated, or what it measured of this itself.
    pub(super) populated: Duration,
    /// From SIGKILL until nothing is left.
    pub(super) ended: Duration,
}

impl Run {
    pub(super) fn measure(mut self) -> anyhow::Result<Times> {
        let (reader, writer) = std::io::pipe()?;
        self.command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let begun = Instant::now();
        let child = self.command.spawn().with_context(|| format!("{:?}", self.command))?;
        let child = mw_test::ChildGuard(child);
        // Its ends of the pipe are the program's alone from here on.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        let line = ready_line(&lines(reader), self.ready);
        let ready = begun.elapsed();
        let line = line.with_context(|| format!("{:?}", self.command))?;
        let mut child = child;
        let ended = end(&mut child.0, self.file.take())?;
        let own = line.strip_prefix("ready ").and_then(|ms| ms.parse::<f64>().ok());
        let populated = own.map_or(ready, |ms| Duration::from_secs_f64(ms / 1000.0));
        Ok(Times { populated, ended })
    }
}

fn end(child: &mut Child, file: Option<NamedTempFile>) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    child.kill()?;
    child.wait()?;
    drop(file);
    Ok(begun.elapsed())
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            // Read on without a receiver too: a full pipe would stop the program.
            let _ = sender.send(line);
        }
    });
    lines
}

fn ready_line(lines: &Receiver<String>, ready: &str) -> anyhow::Result<String> {
    let until = Instant::now() + LIMIT;
    let mut seen = Vec::new();
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let Ok(line) = lines.recv_timeout(left) else { break };
        if line.contains(ready) {
            return Ok(line);
        }
        seen.push(line);
    }
    anyhow::bail!("no line with {ready:?}: {}", seen.join("; "))
}
