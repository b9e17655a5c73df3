//! Judges the kernel and the privileges; pure. What belongs to memwright itself is in judge_service.rs.

use crate::host::{BootLoader, FileText, HostFacts};
use crate::judge_service;
use crate::report::{DoctorReport, Requirement, as_root};
use mw_model::{Missing, Namespace, format_bytes};
use mw_sys::PidNamespace;
use rustix::io::Errno;

/// Command of an ordinary user for the whole diagnosis.
const AS_ROOT: &str = "sudo memwright doctor";
const ON_HOST: &str =
    "run memwright on the host, or in a container with docker run --privileged --pid=host";

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_SYSLOG: u32 = 34;
const CAP_PERFMON: u32 = 38;

/// Privileges of all commands, and their purposes. In place of two of them memwright.service has higher limits.
const CAPABILITIES: [(u32, &str, &str); 9] = [
    (2, "CAP_DAC_READ_SEARCH", "files that only root may read"),
    (12, "CAP_NET_ADMIN", "delays of tasks"),
    (CAP_IPC_LOCK, "CAP_IPC_LOCK", "locked memory"),
    (19, "CAP_SYS_PTRACE", "other users' processes"),
    (CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "kernel stacks of tasks"),
    (23, "CAP_SYS_NICE", "real-time scheduling"),
    (CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", "memory pressure on kernels before 6.5"),
    (CAP_SYSLOG, "CAP_SYSLOG", "kernel symbols"),
    (CAP_PERFMON, "CAP_PERFMON", "events of all CPUs"),
];

/// Clocks that are read in microseconds instead of nanoseconds.
const SLOW_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// Judges a machine.
#[must_use]
pub fn judge(host: &HostFacts) -> DoctorReport {
    DoctorReport::new(checks(host))
}

/// Everything that is needed, in the order in which it is fixed.
pub(crate) fn checks(machine: &HostFacts) -> Vec<Requirement> {
    let kernel = [
        privileges(machine),
        whole_machine(machine),
        settings(machine),
        tracefs(machine),
        perf_events(machine),
        kernel_symbols(machine),
        pressure(machine),
        delay_accounting(machine),
        extfrag(machine),
        memory_controller(machine),
        cachestat(machine),
        lock_limit(machine),
        clock(machine),
    ];
    kernel.into_iter().chain(judge_service::checks(machine)).collect()
}

impl HostFacts {
    /// CAP_SYS_ADMIN includes what CAP_PERFMON allows, which kernels before 5.8 do not have.
    fn has(&self, capability: u32) -> bool {
        // Those of a user namespace count within it alone (capable() in kernel/capability.c).
        let held = |number: u32| {
            let is_in_set = self.capabilities.is_some_and(|set| set & (1 << number) != 0);
            is_in_set && !self.namespaces.contains(&Namespace::User)
        };
        held(capability) || (capability == CAP_PERFMON && held(CAP_SYS_ADMIN))
    }

    /// True if this kernel has something that needs the capability.
    fn needs(&self, capability: u32) -> bool {
        capability != CAP_SYS_RESOURCE || !self.is_at_least(6, 5)
    }

    /// A command that needs root, as this user runs it.
    fn as_root(&self, command: &str) -> String {
        as_root(command, self.is_root)
    }

    /// Remedy for a refused privilege.
    fn privilege(&self) -> &'static str {
        if self.is_root { ON_HOST } else { AS_ROOT }
    }

    fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut numbers =
            self.kernel_release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
    }

    /// The command that adds a boot parameter.
    fn boot_with(&self, parameter: &str) -> String {
        match self.boot_loader {
            BootLoader::Grubby => {
                self.as_root(&format!("grubby --update-kernel=ALL --args={parameter} && reboot"))
            }
            BootLoader::UpdateGrub => self.as_root(&format!(
                "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{parameter} /' /etc/default/grub && update-grub && reboot"
            )),
            BootLoader::Other => {
                format!(
                    "add {parameter} to the kernel's command line in the boot loader, and reboot"
                )
            }
        }
    }
}

/// A setting that is in force at once and after a reboot.
fn sysctl(machine: &HostFacts, name: &str, value: &str) -> String {
    let file = format!("/etc/sysctl.d/90-{}.conf", name.replace('.', "-"));
    machine.as_root(&format!("echo '{name} = {value}' > {file} && sysctl -p {file}"))
}

