//! Environments of other kernels: guests with those of Debian releases, and control groups of every
//! version in them.

use super::answer::{Answer, Expected, Printed, Row};
use crate::packages;
use anyhow::Context;
use mw_lab::vm::guest::GuestRole;
use mw_lab::{Case, GuestKernel, GuestRun, Lab, Variant};
use std::fs;
use std::path::Path;

/// Kernels: what they are called, and where they are from.
const KERNELS: &[(&str, Origin)] = &[
    ("Debian 11", Origin::Release { folder: "debian-11", codename: "bullseye" }),
    ("Debian 12", Origin::Series("6.1")),
    ("Debian 12, kernel 6.12", Origin::Series("6.12")),
    ("Debian 13", Origin::Release { folder: "debian-13", codename: "trixie" }),
];

#[derive(Clone, Copy)]
enum Origin {
    /// A series that the lab has.
    Series(&'static str),
    Release {
        folder: &'static str,
        codename: &'static str,
    },
}

/// The environments of a guest, in the order of guest.sh: the version of cgroups, the name, how it is
/// created, what is expected.
const ENVIRONMENTS: &[(&str, &str, &str, Visible)] = &[
    ("v2", "v2", "cgroup2 at /sys/fs/cgroup", Visible::Machine),
    ("v2", "v2-small", "in a cgroup2 group of 128 MiB", Visible::Group),
    ("v2", "none", "no control groups", Visible::Nothing),
    (
        "v2",
        "masked-proc",
        "a tmpfs over /proc/sys/vm",
        Visible::Hidden("a tmpfs is mounted over /proc/sys/vm"),
    ),
    ("v2", "masked-sys", "a tmpfs over /sys", Visible::Hidden("a tmpfs is mounted over /sys")),
    ("v1", "v1", "memory controller of version 1", Visible::Machine),
    ("v1", "v1-small", "in a group of version 1 of 128 MiB", Visible::Group),
    ("v1", "hybrid", "memory in version 1, and a cgroup2 beside it", Visible::Machine),
];

/// Files that `check` can see in an environment.
#[derive(Clone, Copy)]
enum Visible {
    Machine,
    Group,
    /// No control groups are mounted.
    Nothing,
    Hidden(&'static str),
}

const CASE: &str = "description = 'environments'
[machine]
kernel = '6.1'
memory = '1G'
[expect]
no_finding = true
[variant.v1]
how = 'control groups of version 1'
machine = { cgroup = 'v1' }
[variant.v2]
how = 'control groups of version 2'
";

/// The rows, and what these kernels do not have.
pub(super) fn rows(
    binary: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("environments");
    fs::create_dir(&folder)?;
    fs::write(folder.join("case.toml"), CASE)?;
    fs::write(folder.join("make.sh"), include_str!("guest.sh"))?;
    let case = Case::read(&folder)?;
    let mut lab = None;
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    for (name, origin) in KERNELS.iter().filter(|(name, _)| is_wanted(name)) {
        let kernel = kernel(*origin).with_context(|| (*name).to_owned())?;
        let lab = match &lab {
            Some(lab) => lab,
            None => lab.insert(Lab::new(binary)?),
        };
        for variant in &case.variants {
            println!("{name} ({}), {}", kernel.release, variant.how);
            let run = play(lab, variant, &kernel).with_context(|| (*name).to_owned())?;
            if let Some(why) = skipped(&run) {
                absent.push(format!("{name}: {why}"));
                continue;
            }
            let environments = ENVIRONMENTS.iter().filter(|(version, ..)| *version == variant.name);
            for (_, environment, made, expected) in environments {
                let name = format!("{name} ({}), {environment}", kernel.release);
                let answer = answer(&run, environment).with_context(|| name.clone())?;
                let expected = expected_of(*expected, &answer)?;
                rows.push(Row::new(&name, &format!("guest: {made}"), expected, Ok(answer)));
            }
        }
    }
    Ok((rows, absent))
}

/// The reason why the guest was skipped: its kernel lacks what the environments need.
fn skipped(run: &GuestRun) -> Option<String> {
    let outcome = run.frames.text("outcome")?;
    outcome.strip_prefix("skipped: ").map(str::to_owned)
}

fn kernel(origin: Origin) -> anyhow::Result<GuestKernel> {
    match origin {
        Origin::Series(series) => Ok(GuestKernel::get(series)?),
        Origin::Release { folder, codename } => {
            let tree = mw_lab::kernel::cache_dir().join(folder);
            packages::of_release(codename, "linux-image-cloud-amd64", &tree)?;
            Ok(GuestKernel::from_package(&tree)?)
        }
    }
}

fn play(lab: &Lab, variant: &Variant, kernel: &GuestKernel) -> anyhow::Result<GuestRun> {
    let (play, run) = lab.run(variant, kernel, &kernel.release, GuestRole::Check, &mut |_| true);
    run.with_context(|| play.outcome.to_string())
}

/// The answer of `check` in one environment.
fn answer(run: &GuestRun, environment: &str) -> anyhow::Result<Answer> {
    Answer::ask(|format| {
        let frame = format!("keep/{environment}.{format}");
        let lost = || format!("the guest has not sent {frame}; it ended: {:?}", run.ended);
        let text = run.frames.text(&frame).with_context(lost)?;
        let code = run.frames.text(&format!("{frame}.exit")).with_context(lost)?;
        Ok(Printed { text, code: code.parse()? })
    })
}

/// Expectation, with the guest's own memory in it, as it was sent beside the verdict.
fn expected_of(visible: Visible, answer: &Answer) -> anyhow::Result<Expected> {
    if let Visible::Hidden(why) = visible {
        return Ok(Expected::NotChecked(why));
    }
    let report: serde_json::Value = serde_json::from_str(&answer.json.text)?;
    let memory = report["memory_bytes"].as_u64().context("no memory_bytes in the report")?;
    let machine = || Expected::checked(mw_model::format_bytes(memory));
    Ok(match visible {
        Visible::Group => Expected::checked("this cgroup's 128 MiB"),
        Visible::Nothing => machine().without("/sys/fs/cgroup"),
        Visible::Machine | Visible::Hidden(_) => machine(),
    })
}
