//! Reads `case.toml`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::case::evaluation::{self, Evaluation};
use crate::case::expect::Expect;
use crate::case::machine::{DiskFormat, GuestDisk, GuestMachine};
use crate::case::variant::{Case, CaseKind, GuestCgroup, Variant};
use crate::case::watch::WatchSpec;
use crate::error::LabError;

impl Case {
    pub fn read(dir: &Path) -> Result<Case, LabError> {
        let path = dir.join("case.toml");
        let text = std::fs::read_to_string(&path).map_err(LabError::io(&path))?;
        Case::parse(dir, &text)
    }

    /// `text` is the contents of `case.toml` in the directory `dir`.
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
            if (kind == CaseKind::Evaluation) != (raw.kind == CaseKind::Evaluation) {
                let detail = format!("[variant.{variant}]: evaluations are cases of their own");
                return Err(LabError::case(&path, detail));
            }
            expect.measured_only = kind == CaseKind::Evaluation;
            let checked = match kind {
                CaseKind::Evaluation => evaluation::check_expect(&expect, measures),
                _ => expect.check(measures),
            };
            let checked = checked.map_err(|why| format!("[variant.{variant}]: {why}"));
            let watched = its.watch.or_else(|| raw.watch.clone());
            let watchable = watched.as_ref().map_or(Ok(()), WatchSpec::check);
            let checked = checked
                .and_then(|()| watchable.map_err(|why| format!("[variant.{variant}]: {why}")));
            let of = VariantParts { case: &name, kind, dir, how: its.how, expect, watched };
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
    kind: CaseKind,
    evaluation: Option<&Evaluation>,
    variants: &[Variant],
) -> Result<(), String> {
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    match (kind, evaluation) {
        (CaseKind::Evaluation, Some(evaluation)) => evaluation.check(&names),
        (CaseKind::Evaluation, None) => Err("an evaluation needs [evaluation]".to_owned()),
        (_, Some(_)) => Err("[evaluation] in a case of another kind".to_owned()),
        (_, None) => Ok(()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCase {
    description: String,
    #[serde(default)]
    kind: CaseKind,
    #[serde(default)]
    machine: MachineSettings,
    expect: Option<Expect>,
    evaluation: Option<Evaluation>,
    watch: Option<WatchSpec>,
    #[serde(default)]
    variant: BTreeMap<String, RawVariant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawVariant {
    how: String,
    kind: Option<CaseKind>,
    #[serde(default)]
    machine: MachineSettings,
    expect: Option<Expect>,
    watch: Option<WatchSpec>,
}

/// The parts of a variant that are not its machine.
struct VariantParts<'a> {
    case: &'a str,
    kind: CaseKind,
    dir: &'a Path,
    how: String,
    expect: Expect,
    watched: Option<WatchSpec>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(deny_unknown_fields)]
struct MachineSettings {
    kernel: Option<String>,
    memory: Option<String>,
    cpus: Option<u32>,
    nodes: Option<u32>,
    cgroup: Option<GuestCgroup>,
    append: Option<String>,
    timeout_s: Option<u64>,
    programs: Option<Vec<String>>,
    modules: Option<Vec<String>>,
    preload: Option<bool>,
    disks: Option<Vec<RawDisk>>,
    balloon: Option<String>,
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

const DEFAULT_TIMEOUT_S: u64 = 300;
const DEFAULT_CPUS: u32 = 2;
const MAX_NODES: u32 = 8;

impl MachineSettings {
    /// Fields that are not set are taken from `common`.
    fn or(self, common: &MachineSettings) -> MachineSettings {
        let common = common.clone();
        MachineSettings {
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
            balloon: self.balloon.or(common.balloon),
        }
    }

    fn build(self, name: String, of: VariantParts<'_>) -> Result<Variant, String> {
        let missing = |field: &str| format!("[variant.{name}]: no `{field}` here or in [machine]");
        let kernel = self.kernel.ok_or_else(|| missing("kernel"))?;
        let memory = self.memory.ok_or_else(|| missing("memory"))?;
        let (cpus, nodes) = (self.cpus.unwrap_or(DEFAULT_CPUS), self.nodes.unwrap_or(1));
        if nodes == 0 || nodes > MAX_NODES || cpus == 0 {
            return Err(format!("[variant.{name}]: {nodes} nodes with {cpus} cpus"));
        }
        let disks: Result<Vec<GuestDisk>, String> =
            self.disks.unwrap_or_default().into_iter().map(RawDisk::build).collect();
        let machine = GuestMachine {
            memory_bytes: size_bytes(&memory)?,
            cpus,
            nodes,
            disks: disks?,
            balloon_bytes: self.balloon.map(|balloon| size_bytes(&balloon)).transpose()?,
            reboots: false,
            has_watchdog: false,
            link: None,
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
    fn build(self) -> Result<GuestDisk, String> {
        Ok(GuestDisk {
            size_bytes: size_bytes(&self.size)?,
            format: self.format,
            read_bytes_per_s: self.read_bytes_per_s,
            write_bytes_per_s: self.write_bytes_per_s,
            image: None,
            is_shared: false,
        })
    }
}

fn size_bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("invalid size {text:?} (use for example 512M or 2G)");
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
            kind = "field-report"
            expect = { absent = ["swap-thrash"] }
            "#,
        )
        .unwrap();
        assert_eq!(case.name, "some-case");
        let [firing, quiet] = case.variants.as_slice() else { panic!("two variants") };
        assert_eq!((firing.name.as_str(), firing.kernel.as_str()), ("firing", "6.12"));
        assert_eq!(firing.machine.memory_bytes, 512 << 20);
        assert_eq!(firing.machine.time_limit, Duration::from_secs(5));
        assert_eq!((firing.cgroup, quiet.cgroup), (GuestCgroup::V1, GuestCgroup::V2));
        assert_eq!((firing.kind, quiet.kind), (CaseKind::Rule, CaseKind::FieldReport));
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
        check_error(evaluation, "an evaluation needs measure.sh");
        check_error(
            "description = 'd'\n[variant.a]\nhow = 'h'\nkind = 'evaluation'",
            "[variant.a]: evaluations are cases of their own",
        );
        check_error(
            "description = 'd'\n[variant.firing]\nhow = 'h'",
            "[variant.firing]: `expect` is empty",
        );
        let with = |machine: &str| {
            format!(
                "description = 'd'\n[expect]\nno_finding = true\n[variant.firing]\nhow = 'h'\n\
                 machine = {{ {machine} }}"
            )
        };
        check_error(&with(""), "[variant.firing]: no `kernel` here or in [machine]");
        check_error(&with("kernel = '6.1'"), "no `memory`");
        check_error(&with("kernel = '6.1', memory = '1T'"), "invalid size \"1T\"");
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