fn privileges(machine: &HostFacts) -> Requirement {
    let check = Requirement::works(
        "privileges",
        "watch, why, fix, pool",
        "all capabilities that are needed",
    );
    if machine.capabilities.is_none() {
        return check.unknown("/proc/self/status does not show the capabilities", ON_HOST);
    }
    let lacking =
        CAPABILITIES.iter().filter(|(number, ..)| machine.needs(*number) && !machine.has(*number));
    let lacking: Vec<String> =
        lacking.map(|(_, name, purpose)| format!("{name} ({purpose})")).collect();
    match lacking.len() {
        0 => check,
        _ if !machine.is_root => {
            let detail = "not root: sees only its own processes and machine-wide counters";
            check.missing(detail, AS_ROOT)
        }
        _ => {
            let of = if machine.namespaces.contains(&Namespace::User) {
                "root of a user namespace"
            } else {
                "root"
            };
            check.missing(format!("{of} lacks {}", lacking.join(", ")), ON_HOST)
        }
    }
}

fn whole_machine(machine: &HostFacts) -> Requirement {
    let detail = match &machine.container {
        Some(kind) => format!("a container ({kind}) with the processes of the host"),
        None => "all processes are seen".to_owned(),
    };
    let check = Requirement::works("whole-machine", "watch, explain, top", detail);
    match &machine.pid_namespace {
        Ok(PidNamespace::NotOfProc) => {
            return check.missing(
                "/proc belongs to another PID namespace, where numbers of tasks are those of others: nothing is traced",
                "mount -t proc proc /proc",
            );
        }
        Ok(_) => {}
        Err(why) => return check.unknown(format!("/proc/self/ns/pid: {why}"), ON_HOST),
    }
    // A mount namespace by itself hides nothing.
    let nested = machine.namespaces.iter().filter(|namespace| **namespace != Namespace::Mount);
    let losses: Vec<Missing> = nested.clone().flat_map(|namespace| namespace.losses()).collect();
    if losses.is_empty() {
        return check;
    }
    let kinds: Vec<&str> = nested.map(|namespace| namespace.name()).collect();
    let kind =
        machine.container.clone().unwrap_or_else(|| format!("a namespace ({})", kinds.join(", ")));
    let losses: Vec<String> = losses.iter().map(Missing::to_string).collect();
    check.missing(format!("inside of {kind}: {}", losses.join("; ")), ON_HOST)
}

fn settings(machine: &HostFacts) -> Requirement {
    let check =
        Requirement::works("settings", "fix, undo", "settings of the kernel can be written");
    match machine.settings {
        Ok(()) => check,
        Err(Errno::ACCESS | Errno::PERM) if !machine.is_root => {
            check.off("only root may change settings", "sudo memwright fix")
        }
        Err(Errno::ROFS) => check.missing("/proc/sys is read-only, as in a container", ON_HOST),
        Err(errno) => check.missing(format!("/proc/sys/vm: {errno}"), ON_HOST),
    }
}

fn tracefs(machine: &HostFacts) -> Requirement {
    let works = match machine.tracepoint.is_of_own_mount {
        true => "not mounted; memwright mounts it for itself, where no other process sees it",
        false => "mounted and readable",
    };
    let check = Requirement::works("tracefs", "watch, why", works);
    let lost = "requests and waits are not traced, and causes are less certain";
    match machine.tracepoint.id {
        Ok(_) => check,
        Err(Errno::ACCESS | Errno::PERM) => {
            check.unknown("only root may look", machine.privilege())
        }
        Err(_) if machine.namespaces.contains(&Namespace::User) => {
            check.missing(format!("root of a user namespace may not mount it: {lost}"), ON_HOST)
        }
        Err(_) => match &machine.mountinfo {
            Ok(mounts) if !has_tracefs(mounts) => {
                let mount = "mount -t tracefs tracefs /sys/kernel/tracing";
                check.missing(format!("not mounted: {lost}"), machine.as_root(mount))
            }
            Ok(_) if machine.container.is_some() => {
                check.missing(format!("the container hides it: {lost}"), ON_HOST)
            }
            Ok(_) => {
                let kernel = "boot a kernel with CONFIG_FTRACE and CONFIG_SCHED_TRACER events";
                check.missing(format!("no event of the scheduler: {lost}"), kernel)
            }
            Err(errno) => check.unknown(format!("/proc/self/mountinfo: {errno}"), ON_HOST),
        },
    }
}

fn has_tracefs(mountinfo: &str) -> bool {
    let mounts = mw_proc::mountinfo::parse(mountinfo.as_bytes()).unwrap_or_default();
    mounts.iter().any(|mount| mount.fstype == "tracefs")
}

