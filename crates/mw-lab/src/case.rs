//! The description of a case, `lab/NAME/case.toml`.
//!
//! ```toml
//! description = "What the case is about"
//! kind = "decoy"           # or "tale", or "evaluation" (see evaluation.rs); default "rule"
//!
//! [machine]                # what every variant runs on
//! kernel = "6.1"           # or "6.12"
//! memory = "1G"
//! cpus = 2                 # default 2
//! nodes = 2                # default 1; with fewer cpus than that the last have none
//! cgroup = "v1"            # default "v2"
//! append = "psi=1"         # further kernel parameters
//! timeout_s = 120
//! programs = ["numactl"]   # of the host, put into the guest's /bin
//! modules = ["virtio_blk"]
//! preload = true           # `memwright run` works: its library is there, and programs in C load it
//! [[machine.disks]]        # the guest's /dev/disk0
//! size = "1G"
//! format = "ext4"          # or "swap", "raw"
//! write_bytes_per_s = 2000000
//!
//! [variant.firing]
//! how = "How the condition was made"
//! [variant.quiet]
//! how = "What is different"
//! kind = "tale"                    # instead of the case's
//! machine = { kernel = "6.12" }    # instead of what [machine] says
//! expect = { absent = ["swap-thrash"] }    # instead of all of [expect]
//!
//! [expect]                 # what every variant promises that has no `expect` of its own
//! found = ["swap-thrash"]  # rules that find something while the condition is in force
//! absent = ["oom-kill"]    # rules that do not
//! says = { swap-thrash = "swap" }    # a part of the headline of what a rule finds
//! no_finding = true        # no rule that is not in `found` finds anything from a warning on
//! fix = ["swap-thrash"]    # rules that `memwright fix` mends
//! stays = true             # undoing the fix does not bring the condition back
//! looks = 5                # look so often, a second apart, for what comes in bursts; default 1
//! log = ["Out of memory"]  # parts of lines of the kernel's log that are no surprise
//! [expect.effect.create]   # a measurement that measure.sh prints as `create 2.31 s`
//! during = { times_at_least = 3.0 }    # of what it was before
//! fixed = { of_during_at_most = 0.5 }  # of what it was while the condition was in force
//! undone = { at_least = 5.0 }          # in its unit; also at_most, times_at_most
//!
//! [watch]                  # how the recorder watches, with `memwright lab --watch`
//! probes = ["redis://localhost"]    # as `memwright watch --probe` takes them
//! limit = "1s"             # default 500ms
//! cause = ["thp-compaction"]    # rules of which one must be the first cause of the longest stall
//! functions = ["migrate_pages"] # kernel functions of which one must be among the first three that grew
//! ```
//!
//! A variant may have a `watch` of its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::evaluation::{self, Evaluation};
use crate::expect::Expect;
use crate::machine::{Disk, DiskFormat, Machine};
use crate::watched::Watched;

/// Which version of control groups a guest mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cgroup {
    /// One hierarchy a controller.
    V1,
    /// One hierarchy for all.
    #[default]
    V2,
}

impl Cgroup {
    /// As case files and `init` call it.
    pub fn name(self) -> &'static str {
        match self {
            Cgroup::V1 => "v1",
            Cgroup::V2 => "v2",
        }
    }
}

/// What a case is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It re-enacts a field report.
    Tale,
    /// It shows that a rule of the catalogue finds what it says.
    #[default]
    Rule,
    /// Something is wrong, and it is not memory.
    Decoy,
    /// Its variants are options that are measured against each other.
    Evaluation,
}

/// A case: one memory condition, in variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The folder's name.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// What its variants are there for that do not say otherwise.
    pub kind: Kind,
    /// What is measured against what, in an evaluation.
    pub evaluation: Option<Evaluation>,
    /// The variants, by name.
    pub variants: Vec<Variant>,
}

/// One variant of a case, with everything that is needed to run it.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The case's name.
    pub case: String,
    /// The variant's name, which `make.sh` gets.
    pub name: String,
    /// What the case is there for.
    pub kind: Kind,
    /// The case's folder.
    pub dir: PathBuf,
    /// How the condition is made, for people.
    pub how: String,
    /// The kernel's series.
    pub kernel: String,
    /// The machine.
    pub machine: Machine,
    /// The version of control groups.
    pub cgroup: Cgroup,
    /// Programs of the host that the case needs.
    pub programs: Vec<String>,
    /// Kernel modules to load before the case begins.
    pub modules: Vec<String>,
    /// Whether the library of `memwright run` is there, and the case's programs are linked dynamically.
    pub preload: bool,
    /// What it promises.
    pub expect: Expect,
    /// What the recorder says of its stall, where it has one.
    pub watched: Option<Watched>,
}

impl Variant {
    /// `CASE/VARIANT`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.case, self.name)
    }
}

impl Case {
    /// Reads the case in `dir`.
    pub fn read(dir: &Path) -> Result<Case, LabError> {
        let path = dir.join("case.toml");
        let text = std::fs::read_to_string(&path).map_err(LabError::io(&path))?;
        Case::parse(dir, &text)
    }

