//! PostgreSQL's regression tests, of the version that is installed: a server of their own is started,
//! and every statement's answer is compared with what is expected.

use super::outcome::{Outcomes, TestOutcome};
use super::runner::{Directories, Launcher, OpenedSuite, Runner};
use crate::packages;
use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const NAME: &str = "postgresql";

const ROOT: &str = "/usr/lib/postgresql";
const PACKAGES: &[(&str, &str)] =
    &[("postgresql", "/usr/share/doc/postgresql"), ("gcc", "/usr/bin/gcc")];

/// Directory of the tests in the source.
const TESTS: &str = "src/test/regress";
const MODULES: &str = "contrib/spi";

/// C functions that the tests call.
const LIBRARIES: &[&str] =
    &["src/test/regress/regress.c", "contrib/spi/refint.c", "contrib/spi/autoinc.c"];

/// Debian's first user without a name: PostgreSQL refuses to be root.
const NOBODY: u32 = 65534;

struct Tests {
    major: String,
    /// The tests, and the C functions beside them.
    source: PathBuf,
    work: PathBuf,
}

pub(super) fn open(directories: &Directories) -> anyhow::Result<OpenedSuite> {
    packages::install(PACKAGES)?;
    let major = newest()?;
    let package = format!("postgresql-{major}");
    let Some(version) = packages::installed_source_version(&package)? else {
        return Ok(OpenedSuite::Missing(format!("{package} is not installed as a Debian package")));
    };
    let cache = directories.cache.join(format!("{package}-{version}"));
    if !cache.exists() {
        get(&major, &version, &cache)?;
    }
    let source = directories.work.path().join("postgresql-source");
    copy(&cache, &source)?;
    let work = directories.work.path().join(NAME);
    std::fs::create_dir(&work)?;
    give_away(&work)?;
    Ok(OpenedSuite::Ready { version, runner: Box::new(Tests { major, source, work }) })
}

/// The newest major version that is installed.
fn newest() -> anyhow::Result<String> {
    let entries = std::fs::read_dir(ROOT).context(ROOT)?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let newest = names.filter_map(|name| name.parse::<u32>().ok()).max();
    Ok(newest.with_context(|| format!("{ROOT} has no version"))?.to_string())
}

/// Downloads the tests in the version of the server, and builds their C functions.
fn get(major: &str, version: &str, into: &Path) -> anyhow::Result<()> {
    let parent = into.parent().context("no parent")?;
    std::fs::create_dir_all(parent)?;
    let half = tempfile::tempdir_in(parent)?;
    let package = format!("postgresql-{major}");
    packages::source(&package, version, &[TESTS, MODULES], half.path())?;
    let headers = half.path().join("headers");
    let server_dev = format!("postgresql-server-dev-{major}={version}");
    packages::unpack_one(&server_dev, &headers)?;
    let include = headers.join(format!("usr/include/postgresql/{major}/server"));
    for library in LIBRARIES {
        let source = half.path().join(library);
        let name = source.file_stem().context("no name")?.to_owned();
        let status = Command::new("gcc")
            .args(["-O2", "-fPIC", "-shared", "-I"])
            .arg(&include)
            .arg("-o")
            .arg(half.path().join(TESTS).join(name).with_extension("so"))
            .arg(&source)
            .status()
            .context("gcc")?;
        anyhow::ensure!(status.success(), "{library} was not built");
    }
    std::fs::rename(half.keep(), into).with_context(|| into.display().to_string())
}

/// The cache may lie where PostgreSQL's user may not look.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir(to)?;
    let tests = from.join(TESTS);
    let status = Command::new("cp").arg("-r").arg(tests).arg(to).status().context("cp")?;
    anyhow::ensure!(status.success(), "cp failed");
    Ok(())
}

impl Runner for Tests {
    /// They build on each other: all are run, whichever are asked for.
    fn run(
        &self,
        launcher: &Launcher,
        _only: Option<&BTreeSet<String>>,
    ) -> anyhow::Result<Outcomes> {
        let root = format!("{ROOT}/{}", self.major);
        let regress = format!("{root}/lib/pgxs/src/test/regress/pg_regress");
        let bin = format!("--bindir={root}/bin");
        let tests = self.source.join("regress").display().to_string();
        let dir = tempfile::tempdir_in(&self.work)?;
        give_away(dir.path())?;
        let output = dir.path().display().to_string();
        let (input, libraries) = (format!("--inputdir={tests}"), format!("--dlpath={tests}"));
        let schedule = format!("--schedule={tests}/parallel_schedule");
        let (into, instance) =
            (format!("--outputdir={output}"), format!("--temp-instance={output}/instance"));
        let fixed = ["--encoding=UTF8", "--no-locale", "--max-connections=8"];
        let mut command = vec![&*regress, &*bin, &*input, &*libraries, &*schedule, &*into];
        command.push(&instance);
        command.extend(fixed);
        let words = as_nobody().into_iter().chain(launcher.words(&command)).collect::<Vec<_>>();
        let output = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .env("TMPDIR", dir.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .with_context(|| words.join(" "))?;
        Ok(outcomes(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Command prefix to run as PostgreSQL's user, who may lock memory: `run --lock` says in every process
/// that it cannot, which the tests take for a part of the answer.
fn as_nobody() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let fixed = ["--clear-groups", "--inh-caps=+ipc_lock", "--ambient-caps=+ipc_lock", "--"];
    let fixed = fixed.map(str::to_owned);
    ["setpriv".to_owned()].into_iter().chain(user).chain(fixed).collect()
}

/// Makes a directory PostgreSQL's own.
fn give_away(folder: &Path) -> anyhow::Result<()> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder, Some(NOBODY), None)?;
    }
    Ok(())
}

/// From lines as `test boolean ... ok  123 ms`, in groups `     boolean  ... FAILED  123 ms`.
fn outcomes(text: &str) -> Outcomes {
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(" ... ")?;
            let name = name.trim().trim_start_matches("test ").trim();
            let outcome = match rest.split_whitespace().next()? {
                "ok" => TestOutcome::Passed,
                how => TestOutcome::Failed(how.to_lowercase()),
            };
            (!name.contains(' ')).then(|| (name.to_owned(), outcome))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pg_regress_is_read() {
        let text = "============== creating temporary instance        ==============\n\
                    running on port 58928 with PID 12\n\
                    test tablespace                   ... ok          312 ms\n\
                    parallel group (2 tests):  char varchar\n     \
                    char                         ... ok           40 ms\n     \
                    varchar                      ... FAILED       40 ms\n\
                    test misc    ... FAILED (test process exited with exit code 2)   40 ms\n";
        let failed = || TestOutcome::Failed("failed".to_owned());
        let want = [
            ("tablespace", TestOutcome::Passed),
            ("char", TestOutcome::Passed),
            ("varchar", failed()),
            ("misc", failed()),
        ];
        let want: Outcomes = want.into_iter().map(|(name, o)| (name.to_owned(), o)).collect();
        assert_eq!(outcomes(text), want);
    }
}