fn perf_events(machine: &HostFacts) -> Requirement {
    let paranoid = machine.perf_event_paranoid.as_ref().map_or("unknown", |text| text.trim());
    let paranoid = format!("kernel.perf_event_paranoid is {paranoid}");
    let check =
        Requirement::works("perf-events", "watch, why", format!("may be opened ({paranoid})"));
    match machine.perf_event {
        Ok(()) => check,
        Err(Errno::ACCESS | Errno::PERM) if machine.has(CAP_PERFMON) => {
            let why = "refused in spite of CAP_PERFMON: a seccomp filter, or kernel lockdown";
            check.missing(why, ON_HOST)
        }
        Err(Errno::ACCESS | Errno::PERM) => check.missing(
            format!("no kernel stacks without CAP_PERFMON: {paranoid}"),
            machine.privilege(),
        ),
        Err(Errno::NOENT | Errno::NOSYS) => {
            check.missing("this kernel has none", "boot a kernel with CONFIG_PERF_EVENTS")
        }
        Err(errno) => check.unknown(format!("perf_event_open: {errno}"), machine.privilege()),
    }
}

/// Addresses are zero for those who may not see them; some symbols have the address zero for everybody.
fn kernel_symbols(machine: &HostFacts) -> Requirement {
    let check = Requirement::works("kernel-symbols", "watch", "functions of the kernel have names");
    let text = match &machine.kallsyms {
        Ok(text) => text,
        Err(Errno::NOENT) => {
            return check.missing("no /proc/kallsyms", "boot a kernel with CONFIG_KALLSYMS");
        }
        Err(errno) => {
            return check.unknown(format!("/proc/kallsyms: {errno}"), machine.privilege());
        }
    };
    let address = |line: &str| line.split(' ').next().map(|word| word.bytes().any(|b| b != b'0'));
    if text.lines().any(|line| address(line) == Some(true)) {
        return check;
    }
    let restrict = machine.kptr_restrict.as_ref().map_or("unknown", |text| text.trim());
    let hidden = |why: &str| format!("/proc/kallsyms has no addresses: {why}");
    match restrict {
        "2" => check.missing(
            hidden("kernel.kptr_restrict is 2"),
            sysctl(machine, "kernel.kptr_restrict", "1"),
        ),
        _ if machine.has(CAP_SYSLOG) => {
            check.missing(hidden("refused in spite of CAP_SYSLOG (kernel lockdown?)"), ON_HOST)
        }
        _ => check.missing(hidden("they need CAP_SYSLOG"), machine.privilege()),
    }
}

fn pressure(machine: &HostFacts) -> Requirement {
    let check =
        Requirement::works("pressure", "watch, check, top", "pressure stall information is on");
    match machine.pressure {
        Ok(_) => check,
        Err(Errno::ACCESS | Errno::PERM) => {
            check.unknown("only root may read it", machine.privilege())
        }
        Err(_) if !machine.is_at_least(4, 20) => check
            .missing("this kernel has no pressure stall information", "boot Linux 4.20 or later"),
        Err(Errno::NOENT | Errno::OPNOTSUPP) => {
            let detail = "off: time that tasks wait for memory is not counted (needs CONFIG_PSI)";
            check.missing(detail, machine.boot_with("psi=1"))
        }
        Err(errno) => check.unknown(format!("/proc/pressure/memory: {errno}"), ON_HOST),
    }
}

/// On by default before Linux 5.14, which brought the setting.
fn delay_accounting(machine: &HostFacts) -> Requirement {
    let check = Requirement::works("delay-accounting", "watch", "delays of tasks are accounted");
    match read(&machine.task_delayacct) {
        Ok("0") => {
            let lost = "incidents lack how long each task waited for memory and disks";
            let on = sysctl(machine, "kernel.task_delayacct", "1");
            check.missing(format!("off: {lost}"), on)
        }
        Ok(_) => check,
        Err(Errno::NOENT) if !machine.is_at_least(5, 14) => check,
        Err(Errno::NOENT) => {
            let kernel = "boot a kernel with CONFIG_TASK_DELAY_ACCT";
            check.missing("this kernel does not account delays of tasks", kernel)
        }
        Err(errno) => {
            check.unknown(format!("/proc/sys/kernel/task_delayacct: {errno}"), machine.privilege())
        }
    }
}

