//! What a finding is about.

use crate::{cgroup_name, format_bytes, parse_size};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The subject of a finding. Reports, incidents and the command line have it as text, which is parsed
/// only where a recording is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A part of the machine or of its kernel.
    Area(Area),
    /// A NUMA node, by its number.
    Node(u32),
    /// A zone of a node.
    Zone {
        node: u32,
        /// Its name, such as `Normal`.
        zone: String,
    },
    /// A memory cgroup, by its path below the hierarchy's root; `None` if the kernel does not say
    /// which.
    Cgroup(Option<String>),
    /// A mounted file system, by its mount point.
    Mount(String),
    /// A setting, by its dotted name.
    Sysctl(String),
    /// A process, by its name.
    Process(String),
    /// A pool of huge pages, by the size of its pages in bytes.
    HugePool(u64),
    /// The subject of a recording that another version wrote.
    Other(String),
}

macro_rules! areas {
    ($($area:ident $text:literal $(or $old:literal)?;)+) => {
        /// A part of the machine or of its kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Area {
            $($area,)+
        }

        impl Area {
            fn text(self) -> &'static str {
                match self {
                    $(Self::$area => $text,)+
                }
            }

            fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($text $(| $old)? => Some(Self::$area),)+
                    _ => None,
                }
            }
        }
    };
}

areas! {
    Arc "ZFS ARC";
    Balloon "balloon";
    Compaction "compaction";
    Cpus "CPUs" or "processors";
    Counters "counters";
    DirtyPages "dirty pages";
    Dependency "dependency";
    Disk "disk";
    FileServer "file server";
    FrozenCgroup "frozen cgroup";
    FrozenFilesystem "frozen file system";
    FuseServer "FUSE server";
    Hypervisor "hypervisor";
    HugePools "pools of huge pages";
    IoLimit "I/O limit";
    KernelMemory "kernel memory";
    Khugepaged "khugepaged";
    Memory "memory";
    MemoryErrors "memory errors";
    PercpuMemory "per-CPU memory";
    Network "network";
    NetworkOrService "network or service";
    OomKiller "OOM killer";
    OpenFiles "open files";
    PageCache "page cache";
    PageTables "page tables";
    PinnedPages "pinned pages";
    NfsServer "NFS server";
    Reclaim "reclaim";
    Service "service";
    SharedMemory "shared memory";
    Slab "slab";
    StoppedProcess "stopped process";
    Swap "swap";
    Tasks "tasks";
    TransparentHugePages "transparent huge pages";
}

impl Subject {
    /// True if it is the machine, and not a process, a cgroup or a mount, whose state any user may bring about.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        !matches!(self, Self::Cgroup(_) | Self::Mount(_) | Self::Process(_))
    }

    /// The name for a headline: of a cgroup its unit, where it has one.
    #[must_use]
    pub fn actor(&self) -> String {
        match self {
            Self::Cgroup(Some(path)) => cgroup_name(path),
            Self::Process(name) => name.clone(),
            other => other.to_string(),
        }
    }

    /// The subject with this text.
    fn from_text(text: &str) -> Self {
        Area::from_text(text)
            .map(Self::Area)
            .or_else(|| Self::from_words(text))
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    fn from_words(text: &str) -> Option<Self> {
        if text == "a cgroup" {
            return Some(Self::Cgroup(None));
        }
        if text.starts_with('/') {
            return Some(Self::Mount(text.to_owned()));
        }
        let Some((word, rest)) = text.split_once(' ') else {
            return text.contains('.').then(|| Self::Sysctl(text.to_owned()));
        };
        match word {
            "node" => match rest.split_once(" zone ") {
                Some((node, zone)) => {
                    Some(Self::Zone { node: node.parse().ok()?, zone: zone.to_owned() })
                }
                None => Some(Self::Node(rest.parse().ok()?)),
            },
            "cgroup" => Some(Self::Cgroup(Some(rest.to_owned()))),
            "process" => Some(Self::Process(rest.to_owned())),
            "pool" => {
                let size = rest.strip_prefix("of ")?.strip_suffix(" pages")?;
                Some(Self::HugePool(parse_size(size).ok()?))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Area(area) => write!(f, "{area}"),
            Self::Node(node) => write!(f, "node {node}"),
            Self::Zone { node, zone } => write!(f, "node {node} zone {zone}"),
            Self::Cgroup(Some(path)) => write!(f, "cgroup {path}"),
            Self::Cgroup(None) => f.write_str("a cgroup"),
            Self::Mount(text) | Self::Sysctl(text) | Self::Other(text) => f.write_str(text),
            Self::Process(name) => write!(f, "process {name}"),
            Self::HugePool(bytes) => write!(f, "pool of {} pages", format_bytes(*bytes)),
        }
    }
}

impl From<Area> for Subject {
    fn from(area: Area) -> Self {
        Self::Area(area)
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_text(&String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_keep_subjects() {
        for subject in [
            Subject::Area(Area::Cpus),
            Subject::Area(Area::TransparentHugePages),
            Subject::Node(3),
            Subject::Zone { node: 1, zone: "Normal".to_owned() },
            Subject::Cgroup(None),
            Subject::Cgroup(Some("/a b".to_owned())),
            Subject::Mount("/dev/shm".to_owned()),
            Subject::Sysctl("vm.zone_reclaim_mode".to_owned()),
            Subject::Process("a b".to_owned()),
            Subject::HugePool(2 << 20),
            Subject::Other("node one".to_owned()),
        ] {
            let json = serde_json::to_string(&subject).unwrap();
            assert_eq!(serde_json::from_str::<Subject>(&json).unwrap(), subject, "{json}");
        }
    }

    #[test]
    fn a_recording_of_an_earlier_version_is_understood() {
        let subject: Subject = serde_json::from_str("\"processors\"").unwrap();
        assert_eq!(subject, Subject::Area(Area::Cpus));
    }
}
