//! Commands that change a setting of a cgroup. It is changed where its manager keeps it: systemd, the kubelet and a
//! container's runtime write their own value into the kernel's file again. The file itself is for a group without a manager.

use crate::path_words::unit_of;
use mw_model::visible::shell_word;
use mw_model::{Cgroup, CgroupVersion, Cgroups, PartyKind, Step, cgroup_owner};

/// A setting of a cgroup that a remedy changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupSetting {
    MemoryMax,
    MemoryHigh,
    MemoryLow,
    SwapMax,
    SwapHigh,
    /// The quota is removed.
    CpuQuota,
    TasksMax,
}

impl GroupSetting {
    /// The setting that a lowest limit of memory is.
    pub(crate) fn of_limit(group: &Cgroup, limit_bytes: u64, version: CgroupVersion) -> Self {
        let is_high = version == CgroupVersion::V2 && group.high_bytes == Some(limit_bytes);
        if is_high { Self::MemoryHigh } else { Self::MemoryMax }
    }

    /// A property of a unit: systemd.resource-control(5). There is none for memory.swap.high.
    fn property(self, value: &str) -> Option<String> {
        match self {
            Self::MemoryMax => Some(format!("MemoryMax={value}")),
            Self::MemoryHigh => Some(format!("MemoryHigh={value}")),
            Self::MemoryLow => Some(format!("MemoryLow={value}")),
            Self::SwapMax => Some(format!("MemorySwapMax={value}")),
            Self::CpuQuota => Some("CPUQuota=".to_owned()),
            Self::TasksMax => Some(format!("TasksMax={value}")),
            Self::SwapHigh => None,
        }
    }

    /// An option of `docker update`, which podman and nerdctl have as well.
    fn runtime_option(self, value: &str) -> Option<String> {
        match self {
            Self::MemoryMax => Some(format!("--memory {value}")),
            Self::MemoryLow => Some(format!("--memory-reservation {value}")),
            Self::CpuQuota => Some("--cpu-quota=-1".to_owned()),
            Self::TasksMax => Some(format!("--pids-limit {value}")),
            Self::MemoryHigh | Self::SwapMax | Self::SwapHigh => None,
        }
    }

    /// A field of a container in the specification of its pod.
    fn pod_field(self) -> Option<&'static str> {
        match self {
            Self::MemoryMax | Self::MemoryHigh => Some("resources.limits.memory"),
            Self::MemoryLow => Some("resources.requests.memory"),
            Self::CpuQuota => Some("resources.limits.cpu"),
            Self::SwapMax | Self::SwapHigh | Self::TasksMax => None,
        }
    }

    /// The kernel's file, with the hierarchy of version 1 that has it.
    fn file(self, version: CgroupVersion) -> (&'static str, &'static str) {
        match (self, version) {
            (Self::MemoryMax, CgroupVersion::V1) => ("memory", "memory.limit_in_bytes"),
            (Self::MemoryLow, CgroupVersion::V1) => ("memory", "memory.soft_limit_in_bytes"),
            (Self::CpuQuota, CgroupVersion::V1) => ("cpu", "cpu.cfs_quota_us"),
            (Self::MemoryMax, CgroupVersion::V2) => ("memory", "memory.max"),
            (Self::MemoryLow, CgroupVersion::V2) => ("memory", "memory.low"),
            (Self::CpuQuota, CgroupVersion::V2) => ("cpu", "cpu.max"),
            (Self::MemoryHigh, _) => ("memory", "memory.high"),
            (Self::SwapMax, CgroupVersion::V1) => ("memory", "memory.memsw.limit_in_bytes"),
            (Self::SwapMax, CgroupVersion::V2) => ("memory", "memory.swap.max"),
            (Self::SwapHigh, _) => ("memory", "memory.swap.high"),
            (Self::TasksMax, _) => ("pids", "pids.max"),
        }
    }
}

/// A size as systemd, the runtimes and the kernel read it.
fn size(bytes: u64) -> String {
    format!("{}M", bytes.div_ceil(1 << 20))
}

/// A quarter more than a limit.
pub(crate) fn raised(limit_bytes: u64) -> u64 {
    limit_bytes.saturating_add(limit_bytes / 4)
}

/// The step that sets `setting` of a group to a size, or to one that the reader has to choose. `group` is its path in the
/// hierarchy, if it is known.
pub(crate) fn set(
    setting: GroupSetting,
    bytes: Option<u64>,
    group: Option<&str>,
    cgroups: Option<&Cgroups>,
) -> Step {
    let value = bytes.map_or_else(|| "SIZE".to_owned(), size);
    let step = match (group, setting.property(&value)) {
        (Some(path), _) => by_manager(setting, &value, path),
        (None, Some(property)) => {
            Some(Step::manual(format!("systemctl set-property UNIT {property}")))
        }
        (None, None) => None,
    };
    step.unwrap_or_else(|| by_file(setting, &value, group.unwrap_or("/GROUP"), cgroups))
}