    /// The case whose folder is `dir` and whose description is `text`.
    pub fn parse(dir: &Path, text: &str) -> Result<Case, LabError> {
        let path = dir.join("case.toml");
        let raw: RawCase =
            toml::from_str(text).map_err(|e| LabError::case(&path, e.to_string()))?;
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut variants = Vec::new();
        let measures = dir.join("measure.sh").is_file();
        for word in raw.variant.keys().chain([&name]) {
            if !word.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
                return Err(LabError::case(&path, format!("{word:?}: use letters, digits, -._")));
            }
        }
        for (variant, its) in raw.variant {
            let settings = its.machine.clone().or(&raw.machine);
            let mut expect = its.expect.clone().or_else(|| raw.expect.clone()).unwrap_or_default();
            let kind = its.kind.unwrap_or(raw.kind);
            if (kind == Kind::Evaluation) != (raw.kind == Kind::Evaluation) {
                let detail = format!("[variant.{variant}]: evaluations are cases of their own");
                return Err(LabError::case(&path, detail));
            }
            expect.measured_only = kind == Kind::Evaluation;
            let checked = match kind {
                Kind::Evaluation => evaluation::check_expect(&expect, measures),
                _ => expect.check(measures),
            };
            let checked = checked.map_err(|why| format!("[variant.{variant}]: {why}"));
            let watched = its.watch.or_else(|| raw.watch.clone());
            let watchable = watched.as_ref().map_or(Ok(()), Watched::check);
            let checked = checked
                .and_then(|()| watchable.map_err(|why| format!("[variant.{variant}]: {why}")));
            let of = Whose { case: &name, kind, dir, how: its.how, expect, watched };
            let built = checked.and_then(|()| settings.build(variant, of));
            variants.push(built.map_err(|detail| LabError::case(&path, detail))?);
        }
        if variants.is_empty() {
            return Err(LabError::case(&path, "no [variant.NAME]"));
        }
        check_evaluation(raw.kind, raw.evaluation.as_ref(), &variants)
            .map_err(|detail| LabError::case(&path, detail))?;
        let (description, kind, evaluation) = (raw.description, raw.kind, raw.evaluation);
        Ok(Case { name, description, kind, evaluation, variants })
    }
}

