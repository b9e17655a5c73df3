//! Made machines: each lacks one thing, which is told with the command that turns it on.

use crate::host::{
    BootLoader, Configuration, HostFacts, Installation, RecordingFile, Tracepoint, UnitFailure,
    UnitState,
};
use crate::judge::checks;
use crate::report::{DoctorReport, Requirement, RequirementState};
use mw_model::Namespace;
use mw_sys::PidNamespace;
use rustix::io::Errno;

fn text(text: &str) -> Result<String, Errno> {
    Ok(text.to_owned())
}

fn installed(enabled: &str, active: &str) -> UnitState {
    UnitState::Installed { enabled: enabled.to_owned(), active: active.to_owned(), failure: None }
}

/// A unit whose sandbox cannot be made, which systemd starts again and again.
fn failing() -> UnitState {
    UnitState::Installed {
        enabled: "enabled".to_owned(),
        active: "activating".to_owned(),
        failure: Some(UnitFailure {
            result: "result 'exit-code', exit status 226/NAMESPACE".to_owned(),
            log: vec!["Failed to set up mount namespacing: /dev/kmsg: No such file".to_owned()],
        }),
    }
}

/// A server with everything.
pub(crate) fn complete() -> HostFacts {
    HostFacts {
        is_root: true,
        capabilities: Some(u64::MAX >> 23),
        kernel_release: "6.12.9-amd64".to_owned(),
        container: None,
        pid_namespace: Ok(PidNamespace::Initial),
        namespaces: Vec::new(),
        boot_loader: BootLoader::UpdateGrub,
        mountinfo: text("28 24 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n"),
        tracepoint: Tracepoint { id: text("317\n"), is_of_own_mount: false },
        perf_event: Ok(()),
        perf_event_paranoid: text("3\n"),
        kallsyms: text("0000000000000000 A fixed_percpu_data\nffffffff81000000 T startup_64\n"),
        kptr_restrict: text("1\n"),
        pressure: text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"),
        task_delayacct: text("1\n"),
        extfrag: text("Node 0, zone Normal 0.000\n"),
        cgroup_controllers: text("cpuset cpu io memory pids\n"),
        cgroup_v1: text("#subsys_name\thierarchy\tnum_cgroups\tenabled\n"),
        cachestat: Ok(()),
        settings: Ok(()),
        memlock_bytes: Some(8 << 20),
        clocksource: text("tsc\n"),
        clocksources: text("tsc hpet acpi_pm \n"),
        installation: Installation {
            configuration: Ok(Configuration {
                path: Some("/etc/memwright/memwright.toml".to_owned()),
                wants_pools: true,
            }),
            preload_library: Ok("/usr/lib/memwright/libmemwright_preload.so".to_owned()),
            recorder: installed("enabled", "active"),
            pool_server: installed("enabled", "active"),
            pools: Ok(1),
            recording: RecordingFile {
                path: "/var/lib/memwright/recording.db".to_owned(),
                writable: Ok(()),
                free_bytes: Some(10 << 30),
                size_bytes: 100 << 20,
                max_bytes: 200 << 20,
            },
        },
    }
}

/// The only thing that is not as it should be on the machine that `change` makes.
#[track_caller]
fn only(change: impl FnOnce(&mut HostFacts)) -> Requirement {
    let mut machine = complete();
    change(&mut machine);
    let others =
        checks(&machine).into_iter().filter(|check| check.state != RequirementState::Works);
    let others: Vec<Requirement> = others.collect();
    let [only] = others.as_slice() else { panic!("{others:#?}") };
    only.clone()
}

/// One thing is missing, and this is how to get it.
#[track_caller]
fn lacks(name: &str, remedy: &str, change: impl FnOnce(&mut HostFacts)) {
    let check = only(change);
    assert_eq!((check.name.as_str(), check.state), (name, RequirementState::Missing), "{check:#?}");
    assert!(check.remedy.as_ref().is_some_and(|known| known.contains(remedy)), "{check:#?}");
    assert!(!check.detail.is_empty());
    let diagnosis = DoctorReport::new(vec![check]);
    assert_eq!(diagnosis.summary, format!("1 requirement is missing: {name}"));
    assert_eq!(diagnosis.worst(), RequirementState::Missing);
}