/// The command of systemd, a runtime or Kubernetes; none for a group that they do not manage, as one within a unit.
pub(crate) fn by_manager(setting: GroupSetting, value: &str, path: &str) -> Option<Step> {
    let owner = cgroup_owner(path);
    let command = match owner.kind {
        PartyKind::Pod => format!(
            "kubectl get pods -A -o custom-columns=NS:metadata.namespace,POD:metadata.name,UID:metadata.uid | grep {}    # {} of its container",
            shell_word(&owner.name)?,
            setting.pod_field()?
        ),
        PartyKind::Container if owner.root == path => {
            let runtime = runtime(path)?;
            format!("{runtime} update {} {}", setting.runtime_option(value)?, owner.name)
        }
        PartyKind::Unit if owner.root == path => {
            format!("systemctl set-property {} {}", unit_of(path)?, setting.property(value)?)
        }
        PartyKind::Cgroup => {
            format!("systemctl set-property {} {}", slice(path)?, setting.property(value)?)
        }
        _ => return None,
    };
    Some(Step::manual(command))
}

/// A slice of the system's manager, which lies in slices alone. The kubelet sets those of its pods itself.
fn slice(path: &str) -> Option<String> {
    let mut levels = path.strip_prefix('/')?.split('/');
    let name = levels.clone().next_back()?;
    let is_slice = levels.all(|level| level.ends_with(".slice")) && !name.starts_with("kube");
    is_slice.then(|| shell_word(name)).flatten()
}

/// The program that manages the container of a cgroup. LXC has no such command.
fn runtime(path: &str) -> Option<&'static str> {
    let is = |word: &str| path.split('/').any(|part| part.starts_with(word));
    [("docker", "docker"), ("libpod", "podman"), ("nerdctl", "nerdctl")]
        .into_iter()
        .find_map(|(word, program)| is(word).then_some(program))
}

fn by_file(setting: GroupSetting, value: &str, path: &str, cgroups: Option<&Cgroups>) -> Step {
    let version = cgroups.map_or(CgroupVersion::V2, |all| all.version);
    let (controller, file) = setting.file(version);
    let mount = match (version, controller) {
        // That of the memory controller.
        (CgroupVersion::V1, "cpu" | "pids") => format!("/sys/fs/cgroup/{controller}"),
        _ => cgroups.map_or("/sys/fs/cgroup", |all| all.mount.as_str()).to_owned(),
    };
    let value = match (setting, version) {
        (GroupSetting::CpuQuota, CgroupVersion::V1) => "-1",
        (GroupSetting::CpuQuota, CgroupVersion::V2) => "max",
        _ => value,
    };
    let file = format!("{mount}{}/{file}", path.trim_end_matches('/'));
    Step::manual_on(&format!("echo {value} >"), &file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(setting: GroupSetting, mib: Option<u64>, group: &str, command: &str) {
        let Step::Manual { command: found } =
            set(setting, mib.map(|mib| mib << 20), Some(group), None)
        else {
            panic!("no command");
        };
        assert_eq!(found, command);
    }

    /// Promise (Tracing: why): A limit of a cgroup is raised where its manager keeps it.
    #[test]
    fn a_limit_is_raised_by_the_manager_of_its_group() {
        use GroupSetting::{CpuQuota, MemoryHigh, MemoryMax, TasksMax};
        const ID: &str = "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9";
        let of_unit = |path| {
            check(MemoryMax, Some(8), path, "systemctl set-property db.service MemoryMax=8M");
        };
        of_unit("/system.slice/db.service");
        of_unit("/system.slice/system-db.slice/db.service");
        check(MemoryHigh, None, "/apps.slice", "systemctl set-property apps.slice MemoryHigh=SIZE");
        check(
            CpuQuota,
            None,
            "/system.slice/a.service",
            "systemctl set-property a.service CPUQuota=",
        );
        let docker = format!("/system.slice/docker-{ID}.scope");
        check(MemoryMax, Some(8), &docker, "docker update --memory 8M 0a1b2c3d4e5f");
        let tasks = by_manager(TasksMax, "9", &format!("/docker/{ID}"));
        assert_eq!(tasks, Some(Step::manual("docker update --pids-limit 9 0a1b2c3d4e5f")));
        let podman = format!("/machine.slice/libpod-{ID}.scope");
        check(CpuQuota, None, &podman, "podman update --cpu-quota=-1 0a1b2c3d4e5f");
        let pod = format!("/kubepods/burstable/pod1f0e/{ID}");
        let Step::Manual { command } = set(MemoryMax, None, Some(&pod), None) else {
            panic!("no command");
        };
        assert!(command.ends_with("| grep 1f0e    # resources.limits.memory of its container"));
    }

    #[test]
    fn a_group_that_nobody_manages_is_changed_by_its_file() {
        use GroupSetting::{CpuQuota, MemoryMax};
        let file = |group: &str, path: &str| {
            check(MemoryMax, Some(8), group, &format!("echo 8M > {path}"));
        };
        file("/batch/a", "/sys/fs/cgroup/batch/a/memory.max");
        file(
            "/system.slice/db.service/inner",
            "/sys/fs/cgroup/system.slice/db.service/inner/memory.max",
        );
        let of_user = "/user.slice/user-7.slice/user@7.service/app.slice/x.service";
        file(of_user, &format!("/sys/fs/cgroup{of_user}/memory.max"));
        file("/kubepods.slice", "/sys/fs/cgroup/kubepods.slice/memory.max");
        file("/a; reboot", "'/sys/fs/cgroup/a; reboot/memory.max'");
        check(CpuQuota, None, "/a", "echo max > /sys/fs/cgroup/a/cpu.max");
    }
}