fn extfrag(machine: &HostFacts) -> Requirement {
    let check = Requirement::works(
        "debugfs",
        "capture",
        "the kernel's own fragmentation index is readable",
    );
    match machine.extfrag {
        Ok(_) => check,
        Err(Errno::ACCESS | Errno::PERM) => {
            check.unknown("only root may look", machine.privilege())
        }
        Err(_) if machine.mountinfo.as_ref().is_ok_and(|mounts| mounts.contains(" - debugfs ")) => {
            // check computes the index from /proc/buddyinfo.
            let kernel = "boot a kernel with CONFIG_COMPACTION and CONFIG_DEBUG_FS";
            check.off("mounted, but without extfrag: the index is computed here", kernel)
        }
        Err(_) => {
            let mount = "mount -t debugfs debugfs /sys/kernel/debug";
            check.off(
                "not mounted: the fragmentation index is computed here",
                machine.as_root(mount),
            )
        }
    }
}

/// The memory controller of the unified hierarchy, or of version 1: `memory HIERARCHY GROUPS ENABLED` in /proc/cgroups.
fn memory_controller(machine: &HostFacts) -> Requirement {
    let check = |detail| Requirement::works("memory-controller", "check, watch, explain", detail);
    let unified = machine.cgroup_controllers.as_ref();
    if unified.is_ok_and(|names| names.split_whitespace().any(|name| name == "memory")) {
        return check("of cgroup version 2");
    }
    let Ok(table) = &machine.cgroup_v1 else {
        let lost = check("").unknown("/proc/cgroups cannot be read", ON_HOST);
        return lost;
    };
    let line = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = line.into_iter().find(|words| words.first() == Some(&"memory"));
    match line.as_deref() {
        Some([_, hierarchy, _, "1"]) if *hierarchy != "0" => check("of cgroup version 1"),
        Some([_, _, _, "1"]) if machine.container.is_none() => {
            let mount = "mount -t cgroup2 none /sys/fs/cgroup";
            check("").missing("no hierarchy of cgroups with it is mounted", machine.as_root(mount))
        }
        Some([_, _, _, "1"]) => check("").missing("the container hides it", ON_HOST),
        _ => {
            let detail = "off: memory of services is neither counted nor limited";
            check("").missing(detail, machine.boot_with("cgroup_enable=memory"))
        }
    }
}

fn cachestat(machine: &HostFacts) -> Requirement {
    let check =
        Requirement::works("cachestat", "explain, trends", "cached pages of a file can be counted");
    match machine.cachestat {
        Ok(()) => check,
        Err(Errno::NOSYS) if !machine.is_at_least(6, 5) => {
            check.missing("page cache cannot be attributed to files", "boot Linux 6.5 or later")
        }
        Err(Errno::NOSYS | Errno::PERM) => {
            check.missing("a seccomp filter refuses cachestat(2)", ON_HOST)
        }
        Err(errno) => check.unknown(format!("cachestat: {errno}"), machine.privilege()),
    }
}

fn lock_limit(machine: &HostFacts) -> Requirement {
    let check =
        |detail: &str| Requirement::works("lock-limit", "run --lock, check --for, pool", detail);
    match machine.memlock_bytes {
        _ if machine.has(CAP_IPC_LOCK) => check("CAP_IPC_LOCK, which no limit binds"),
        None => check("unlimited"),
        Some(bytes) => {
            let file = "/etc/security/limits.d/90-memwright.conf";
            let detail = format!("this user may lock {} (ulimit -l)", format_bytes(bytes));
            let raise = machine.as_root(&format!("echo '* - memlock unlimited' > {file}"));
            let remedy = format!("{raise}    # then log in again");
            check("").missing(detail, remedy)
        }
    }
}

fn clock(machine: &HostFacts) -> Requirement {
    let name = match read(&machine.clocksource) {
        Ok(name) => name,
        Err(errno) => {
            let check = Requirement::works("clock", "watch, why", "");
            return check.unknown(format!("current_clocksource: {errno}"), ON_HOST);
        }
    };
    let check = Requirement::works("clock", "watch, why", format!("{name} is read in nanoseconds"));
    if !SLOW_CLOCKS.contains(&name) {
        return check;
    }
    let detail =
        format!("{name} takes about a microsecond to read, which slows every trace and query plan");
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let has_tsc =
        read(&machine.clocksources).is_ok_and(|names| names.split(' ').any(|name| name == "tsc"));
    let remedy = if has_tsc {
        machine.as_root(&format!("echo tsc > {file}"))
    } else {
        let dmesg = machine.as_root("dmesg");
        format!("{dmesg} | grep -i tsc    # why the kernel does not use the CPU's clock")
    };
    check.missing(detail, remedy)
}

fn read(file: &FileText) -> Result<&str, Errno> {
    file.as_ref().map(|text| text.trim()).map_err(|errno| *errno)
}
