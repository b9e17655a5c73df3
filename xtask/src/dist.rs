//! Packages for release: Debian, RPM, an archive with a static program, a bill of materials and checksums. The same
//! sources give the same bytes, in whatever directory they are built.
//!
//! The packages contain what `make install` installs: debian/rules and the RPM's spec call it, and only assign its
//! files to packages.

mod check;
mod plain;

use crate::tools;
use crate::workspace::{self, output, root, target_dir};
use anyhow::Context;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

pub(crate) use check::run as check;
pub use plain::debian as plain_debian;
pub(crate) use plain::run as plain;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The name of the program, and that of the static one beside it.
const PROGRAM: &str = "memwright";
const STATIC: &str = "memwright-static";

/// Paths of the sources and cargo's directory in build output, instead of those on this machine.
const SOURCES: &str = "/usr/src/memwright";
const CARGO_HOME: &str = "/usr/src/cargo";

/// Files beside the static program in its archive.
const DOCUMENTS: &[&str] = &["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Debian packages that build and check the others.
const PACKAGES: &[(&str, &str)] = &[
    ("binutils", "/usr/bin/strip"),
    ("debhelper", "/usr/bin/dh"),
    ("gcc", "/usr/bin/gcc"),
    ("lintian", "/usr/bin/lintian"),
    ("make", "/usr/bin/make"),
    ("mmdebstrap", "/usr/bin/mmdebstrap"),
    ("rpm", "/usr/bin/rpmbuild"),
];

/// Builds everything into `out`.
pub(crate) fn run(out: Option<PathBuf>) -> anyhow::Result<()> {
    let out = out.unwrap_or_else(|| target_dir().join("packages"));
    let sources = target_dir().join("dist-sources");
    for path in build(&sources, &target_dir(), &out)? {
        let size = path.metadata()?.len();
        println!("{:>10.1} MiB  {}", size as f64 / f64::from(1 << 20), path.display());
    }
    Ok(())
}

/// Copies the sources to `sources`, builds them in `target`, and returns the files that are in `out` then.
fn build(sources: &Path, target: &Path, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    step("packages that build the others", || crate::packages::install(PACKAGES))?;
    step("cargo-auditable and cargo-cyclonedx", || {
        tools::path_with(tools::AUDITABLE)?;
        tools::path_with(tools::CYCLONEDX).map(drop)
    })?;
    let release = Release::new(sources, target)?;
    step("sources", || release.copy_sources())?;
    step("the static program, and what it shares with the others", || release.static_program())?;
    step("program and libraries", || release.programs())?;
    let work = tempfile::tempdir()?;
    let packages = work.path().join("packages");
    for dir in [&packages, &work.path().join("rpm")] {
        std::fs::create_dir(dir).with_context(|| dir.display().to_string())?;
    }
    step("Debian packages", || release.debian(&work.path().join("debian"), &packages))?;
    step("RPM packages", || release.rpm(&work.path().join("rpm"), &packages))?;
    step("archive of the static program", || release.archive(work.path(), &packages))?;
    step("bill of materials", || release.bill_of_materials(&packages))?;
    checksums(&packages)?;
    replace(&packages, out)
}

/// Says what is done, and in the end how long it took.
fn step<T>(what: &str, run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let begun = Instant::now();
    println!("== {what}");
    let done = run().with_context(|| what.to_owned())?;
    println!("== {what}: {:.0} s", begun.elapsed().as_secs_f64());
    Ok(done)
}

/// One build.
struct Release {
    sources: PathBuf,
    target: PathBuf,
    /// The directory of the profile in `target`.
    built: PathBuf,
    /// Of the Debian packages.
    debian_version: String,
    /// Time of the last commit, in seconds since 1970: the time of every file.
    epoch: String,
}

impl Release {
    fn new(sources: &Path, target: &Path) -> anyhow::Result<Self> {
        for dir in [sources, target] {
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
        let mut log = Command::new("git");
        log.args(["log", "-1", "--format=%ct"]).current_dir(root());
        let epoch = output(&mut log)?.trim().to_owned();
        let (sources, target) = (sources.canonicalize()?, target.canonicalize()?);
        let built = target.join("dist");
        Ok(Self { sources, target, built, debian_version: format!("{VERSION}-1"), epoch })
    }

    /// Files that git knows, and nothing that happens to lie beside them. The copies are new: cargo takes a source for
    /// compiled that was changed before an earlier build ended.
    fn copy_sources(&self) -> anyhow::Result<()> {
        std::fs::remove_dir_all(&self.sources)?;
        std::fs::create_dir(&self.sources)?;
        let script =
            "git ls-files -z | xargs -0 cp --parents --no-dereference --preserve=mode -t \"$0\"";
        workspace::run(
            self.command("sh").args(["-c", script]).arg(&self.sources).current_dir(root()),
        )
    }

    fn programs(&self) -> anyhow::Result<()> {
        let packages = ["mw-cli", "mw-preload", "mw-capi"].map(|name| ["--package", name]);
        self.cargo("build", packages.as_flattened())
    }

    /// Only the link of the program is static: all crates are those of the packages, compiled once.
    fn static_program(&self) -> anyhow::Result<()> {
        let program = ["--package", "mw-cli", "--bin", PROGRAM];
        self.cargo("rustc", &[&program[..], &["--", "-Ctarget-feature=+crt-static"]].concat())?;
        std::fs::copy(self.built.join(PROGRAM), self.built.join(STATIC)).context(STATIC)?;
        Ok(())
    }

    fn cargo(&self, command: &str, args: &[&str]) -> anyhow::Result<()> {
        let flags = self.remapped().map(|to| format!("--remap-path-prefix={to}"));
        let c_flags = self.remapped().map(|to| format!("-ffile-prefix-map={to}")).join(" ");
        let mut cargo = self.command("cargo");
        cargo.args(["auditable", command, "--locked", "--profile", "dist"]).args(args);
        cargo.env("PATH", tools::path_with(tools::AUDITABLE)?).current_dir(&self.sources);
        cargo.env("CARGO_TARGET_DIR", &self.target).env("CFLAGS", c_flags);
        workspace::run(cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")))
    }

    /// The later ones take precedence.
    fn remapped(&self) -> [String; 3] {
        let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let cargo = cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        [
            format!("{}={CARGO_HOME}", cargo.unwrap_or_default().display()),
            format!("{}={SOURCES}/target", self.target.display()),
            format!("{}={SOURCES}", self.sources.display()),
        ]
    }

    /// debian/rules in a directory of its own, with a changelog of one entry.
    fn debian(&self, dir: &Path, packages: &Path) -> anyhow::Result<()> {
        std::fs::create_dir(dir)?;
        workspace::run(
            self.command("cp").arg("-r").arg(self.sources.join("packaging/debian")).arg(dir),
        )?;
        let date =
            output(self.command("date").args(["-u", "-R", "-d", &format!("@{}", self.epoch)]))?;
        let changelog = format!(
            "memwright ({}) unstable; urgency=medium\n\n  * CHANGELOG.md lists the changes.\n\n \
             -- The memwright developers <memwright@users.noreply.github.com>  {date}",
            self.debian_version
        );
        std::fs::write(dir.join("debian/changelog"), changelog)?;
        let mut rules = self.command("debian/rules");
        rules.arg("binary").current_dir(dir).env("SOURCE", &self.sources).env("BUILT", &self.built);
        rules.env("DEB_RULES_REQUIRES_ROOT", "no").env("DEB_BUILD_OPTIONS", "noautodbgsym");
        workspace::run(&mut rules)?;
        move_into(dir.parent().context("no parent")?, "deb", packages)
    }

    fn rpm(&self, dir: &Path, packages: &Path) -> anyhow::Result<()> {
        let mut date = self.command("date");
        let date = output(date.args(["-u", "+%a %b %d %Y", "-d", &format!("@{}", self.epoch)]))?;
        let mut rpmbuild = self.command("rpmbuild");
        rpmbuild.args(["-bb", "--quiet"]);
        let (sources, built) =
            (self.sources.display().to_string(), self.built.display().to_string());
        let dir_name = dir.display().to_string();
        for (name, value) in [
            ("_topdir", dir_name.as_str()),
            ("_rpmdir", dir_name.as_str()),
            ("_build_name_fmt", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"),
            ("_buildhost", "localhost"),
            ("use_source_date_epoch_as_buildtime", "1"),
            ("clamp_mtime_to_source_date_epoch", "1"),
            ("memwright_version", VERSION),
            ("memwright_date", date.trim()),
            ("memwright_sources", sources.as_str()),
            ("memwright_built", built.as_str()),
        ] {
            rpmbuild.arg("--define").arg(format!("{name} {value}"));
        }
        workspace::run(rpmbuild.arg(self.sources.join("packaging/rpm/memwright.spec")))?;
        move_into(dir, "rpm", packages)
    }

    /// The static program, for machines without a package or with another C library.
    fn archive(&self, work: &Path, packages: &Path) -> anyhow::Result<()> {
        let name = format!("memwright-{VERSION}-x86_64-static");
        let dir = work.join(&name);
        std::fs::create_dir(&dir)?;
        std::fs::copy(self.built.join(STATIC), dir.join(PROGRAM)).context(STATIC)?;
        let documents = DOCUMENTS.iter().map(|document| self.sources.join(document));
        workspace::run(self.command("cp").args(documents).arg(&dir))?;
        let mut tar = self.command("tar");
        tar.args(["--sort=name", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner"]);
        tar.args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip -9n"]);
        tar.arg(format!("--mtime=@{}", self.epoch)).arg("-C").arg(work);
        workspace::run(tar.arg("-cf").arg(packages.join(format!("{name}.tar.gz"))).arg(&name))
    }

    /// In CycloneDX's format, of the program with the features that are packaged.
    fn bill_of_materials(&self, packages: &Path) -> anyhow::Result<()> {
        let mut cargo = self.command("cargo");
        cargo.args([
            "cyclonedx",
            "-q",
            "--format",
            "json",
            "--spec-version",
            "1.5",
            "--target",
            TARGET,
        ]);
        cargo.env("PATH", tools::path_with(tools::CYCLONEDX)?).current_dir(&self.sources);
        workspace::run(cargo.args(["--override-filename", "bill-of-materials"]))?;
        let text = workspace::read(&self.sources.join("crates/mw-cli/bill-of-materials.json"))?;
        let text = text.replace(&self.sources.display().to_string(), SOURCES);
        Ok(std::fs::write(packages.join(format!("memwright-{VERSION}.cdx.json")), text)?)
    }

    /// A program that finds nothing in its environment that differs from build to build.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.epoch).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command
    }
}

/// As sha256sum(1) reads it back.
fn checksums(packages: &Path) -> anyhow::Result<()> {
    let names =
        files(packages)?.into_iter().filter_map(|path| path.file_name().map(OsStr::to_owned));
    let sums = output(Command::new("sha256sum").args(names).current_dir(packages))?;
    Ok(std::fs::write(packages.join("SHA256SUMS"), sums)?)
}

/// Moves the files with an ending to a directory.
fn move_into(dir: &Path, ending: &str, to: &Path) -> anyhow::Result<()> {
    for path in files(dir)?.iter().filter(|path| path.extension() == Some(OsStr::new(ending))) {
        std::fs::rename(path, to.join(path.file_name().context("no name")?))?;
    }
    Ok(())
}

/// Replaces what an earlier build left in `out`, and nothing else.
fn replace(packages: &Path, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let copy = |path: PathBuf| {
        let to = out.join(path.file_name().context("no name")?);
        std::fs::copy(&path, &to).with_context(|| to.display().to_string())?;
        Ok(to)
    };
    files(packages)?.into_iter().map(copy).collect()
}

/// The files in a directory, in order.
fn files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = dir.read_dir().with_context(|| dir.display().to_string())?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}
