//! A case and its variants, as read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::case::evaluation::Evaluation;
use crate::case::expect::Expect;
use crate::case::machine::GuestMachine;
use crate::case::watch::WatchSpec;

/// Version of control groups that a guest mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuestCgroup {
    V1,
    #[default]
    V2,
}

impl GuestCgroup {
    /// As in case files and `init`.
    pub fn name(self) -> &'static str {
        match self {
            GuestCgroup::V1 => "v1",
            GuestCgroup::V2 => "v2",
        }
    }
}

/// The purpose of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseKind {
    /// It re-enacts a field report.
    FieldReport,
    /// It proves that a rule reports its hazard.
    #[default]
    Rule,
    /// Something is wrong, and memory is not the cause.
    Decoy,
    /// Its variants are options that are compared.
    Evaluation,
}

/// One memory condition, in variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub name: String,
    pub description: String,
    /// Of the variants without a kind of their own.
    pub kind: CaseKind,
    pub evaluation: Option<Evaluation>,
    pub variants: Vec<Variant>,
}

/// One variant of a case, with everything needed to run it.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    pub case: String,
    /// The variant's name, which `make.sh` gets.
    pub name: String,
    pub kind: CaseKind,
    pub dir: PathBuf,
    /// Description of the condition, for people.
    pub how: String,
    pub kernel: String,
    pub machine: GuestMachine,
    pub cgroup: GuestCgroup,
    /// Programs of the host, copied to the guest.
    pub programs: Vec<String>,
    /// Kernel modules to load before the case begins.
    pub modules: Vec<String>,
    /// The preload library is in the guest, and the case's programs are linked dynamically.
    pub preload: bool,
    pub expect: Expect,
    /// Options of the recorder that watches it, and the cause that it must name.
    pub watched: Option<WatchSpec>,
}

impl Variant {
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.case, self.name)
    }
}