fn check_evaluation(
    kind: Kind,
    evaluation: Option<&Evaluation>,
    variants: &[Variant],
) -> Result<(), String> {
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    match (kind, evaluation) {
        (Kind::Evaluation, Some(evaluation)) => evaluation.check(&names),
        (Kind::Evaluation, None) => Err("an evaluation without [evaluation]".to_owned()),
        (_, Some(_)) => Err("[evaluation] in a case of another kind".to_owned()),
        (_, None) => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    description: String,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    machine: Settings,
    expect: Option<Expect>,
    evaluation: Option<Evaluation>,
    watch: Option<Watched>,
    #[serde(default)]
    variant: BTreeMap<String, RawVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    how: String,
    kind: Option<Kind>,
    #[serde(default)]
    machine: Settings,
    expect: Option<Expect>,
    watch: Option<Watched>,
}

/// What a variant has besides its machine.
struct Whose<'a> {
    case: &'a str,
    kind: Kind,
    dir: &'a Path,
    how: String,
    expect: Expect,
    watched: Option<Watched>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
struct Settings {
    kernel: Option<String>,
    memory: Option<String>,
    cpus: Option<u32>,
    nodes: Option<u32>,
    cgroup: Option<Cgroup>,
    append: Option<String>,
    timeout_s: Option<u64>,
    programs: Option<Vec<String>>,
    modules: Option<Vec<String>>,
    preload: Option<bool>,
    disks: Option<Vec<RawDisk>>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct RawDisk {
    size: String,
    #[serde(default)]
    format: DiskFormat,
    read_bytes_per_s: Option<u64>,
    write_bytes_per_s: Option<u64>,
}

const DEFAULT_TIMEOUT_S: u64 = 120;
const DEFAULT_CPUS: u32 = 2;
const MAX_NODES: u32 = 8;

impl Settings {
    /// What `self` does not say is taken from `common`.
    fn or(self, common: &Settings) -> Settings {
        let common = common.clone();
        Settings {
            kernel: self.kernel.or(common.kernel),
            memory: self.memory.or(common.memory),
            cpus: self.cpus.or(common.cpus),
            nodes: self.nodes.or(common.nodes),
            cgroup: self.cgroup.or(common.cgroup),
            append: self.append.or(common.append),
            timeout_s: self.timeout_s.or(common.timeout_s),
            programs: self.programs.or(common.programs),
            modules: self.modules.or(common.modules),
            preload: self.preload.or(common.preload),
            disks: self.disks.or(common.disks),
        }
    }

    fn build(self, name: String, of: Whose<'_>) -> Result<Variant, String> {
        let missing = |field: &str| format!("[variant.{name}]: no `{field}` here or in [machine]");
        let kernel = self.kernel.ok_or_else(|| missing("kernel"))?;
        let memory = self.memory.ok_or_else(|| missing("memory"))?;
        let (cpus, nodes) = (self.cpus.unwrap_or(DEFAULT_CPUS), self.nodes.unwrap_or(1));
        if nodes == 0 || nodes > MAX_NODES || cpus == 0 {
            return Err(format!("[variant.{name}]: {nodes} nodes with {cpus} cpus"));
        }
        let disks: Result<Vec<Disk>, String> =
            self.disks.unwrap_or_default().into_iter().map(RawDisk::build).collect();
        let machine = Machine {
            memory_bytes: size_bytes(&memory)?,
            cpus,
            nodes,
            disks: disks?,
            append: self.append.unwrap_or_default(),
            time_limit: Duration::from_secs(self.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S)),
        };
        Ok(Variant {
            case: of.case.to_owned(),
            name,
            kind: of.kind,
            dir: of.dir.to_path_buf(),
            how: of.how,
            kernel,
            machine,
            cgroup: self.cgroup.unwrap_or_default(),
            programs: self.programs.unwrap_or_default(),
            modules: self.modules.unwrap_or_default(),
            preload: self.preload.unwrap_or(false),
            expect: of.expect,
            watched: of.watched,
        })
    }
}

impl RawDisk {
    fn build(self) -> Result<Disk, String> {
        Ok(Disk {
            size_bytes: size_bytes(&self.size)?,
            format: self.format,
            read_bytes_per_s: self.read_bytes_per_s,
            write_bytes_per_s: self.write_bytes_per_s,
        })
    }
}

/// `512M`, `2G`, or bytes.
fn size_bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("{text:?} is no size: write 512M or 2G");
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(bad()),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Case, String> {
        Case::parse(Path::new("/lab/some-case"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn a_variant_overrides_the_machine() {
        let case = parse(
            r#"
            description = "d"
            [machine]
            kernel = "6.1"
            memory = "1G"
            nodes = 2
            [[machine.disks]]
            size = "64M"
            format = "swap"
            write_bytes_per_s = 2000000
            [expect]
            found = ["swap-thrash"]
            [variant.firing]
            how = "h"
            machine = { kernel = "6.12", memory = "512M", cgroup = "v1", timeout_s = 5 }
            [variant.quiet]
            how = "q"
            kind = "tale"
            expect = { absent = ["swap-thrash"] }
            "#,
        )
        .unwrap();
        assert_eq!(case.name, "some-case");
        let [firing, quiet] = case.variants.as_slice() else { panic!("two variants") };
        assert_eq!((firing.name.as_str(), firing.kernel.as_str()), ("firing", "6.12"));
        assert_eq!(firing.machine.memory_bytes, 512 << 20);
        assert_eq!(firing.machine.time_limit, Duration::from_secs(5));
        assert_eq!((firing.cgroup, quiet.cgroup), (Cgroup::V1, Cgroup::V2));
        assert_eq!((firing.kind, quiet.kind), (Kind::Rule, Kind::Tale));
        assert_eq!((quiet.kernel.as_str(), quiet.machine.nodes), ("6.1", 2));
        assert_eq!(quiet.machine.time_limit, Duration::from_secs(DEFAULT_TIMEOUT_S));
        assert_eq!(quiet.machine.disks[0].write_bytes_per_s, Some(2_000_000));
        assert_eq!(quiet.machine.disks[0].format, DiskFormat::Swap);
        assert_eq!(firing.expect.found, ["swap-thrash"]);
        assert_eq!((quiet.expect.found.len(), quiet.expect.absent.len()), (0, 1));
    }

    fn check_error(text: &str, want: &str) {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with("/lab/some-case/case.toml: "), "{error}");
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        check_error("description = 'd'", "no [variant.NAME]");
        check_error("description = 'd'\nvariants = 1", "variants");
        let evaluation = "description = 'd'\nkind = 'evaluation'\n[variant.a]\nhow = 'h'";
        check_error(evaluation, "an evaluation without measure.sh");
        check_error(
            "description = 'd'\n[variant.a]\nhow = 'h'\nkind = 'evaluation'",
            "[variant.a]: evaluations are cases of their own",
        );
        check_error(
            "description = 'd'\n[variant.firing]\nhow = 'h'",
            "[variant.firing]: `expect` promises nothing",
        );
        let with = |machine: &str| {
            format!(
                "description = 'd'\n[expect]\nno_finding = true\n[variant.firing]\nhow = 'h'\n\
                 machine = {{ {machine} }}"
            )
        };
        check_error(&with(""), "[variant.firing]: no `kernel` here or in [machine]");
        check_error(&with("kernel = '6.1'"), "no `memory`");
        check_error(&with("kernel = '6.1', memory = '1T'"), "\"1T\" is no size");
        check_error(&with("kernel = '6.1', memory = '1G', nodes = 9"), "9 nodes");
        check_error(&with("kernel = '6.1', memory = '1G', cpus = 0, nodes = 2"), "0 cpus");
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(size_bytes("2G"), Ok(2 << 30));
        assert_eq!(size_bytes("4096"), Ok(4096));
        for bad in ["", "G", "1GG", "-1M", "1.5G", "99999999999G"] {
            assert!(size_bytes(bad).is_err(), "{bad}");
        }
    }
}
