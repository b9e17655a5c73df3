//! Profiles: settings that prevent stalls on a kind of machine, each with what it rests on, beside the remedies of some
//! rules for what is found on this one.

use crate::RULES;
use mw_model::{Area, Finding, Remedy, Severity, Step};

/// Settings for a kind of machine.
#[derive(Debug, Clone, Copy)]
pub struct TuningProfile {
    pub name: &'static str,
    /// For which machines it is.
    pub summary: &'static str,
    pub settings: &'static [ProfileSetting],
    /// A recommendation that is no setting of the kernel.
    pub manual: &'static [&'static str],
}

/// A setting of a profile.
#[derive(Debug, Clone, Copy)]
pub struct ProfileSetting {
    pub path: &'static str,
    pub wanted: WantedValue,
    /// The reason, in a sentence.
    pub why: &'static str,
    /// Its evidence: a page below docs, or its documentation.
    pub evidence: &'static str,
}

/// The values of a setting that a profile leaves as they are, and the one that it sets otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedValue {
    /// Only the last.
    OneOf(&'static [&'static str]),
    AtLeast(u64),
    /// A number without these bits; the others stay.
    WithoutBits(u64),
}

impl WantedValue {
    /// The value to set, where the present one is not wanted.
    pub fn instead_of(self, present: &str) -> Option<String> {
        match self {
            Self::OneOf(values) => {
                let wanted = values.last()?;
                (!values.contains(&present)).then(|| (*wanted).to_owned())
            }
            Self::AtLeast(least) => {
                let is_enough = present.parse::<u64>().is_ok_and(|present| present >= least);
                (!is_enough).then(|| least.to_string())
            }
            Self::WithoutBits(bits) => {
                let number = present.parse::<u64>().unwrap_or(bits);
                (number & bits != 0).then(|| (number & !bits).to_string())
            }
        }
    }
}

const ZONE_RECLAIM: ProfileSetting = ProfileSetting {
    path: "/proc/sys/vm/zone_reclaim_mode",
    wanted: WantedValue::OneOf(&["0"]),
    why: "With any other value an allocation scans its own node before it uses another one that has free memory.",
    evidence: "evaluations/evaluate-zone-reclaim-mode.md",
};

const THP_DEFRAG: ProfileSetting = ProfileSetting {
    path: "/sys/kernel/mm/transparent_hugepage/defrag",
    wanted: WantedValue::OneOf(&["defer", "never", "madvise", "defer+madvise"]),
    why: "Page faults of programs that request no huge pages do not compact; kcompactd does.",
    evidence: "evaluations/evaluate-thp-defrag.md",
};

const NUMA_BALANCING: ProfileSetting = ProfileSetting {
    path: "/proc/sys/kernel/numa_balancing",
    // 1 is balancing, 2 the promotion of hot pages from slower memory (CXL, HBM), which stays.
    wanted: WantedValue::WithoutBits(1),
    why: "Programs that are bound to nodes pay for page faults and migrations that gain them nothing.",
    evidence: "Linux, Documentation/admin-guide/sysctl/kernel.rst, numa_balancing",
};

const MAP_COUNT: ProfileSetting = ProfileSetting {
    path: "/proc/sys/vm/max_map_count",
    wanted: WantedValue::AtLeast(1_048_576),
    why: "Search engines and databases map each segment of their files, and JVMs each region of the heap.",
    evidence: "Elasticsearch's manual, Increase virtual memory",
};

/// Lets memory that is advised to have huge pages consist of folios of these sizes, in KiB.
macro_rules! folios {
    ($($kib:literal)*) => {
        &[$(
            ProfileSetting {
                path: concat!("/sys/kernel/mm/transparent_hugepage/hugepages-", $kib, "kB/enabled"),
                wanted: WantedValue::OneOf(&["always", "madvise"]),
                why: "Private memory that requests them gets folios of this size.",
                evidence: "benchmarks.md",
            },
            ProfileSetting {
                path: concat!("/sys/kernel/mm/transparent_hugepage/hugepages-", $kib, "kB/shmem_enabled"),
                wanted: WantedValue::OneOf(&["always", "within_size", "advise"]),
                why: "Memfds that request them get folios of this size.",
                evidence: "benchmarks.md",
            },
        )*]
    };
}

const FOLIOS: &[ProfileSetting] = folios!(16 32 64 128 256 512 1024);

