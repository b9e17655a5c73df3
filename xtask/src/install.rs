//! `make install`: every file is where the program, the linker, the shell, man(1) and systemd look for it.

use crate::workspace::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installed files besides the man pages of commands, below the prefix. {version} is that of memwright.
const FILES: &[&str] = &[
    "bin/memwright",
    "include/memwright.h",
    "lib/libmemwright.a",
    "lib/libmemwright.so",
    "lib/libmemwright.so.0",
    "lib/libmemwright.so.{version}",
    "lib/memwright/libmemwright_preload.so",
    "lib/pkgconfig/memwright.pc",
    "lib/systemd/system/memwright-pool.service",
    "lib/systemd/system/memwright-ship.service",
    "lib/systemd/system/memwright-ship.timer",
    "lib/systemd/system/memwright.service",
    "lib/systemd/system/memwright.socket",
    "lib/sysusers.d/memwright-pool.conf",
    "lib/tmpfiles.d/memwright-pool.conf",
    "share/bash-completion/completions/memwright",
    "share/doc/memwright/CHANGELOG.md",
    "share/doc/memwright/LICENSE-APACHE",
    "share/doc/memwright/LICENSE-MIT",
    "share/doc/memwright/examples/memwright.toml",
    "share/doc/memwright/metrics.md",
    "share/doc/memwright/notify.md",
    "share/doc/memwright/profiles.md",
    "share/fish/vendor_completions.d/memwright.fish",
    "share/man/man5/memwright.toml.5",
    "share/memwright/fleet/clickhouse.sql",
    "share/memwright/fleet/compact.sql",
    "share/memwright/fleet/duckdb.sql",
    "share/memwright/fleet/queries/changes.sql",
    "share/memwright/fleet/queries/compaction.sql",
    "share/memwright/fleet/queries/cost.sql",
    "share/memwright/fleet/queries/floods.sql",
    "share/memwright/fleet/queries/fragmentation.sql",
    "share/memwright/fleet/queries/headroom.sql",
    "share/memwright/fleet/queries/hours.sql",
    "share/memwright/fleet/queries/kernels.sql",
    "share/memwright/fleet/queries/leaks.sql",
    "share/memwright/fleet/queries/pressure.sql",
    "share/memwright/fleet/queries/silent.sql",
    "share/memwright/memwright-fleet.json",
    "share/memwright/memwright-host.json",
    "share/memwright/memwright-kernel-log.json",
    "share/memwright/memwright-monitor.json",
    "share/memwright/memwright.rules.yml",
    "share/zsh/site-functions/_memwright",
];

fn expected() -> BTreeSet<String> {
    let pages = root().join("docs/man").read_dir().unwrap();
    let pages = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let pages = pages.filter(|page| page.ends_with(".1"));
    let pages = pages.map(|page| format!("share/man/man1/{page}"));
    let files = FILES.iter().map(|file| file.replace("{version}", env!("CARGO_PKG_VERSION")));
    let schemas = root().join("docs/schema").read_dir().unwrap().map(Result::unwrap);
    let schemas = schemas.map(|schema| schema.file_name().into_string().unwrap());
    let schemas = schemas.filter(|schema| schema.ends_with(".json"));
    let schemas = schemas.map(|schema| format!("share/doc/memwright/schema/{schema}"));
    pages.chain(files).chain(schemas).collect()
}

/// The directory with the program and both libraries of this build.
fn built() -> PathBuf {
    let _ = mw_test::built("mw-preload", "memwright_preload", "libmemwright_preload.so");
    let _ = mw_test::built("mw-capi", "memwright", "libmemwright.a");
    let program = mw_test::built("mw-cli", "memwright", "memwright");
    program.parent().unwrap().to_owned()
}

fn make(target: &str, variables: &[(&str, &Path)]) {
    let mut make = Command::new("make");
    make.args(["--silent", target]).current_dir(root());
    for (name, value) in variables {
        make.arg(format!("{name}={}", value.display()));
    }
    let output = make.arg(format!("BUILT={}", built().display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The files below a directory, relative to it.
fn files(dir: &Path) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in next.read_dir().unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                dirs.push(entry.path());
            } else {
                let path = entry.path();
                files.insert(path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files
}

/// Standard output of a program that succeeds.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Promise (Installation): `make install` puts every file where it is looked for, and `make uninstall` removes all of
/// them.
///
/// Promise (Installation): Completions and memwright(1) offer every command.
#[test]
fn an_installation_works_where_it_is_and_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path();
    make("install", &[("PREFIX", prefix)]);
    assert_eq!(files(prefix), expected());

    let program = prefix.join("bin/memwright");
    let version = said(Command::new(&program).arg("--version"));
    let first = concat!("memwright ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(version.starts_with(first), "{version}");
    // It finds the library that was installed with it.
    let explained = said(Command::new(&program).args(["run", "--explain", "--", "/bin/true"]));
    let library = prefix.join("lib/memwright/libmemwright_preload.so").canonicalize().unwrap();
    assert!(explained.contains(library.to_str().unwrap()), "{explained}");
    let pages = [("man1", "memwright-check.1"), ("man5", "memwright.toml.5")];
    for (section, page) in pages {
        let mut man = Command::new("man");
        man.arg("-M").arg(prefix.join("share/man")).arg("-w").arg(page.rsplit_once('.').unwrap().0);
        assert!(said(&mut man).trim_end().ends_with(&format!("{section}/{page}")));
    }
    let read = |path: &str| std::fs::read_to_string(prefix.join(path)).unwrap();
    // Pages and completions offer what is installed.
    let index = read("share/man/man1/memwright.1").replace("\\-", "-");
    let listed: BTreeSet<&str> =
        index.lines().filter(|line| line.starts_with("memwright-")).collect();
    let completions = read("share/bash-completion/completions/memwright");
    for command in mw_cli::args::command().get_subcommands() {
        let name = command.get_name();
        let page = format!("memwright-{name}(1)");
        assert!(listed.contains(&*page), "{page}");
        assert!(completions.contains(&format!("memwright,{name})")), "{name}");
    }
    assert!(listed.len() > 10, "{listed:?}");
    for unit in ["memwright.service", "memwright-pool.service"] {
        let unit = prefix.join("lib/systemd/system").join(unit);
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(&unit);
        let output = verify.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let text = std::fs::read_to_string(&unit).unwrap();
        assert!(text.contains(&format!("\nExecStart={} ", program.display())), "{text}");
    }

    make("uninstall", &[("PREFIX", prefix)]);
    assert_eq!(files(prefix), BTreeSet::new());
}

#[test]
fn a_staged_installation_names_no_path_of_the_stage() {
    let dir = tempfile::tempdir().unwrap();
    let lib = Path::new("/usr/lib64");
    make("install", &[("DESTDIR", dir.path()), ("PREFIX", Path::new("/usr")), ("LIBDIR", lib)]);
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).unwrap();
    let unit = read("usr/lib/systemd/system/memwright.service");
    assert!(unit.contains("\nExecStart=/usr/bin/memwright watch\n"), "{unit}");
    let config = read("usr/lib64/pkgconfig/memwright.pc");
    assert!(config.contains("\nlibdir=/usr/lib64\n"), "{config}");
    let outside = files(dir.path()).into_iter().find(|file| !file.starts_with("usr/"));
    assert_eq!(outside, None);
}