#[test]
fn a_complete_machine_works() {
    let diagnosis = DoctorReport::new(checks(&complete()));
    assert_eq!(diagnosis.summary, "everything works");
    assert_eq!(diagnosis.worst(), RequirementState::Works);
    assert!(diagnosis.checks.iter().all(|check| check.remedy.is_none()));
    let text = diagnosis.text(false);
    assert!(text.starts_with("everything works\n\nin place: privileges, whole-machine"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    assert!(diagnosis.text(true).contains("\n* tracefs: mounted and readable (watch, why)\n"));
    let mut machine = complete();
    machine.tracepoint.is_of_own_mount = true;
    let diagnosis = DoctorReport::new(checks(&machine));
    assert_eq!(diagnosis.summary, "everything works");
    assert!(
        diagnosis.text(true).contains("\n* tracefs: not mounted; memwright mounts it for itself")
    );
}

/// Promise (Installation): `doctor` names each thing that is missing with a command that turns it on; what is
/// undetermined is not reported as working.
#[test]
fn what_the_kernel_lacks() {
    lacks("tracefs", "mount -t tracefs tracefs /sys/kernel/tracing", |machine| {
        machine.tracepoint.id = Err(Errno::NOENT);
        machine.mountinfo = text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    });
    lacks("tracefs", "CONFIG_FTRACE", |machine| machine.tracepoint.id = Err(Errno::NOENT));
    lacks("perf-events", "CONFIG_PERF_EVENTS", |machine| machine.perf_event = Err(Errno::NOSYS));
    lacks("kernel-symbols", "sysctl -p /etc/sysctl.d/90-kernel-kptr_restrict.conf", |machine| {
        machine.kallsyms = text("0000000000000000 A fixed_percpu_data\n");
        machine.kptr_restrict = text("2\n");
    });
    lacks("pressure", "psi=1 /' /etc/default/grub && update-grub", |machine| {
        machine.pressure = Err(Errno::OPNOTSUPP);
    });
    lacks("pressure", "grubby --update-kernel=ALL --args=psi=1", |machine| {
        machine.pressure = Err(Errno::NOENT);
        machine.boot_loader = BootLoader::Grubby;
    });
    lacks("delay-accounting", "echo 'kernel.task_delayacct = 1' >", |machine| {
        machine.task_delayacct = text("0\n");
    });
    lacks("memory-controller", "cgroup_enable=memory", |machine| {
        machine.cgroup_controllers = text("cpu pids\n");
        machine.cgroup_v1 = text("#subsys_name hierarchy num_cgroups enabled\nmemory 0 1 0\n");
    });
    lacks("cachestat", "Linux 6.5", |machine| {
        machine.kernel_release = "6.1.0-28-amd64".to_owned();
        machine.cachestat = Err(Errno::NOSYS);
    });
    lacks("clock", "echo tsc >", |machine| machine.clocksource = text("hpet\n"));
    lacks("clock", "dmesg", |machine| {
        machine.clocksource = text("hpet\n");
        machine.clocksources = text("hpet acpi_pm\n");
    });
}

#[test]
fn an_old_kernel_accounts_delays_without_a_setting() {
    let mut machine = complete();
    machine.kernel_release = "5.10.0-33-amd64".to_owned();
    machine.task_delayacct = Err(Errno::NOENT);
    assert!(checks(&machine).iter().all(|check| check.state == RequirementState::Works));
}

#[test]
fn the_memory_controller_of_version_1_counts() {
    let mut machine = complete();
    machine.cgroup_controllers = Err(Errno::NOENT);
    machine.cgroup_v1 = text("#subsys_name hierarchy num_cgroups enabled\nmemory 4 80 1\n");
    assert!(checks(&machine).iter().all(|check| check.state == RequirementState::Works));
}

#[test]
fn what_memwright_itself_lacks() {
    lacks("configuration", "man memwright.toml", |machine| {
        machine.installation.configuration =
            Err("memwright.toml line 3: unknown field `x`".to_owned());
    });
    lacks("preload-library", "make install", |machine| {
        machine.installation.preload_library = Err("the library is not there".to_owned());
    });
    lacks("recorder", "make install", |machine| {
        machine.installation.recorder = UnitState::NotInstalled
    });
    lacks("recorder", "systemctl enable --now memwright", |machine| {
        machine.installation.recorder = installed("disabled", "inactive");
    });
    lacks("recorder", "systemctl enable memwright", |machine| {
        machine.installation.recorder = installed("disabled", "active");
    });
    lacks("recorder", "journalctl -u memwright ", |machine| {
        machine.installation.recorder = failing();
    });
    lacks("pool-server", "systemctl restart memwright-pool", |machine| {
        machine.installation.pools = Err("no server".to_owned());
        machine.installation.pool_server = failing();
    });
    lacks("recording", "max-size", |machine| {
        machine.installation.recording.free_bytes = Some(99 << 20);
    });
    lacks("recording", "[watch]", |machine| {
        machine.installation.recording.writable = Err(Errno::ROFS);
    });
}

/// Promise (Installation): Where a unit fails, `doctor` says how, with the last lines of its journal, and does not
/// advise to start it again.
#[test]
fn a_unit_that_fails_is_told_with_its_journal_and_not_to_be_started_again() {
    let check = only(|machine| machine.installation.recorder = failing());
    let text = DoctorReport::new(vec![check.clone()]).text(false);
    assert!(
        text.contains("memwright.service fails: result 'exit-code', exit status 226/NAMESPACE"),
        "{text}"
    );
    assert!(text.contains("\n    | Failed to set up mount namespacing"), "{text}");
    let remedy = check.remedy.unwrap();
    assert!(
        remedy.starts_with("journalctl -u memwright -n 50") && !remedy.contains("enable"),
        "{remedy}"
    );
}

#[test]
fn pools_are_optional() {
    let check = only(|machine| {
        machine.installation.pools = Err("no server".to_owned());
        machine.installation.pool_server = UnitState::NotInstalled;
        machine.installation.configuration = Ok(Configuration { path: None, wants_pools: false });
    });
    assert_eq!((check.name.as_str(), check.state), ("pool-server", RequirementState::Off));
    assert_eq!(DoctorReport::new(vec![check]).summary, "everything works");
}

/// Promise (Installation): `doctor` tells an ordinary user what only root may see, and in a container what the
/// container hides.
#[test]
fn an_ordinary_user_is_told_what_only_root_may_see() {
    let mut machine = complete();
    machine.is_root = false;
    machine.capabilities = Some(0);
    machine.tracepoint.id = Err(Errno::ACCESS);
    machine.extfrag = Err(Errno::ACCESS);
    machine.perf_event = Err(Errno::ACCESS);
    machine.settings = Err(Errno::ACCESS);
    machine.kallsyms = text("0000000000000000 T startup_64\n");
    machine.installation.recording.writable = Err(Errno::ACCESS);
    let diagnosis = DoctorReport::new(checks(&machine));
    let summary = "4 requirements are missing: privileges, perf-events, kernel-symbols, lock-limit; \
                   2 are undetermined: tracefs, debugfs";
    assert_eq!(diagnosis.summary, summary);
    assert_eq!(diagnosis.worst(), RequirementState::Missing);
    for name in ["privileges", "tracefs", "debugfs", "perf-events", "kernel-symbols"] {
        let check = diagnosis.checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.remedy.as_deref(), Some("sudo memwright doctor"), "{check:#?}");
    }
}

/// Changes that make a machine lack a requirement.
type Change = fn(&mut HostFacts);

/// A command that an ordinary user would be refused is no help.
#[test]
fn what_needs_root_is_run_with_sudo() {
    let changes: [(&str, Change); 8] = [
        ("tracefs", |machine| {
            machine.tracepoint.id = Err(Errno::NOENT);
            machine.mountinfo = text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        }),
        ("kernel-symbols", |machine| {
            machine.kallsyms = text("0000000000000000 A fixed_percpu_data\n");
            machine.kptr_restrict = text("2\n");
        }),
        ("pressure", |machine| machine.pressure = Err(Errno::OPNOTSUPP)),
        ("delay-accounting", |machine| machine.task_delayacct = text("0\n")),
        ("clock", |machine| machine.clocksource = text("hpet\n")),
        ("recorder", |machine| machine.installation.recorder = installed("disabled", "inactive")),
        ("recorder", |machine| machine.installation.recorder = UnitState::NotInstalled),
        ("pool-server", |machine| {
            machine.installation.pools = Err("no server".to_owned());
            machine.installation.pool_server = installed("enabled", "failed");
        }),
    ];
    for (name, change) in changes {
        let mut machine = complete();
        machine.is_root = false;
        change(&mut machine);
        let check = checks(&machine).into_iter().find(|check| check.name == name).unwrap();
        let remedy = check.remedy.as_deref().unwrap_or_default();
        assert!(remedy.starts_with("sudo ") || remedy.contains("&& sudo "), "{check:#?}");
    }
}

#[test]
fn only_kernels_before_6_5_need_a_privilege_for_memory_pressure() {
    let without = |release: &str| {
        let mut machine = complete();
        machine.kernel_release = release.to_owned();
        machine.capabilities = Some((u64::MAX >> 23) & !(1 << 24));
        checks(&machine)
    };
    assert!(without("6.18.5").iter().all(|check| check.state == RequirementState::Works));
    let check = without("6.1.0-28-amd64").into_iter().find(|check| check.name == "privileges");
    assert!(check.unwrap().detail.contains("CAP_SYS_RESOURCE"));
}

#[test]
fn addresses_that_are_hidden_have_their_own_reason() {
    let detail = |restrict: &str, capabilities: u64| {
        let mut machine = complete();
        machine.capabilities = Some(capabilities);
        machine.kallsyms = text("0000000000000000 T startup_64\n");
        machine.kptr_restrict = text(restrict);
        let check = checks(&machine).into_iter().find(|check| check.name == "kernel-symbols");
        check.unwrap().detail
    };
    let all = u64::MAX >> 23;
    for restrict in ["0\n", "1\n"] {
        let said = detail(restrict, 0);
        assert!(said.ends_with("they need CAP_SYSLOG"), "{said}");
        assert!(detail(restrict, all).contains("in spite of CAP_SYSLOG"));
    }
    assert!(detail("2\n", all).ends_with("kernel.kptr_restrict is 2"));
}

#[test]
fn a_container_is_told_to_hide_the_machine() {
    let mut machine = complete();
    machine.container = Some("docker".to_owned());
    machine.capabilities = Some(0xa804_25fb);
    machine.pid_namespace = Ok(PidNamespace::Nested);
    machine.namespaces = vec![Namespace::Pid, Namespace::Mount];
    machine.tracepoint.id = Err(Errno::NOENT);
    machine.perf_event = Err(Errno::PERM);
    machine.settings = Err(Errno::ROFS);
    machine.extfrag = Err(Errno::NOENT);
    machine.installation.recorder = UnitState::NoSystemd;
    let diagnosis = DoctorReport::new(checks(&machine));
    let missing = "6 requirements are missing: privileges, whole-machine, settings, tracefs, perf-events, \
                   lock-limit";
    assert_eq!(diagnosis.summary, missing);
    let text = diagnosis.text(false);
    assert!(
        text.contains("inside of docker: states, stacks and memory of processes: within a PID"),
        "{text}"
    );
    assert!(text.contains("root lacks CAP_DAC_READ_SEARCH"), "{text}");
}

/// Promise (Installation): `doctor` and each report say what every kind of namespace loses.
#[test]
fn every_namespace_is_told_with_what_it_loses() {
    for namespace in Namespace::ALL {
        let lost = namespace.losses().map(|missing| missing.to_string());
        let Some(lost) = lost.reduce(|all, one| format!("{all}; {one}")) else {
            let mut machine = complete();
            machine.namespaces = vec![namespace];
            assert!(checks(&machine).iter().all(|check| check.state == RequirementState::Works));
            continue;
        };
        let mut machine = complete();
        machine.namespaces = vec![namespace];
        let all = checks(&machine);
        let check = all.iter().find(|check| check.name == "whole-machine").unwrap();
        // To the kernel, root of a user namespace has no capability.
        let others = all.iter().filter(|check| check.state != RequirementState::Works).count();
        assert_eq!(others > 1, namespace == Namespace::User, "{all:#?}");
        assert_eq!(
            (check.name.as_str(), check.state),
            ("whole-machine", RequirementState::Missing)
        );
        let expected = format!("inside of a namespace ({}): {lost}", namespace.name());
        assert_eq!(check.detail, expected);
    }
    let check = only(|machine| machine.pid_namespace = Ok(PidNamespace::NotOfProc));
    assert_eq!(check.remedy.as_deref(), Some("mount -t proc proc /proc"));
}

#[test]
fn what_could_not_be_told_is_not_said_to_work() {
    let check =
        only(|machine| machine.installation.recorder = UnitState::Unknown("timed out".to_owned()));
    let diagnosis = DoctorReport::new(vec![check]);
    assert_eq!(diagnosis.summary, "nothing is missing, but 1 is undetermined: recorder");
    assert_eq!(diagnosis.worst(), RequirementState::Unknown);
}