pub const PROFILES: &[TuningProfile] = &[
    TuningProfile {
        name: "hpc-node",
        summary: "a compute node whose jobs want most of its memory, one after another",
        settings: &[ZONE_RECLAIM, THP_DEFRAG, NUMA_BALANCING],
        manual: &[
            "limit jobs so that they cannot thrash (Slurm: ConstrainRAMSpace=yes and ConstrainSwapSpace=yes with \
             AllowedSwapSpace=0 in cgroup.conf): see docs/evaluations/evaluate-fragmentation-prevention.md",
        ],
    },
    TuningProfile {
        name: "database",
        summary: "a server with one large database, or a JVM",
        settings: &[ZONE_RECLAIM, THP_DEFRAG, MAP_COUNT],
        manual: &[
            "write backups with O_DIRECT (memwright run --direct-io 64k): see docs/evaluations/evaluate-write-size.md",
        ],
    },
    TuningProfile {
        name: "virtualisation",
        summary: "a host of virtual machines",
        settings: &[ZONE_RECLAIM, THP_DEFRAG],
        manual: &[
            "copy images with O_DIRECT, or with a memory limit: see docs/evaluations/evaluate-write-size.md",
        ],
    },
    TuningProfile {
        name: "gpu-host",
        summary: "a host that trains or serves models with GPUs, with pinned host memory",
        settings: &[ZONE_RECLAIM, THP_DEFRAG, NUMA_BALANCING],
        manual: &[
            "allow pinned memory (LimitMEMLOCK=infinity in the unit, or memlock in limits.conf)",
        ],
    },
    TuningProfile {
        name: "large-folios",
        summary: "a machine without enough free huge pages, whose programs request folios (--page best)",
        settings: FOLIOS,
        manual: &[],
    },
];

/// The rules whose remedies every profile applies where they find something.
pub fn rules() -> impl Iterator<Item = &'static str> {
    RULES.iter().filter(|rule| rule.is_of_profiles).map(|rule| rule.id)
}

impl TuningProfile {
    pub fn find(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// The name that the journal has for its changes.
    pub fn rule(&self) -> String {
        format!("profile-{}", self.name)
    }

    /// Its settings as a finding, whose remedy sets those that are not as wanted, and names the others with their value;
    /// `present` reads a setting, `None` where this kernel does not have it.
    pub fn finding(&self, present: &dyn Fn(&str) -> Option<String>) -> Finding {
        let set = |setting: &ProfileSetting| {
            let present = present(setting.path).unwrap_or_default();
            let value = setting.wanted.instead_of(&present).unwrap_or(present);
            Step::write(setting.path, value)
        };
        let manual = self.manual.iter().map(|what| Step::manual(*what));
        let steps = self.settings.iter().map(set).chain(manual).collect();
        let remedy = Remedy::named(format!("set what suits {}", self.summary), steps);
        let finding = Finding::new(Severity::Note, Area::Reclaim, self.summary.to_owned());
        Finding { rule: self.rule(), ..finding.with_remedy(remedy) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_wanted_or_safer_stays() {
        let defrag = THP_DEFRAG.wanted;
        for kept in ["defer", "never", "madvise", "defer+madvise"] {
            assert_eq!(defrag.instead_of(kept), None);
        }
        assert_eq!(defrag.instead_of("always").as_deref(), Some("defer+madvise"));
        assert_eq!(MAP_COUNT.wanted.instead_of("2147483642"), None);
        assert_eq!(MAP_COUNT.wanted.instead_of("65530").as_deref(), Some("1048576"));
        assert_eq!(ZONE_RECLAIM.wanted.instead_of("1").as_deref(), Some("0"));
        for (present, wanted) in [("0", None), ("1", Some("0")), ("2", None), ("3", Some("2"))] {
            let value = NUMA_BALANCING.wanted.instead_of(present);
            assert_eq!(value.as_deref(), wanted, "memory tiering stays as it is");
        }
    }

    #[test]
    fn the_evidence_of_settings_exists() {
        assert_eq!(rules().count(), 3);
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for profile in PROFILES {
            for setting in profile.settings {
                let page = setting.evidence.strip_suffix(".md");
                assert!(page.is_none() || docs.join(setting.evidence).exists(), "{setting:?}");
                assert!(setting.why.ends_with('.'), "{setting:?}");
            }
        }
    }

    #[test]
    fn the_finding_sets_what_is_missing() {
        let present = |path: &str| match path {
            "/proc/sys/vm/zone_reclaim_mode" => Some("0".to_owned()),
            "/sys/kernel/mm/transparent_hugepage/defrag" => Some("always".to_owned()),
            _ => None,
        };
        let finding = TuningProfile::find("hpc-node").unwrap().finding(&present);
        assert_eq!(finding.rule, "profile-hpc-node");
        let steps = finding.remedy.unwrap().steps;
        assert_eq!(steps[0], Step::write(ZONE_RECLAIM.path, "0"), "said to be so already");
        assert_eq!(steps[1], Step::write(THP_DEFRAG.path, "defer+madvise"));
        assert_eq!(steps[2], Step::write(NUMA_BALANCING.path, "0"), "said to be absent");
        assert_eq!(steps.len(), 4);
    }
}
