//! What else than memory a request spent its time on: findings of the critical path.

use crate::disk_writers::{OtherWriter, disks_of, other_cgroup};
use crate::hog::hog;
use crate::request::{RequestTime, is_of_probe, is_task_within};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::{
    MachineOperation, MachinePause, PathPart, PathTask, TimeClass, WaitLink, kernel,
};
use mw_model::{Area, DiskMetric, Finding, Metric, Quantity, Remedy, Severity, Step, TriggerKind};

/// The largest part is in the path itself; nothing beside it has to be confirmed.
const CONFIRMED: u8 = 90;
/// A packet ended the wait; what delayed it is not known.
const SEEN: u8 = 85;
/// Confidence where it is not known which of several programs or limits it was.
const LIKELY: u8 = 75;
/// No thread of the service worked on the request: it may also have been lost on its way.
const POSSIBLE: u8 = 40;

/// The cause by what the request spent most of its time on, if that is not memory.
pub(crate) fn cause(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    let candidates = GROUPS.iter().map(|group| (request.percent(group.spent), group));
    let (percent, group) = candidates.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let part = request.largest(group.spent)?;
    let (finding, sure) = (group.finding)(stall, request, part);
    let finding = finding.with_evidence(
        format!("share of the request's {} ms", request.path.total_ns / 1_000_000),
        Quantity::Percent(percent),
        "critical path",
    );
    Some(Suspect::new(finding, sure).explaining(percent))
}

/// The hypervisor, where it took at least half of the request.
pub(crate) fn hypervisor(stall: &StallWindow<'_>, request: &RequestTime<'_>) -> Option<Suspect> {
    const LEAST_PERCENT: f64 = 50.0;
    let cpus = stall.incident.cpus?;
    let stolen = request.stolen_percent(cpus);
    let (_, part) = request.main().filter(|_| stolen >= LEAST_PERCENT)?;
    let who = Quantity::Text(named(stall, &part.task));
    let headline = "the hypervisor ran other virtual machines";
    let ms = |ms: u64| Quantity::Milliseconds(ms as f64);
    let finding = Finding::new(Severity::Critical, Area::Hypervisor, headline)
        .with_evidence("CPU time stolen by the hypervisor", ms(cpus.stolen_ms), "/proc/stat")
        .with_evidence("CPU time used", ms(cpus.busy_ms), "/proc/stat")
        .with_evidence("needed a CPU", who, "critical path")
        .with_impact("A virtual CPU that the hypervisor does not run looks busy from inside.")
        .with_remedy(manual(
            "move the virtual machine to a host with free CPUs, or give it a larger share there",
            "vmstat 1",
        ));
    Some(Suspect::new(finding, CONFIRMED).explaining(stolen))
}

/// Ways of spending time that have one cause.
struct TimeClassGroup {
    area: Area,
    spent: &'static [TimeClass],
    finding: fn(&StallWindow<'_>, &RequestTime<'_>, &PathPart) -> (Finding, u8),
}

const GROUPS: &[TimeClassGroup] = &[
    TimeClassGroup { area: Area::Cpus, spent: &[TimeClass::CpuContention], finding: cpus },
    TimeClassGroup { area: Area::Cpus, spent: &[TimeClass::Memwright], finding: memwright },
    TimeClassGroup { area: Area::Disk, spent: DISK, finding: disk },
    TimeClassGroup { area: Area::IoLimit, spent: &[TimeClass::IoLimit], finding: io_limit },
    TimeClassGroup { area: Area::StoppedProcess, spent: &[TimeClass::Stopped], finding: stopped },
    TimeClassGroup { area: Area::FrozenCgroup, spent: &[TimeClass::Frozen], finding: frozen },
    TimeClassGroup { area: Area::Network, spent: &[TimeClass::Network], finding: network },
    TimeClassGroup { area: Area::FuseServer, spent: &[TimeClass::Fuse], finding: fuse },
    TimeClassGroup { area: Area::NfsServer, spent: &[TimeClass::Nfs], finding: nfs },
    TimeClassGroup { area: Area::Service, spent: SERVICE, finding: service },
];

/// True if time of this class is that of a finding about `area`.
pub(crate) fn is_spent_in(area: Area, spent: TimeClass) -> bool {
    GROUPS.iter().any(|group| group.area == area && group.spent.contains(&spent))
}

const DISK: &[TimeClass] = &[
    TimeClass::Disk,
    TimeClass::FileRead,
    TimeClass::FileWrite,
    TimeClass::Journal,
    TimeClass::Writeback,
];

const SERVICE: &[TimeClass] = &[
    TimeClass::Sleep,
    TimeClass::TimeLimit,
    TimeClass::Computing,
    TimeClass::Lock,
    TimeClass::Idle,
];

fn cpus(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let waiter = Quantity::Text(named(stall, &part.task));
    let (headline, sure) = match (&part.holder, hog(stall)) {
        (Some(holder), _) => (format!("{} used the CPU time", holder.name), CONFIRMED),
        (None, Some((name, _))) => (format!("{name} probably used the CPU time"), LIKELY),
        (None, None) => ("tasks competed for the CPUs".to_owned(), LIKELY),
    };
    let finding = Finding::new(Severity::Critical, Area::Cpus, headline)
        .with_evidence("ready to run", waiter, "critical path")
        .with_impact("Every task that was ready to run had to wait for a CPU.")
        .with_remedy(manual(
            "give the service a larger CPU weight, or the other program a quota",
            "systemctl set-property UNIT CPUWeight=1000",
        ));
    (finding, sure)
}

fn memwright(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let waiter = Quantity::Text(named(stall, &part.task));
    let finding = Finding::new(Severity::Warning, Area::Cpus, "memwright itself used the CPU time")
        .with_evidence("ready to run", waiter, "critical path")
        .with_impact("Taking evidence of a stall used a CPU for most of the request.")
        .with_remedy(manual(
            "probe less often, or record without traces",
            "memwright watch --no-profile",
        ));
    (finding, CONFIRMED)
}

fn disk(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let disk = disk_of(stall, &part.task);
    let writer = other_cgroup(stall);
    let headline = match &writer {
        Some(writer) => format!("{} kept {disk} busy", mw_model::cgroup_name(writer.path)),
        None => format!("{disk} was slow"),
    };
    let waiter = Quantity::Text(named(stall, &part.task));
    let mut finding = Finding::new(Severity::Critical, Area::Disk, headline)
        .with_evidence("waited for it", waiter, "critical path")
        .with_impact("Every task that read from the disk or synced to it had to wait.")
        .with_remedy(manual("find the writer and give it a smaller I/O weight", "pidstat -d 1"));
    if let Some(OtherWriter { path, device, bytes, .. }) = writer {
        let what = format!("written to {device} by cgroup {path}");
        finding = finding.with_evidence(what, Quantity::Bytes(bytes), "io.stat");
    }
    (finding, CONFIRMED)
}

fn io_limit(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let group = stall.incident.groups.iter().find(|group| !group.io_limits.is_empty());
    let name = group.map_or("a cgroup".to_owned(), |group| mw_model::cgroup_name(&group.path));
    let headline = format!("{name} reached its I/O limit");
    let waiter = Quantity::Text(named(stall, &part.task));
    let limits = group.map(|group| group.io_limits.join("; ")).unwrap_or_default();
    let finding = Finding::new(Severity::Critical, Area::IoLimit, headline)
        .with_evidence("io.max", Quantity::Text(limits), "io.max")
        .with_evidence("waited for it", waiter, "critical path")
        .with_impact("Reads and writes of this group waited, however idle the disk was.")
        .with_remedy(manual(
            "raise the I/O limit of the group",
            "systemctl set-property UNIT IOReadBandwidthMax=",
        ));
    (finding, CONFIRMED)
}

fn stopped(_: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    // The number of a task outside of this PID namespace is that of another one here.
    let pid = part.task.pid().map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let (by, remedy) = if kernel::TRACED_STOP.are_in(&part.stack) {
        let command = format!("grep TracerPid /proc/{pid}/status");
        (" by a debugger", manual("detach the debugger that traces it", &command))
    } else {
        ("", manual("continue the process", &format!("kill -CONT {pid}")))
    };
    let headline = format!("{} was stopped{by}", part.task.label());
    let finding = Finding::new(Severity::Critical, Area::StoppedProcess, headline)
        .with_impact("A stopped process does not answer; its connections stay open.")
        .with_remedy(remedy);
    (finding, CONFIRMED)
}

fn frozen(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let frozen = || stall.frozen_group().map(|group| group.path.clone());
    let own = frozen().filter(|path| is_task_within(&part.task, path));
    let path = own.or_else(|| part.task.cgroup.clone()).or_else(frozen);
    let name = path.map_or_else(|| "a cgroup".to_owned(), |path| mw_model::cgroup_name(&path));
    let member = Quantity::Text(named(stall, &part.task));
    let finding =
        Finding::new(Severity::Critical, Area::FrozenCgroup, format!("{name} was frozen"))
            .with_evidence("frozen with it", member, "critical path")
            .with_impact("No task of a frozen cgroup runs; connections stay open.")
            .with_remedy(manual("thaw the cgroup", "systemctl thaw UNIT"));
    (finding, CONFIRMED)
}

fn network(stall: &StallWindow<'_>, request: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    if part.task.tid == request.path.task.tid
        && let Some(finding) = full_queue(stall)
    {
        return (finding, CONFIRMED);
    }
    let headline = format!("{} waited for a peer on the network", named(stall, &part.task));
    let finding = Finding::new(Severity::Warning, Area::Network, headline)
        .with_impact("The answer of another machine was late, or packets were lost.")
        .with_remedy(manual("look at the connections of the task", "ss -tinp"));
    (finding, SEEN)
}

/// The probe's own connection was not accepted: the kernel drops its packets while the queue is full.
fn full_queue(stall: &StallWindow<'_>) -> Option<Finding> {
    let service = stall.incident.service.as_ref()?;
    let queue = service.listen_queue.filter(|queue| queue.is_full())?;
    let who = service
        .processes
        .first()
        .map_or_else(|| "the service".to_owned(), crate::oom_words::process);
    let headline = format!("{who} accepted no connections");
    Some(
        Finding::new(Severity::Critical, Area::Service, headline)
            .with_evidence(
                "connections that wait to be accepted",
                Quantity::Count(queue.waiting.into()),
                "sock_diag",
            )
            .with_evidence("backlog", Quantity::Count(queue.limit.into()), "sock_diag")
            .with_impact("Its listen queue was full: the kernel drops further connections, which retry after 1 s, 3 s, 7 s.")
            .with_remedy(manual("see why it does not accept, then raise its backlog", "ss -ltn")),
    )
}

fn fuse(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let headline = format!("{} waited for a FUSE server", named(stall, &part.task));
    let finding = Finding::new(Severity::Warning, Area::FuseServer, headline)
        .with_impact("Every access to files of this file system waits for its server.")
        .with_remedy(manual("find the server of the file system", "findmnt -t fuse"));
    (finding, CONFIRMED)
}

fn nfs(stall: &StallWindow<'_>, _: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let headline = format!("{} waited for an NFS server", named(stall, &part.task));
    let finding = Finding::new(Severity::Warning, Area::NfsServer, headline)
        .with_impact("Every access to files of this mount waits for the server or the network.")
        .with_remedy(manual("look at the latency of the mount", "nfsiostat 1"));
    (finding, CONFIRMED)
}

fn service(stall: &StallWindow<'_>, request: &RequestTime<'_>, part: &PathPart) -> (Finding, u8) {
    let spent = request.parts().iter().find(|(_, known)| std::ptr::eq(*known, part));
    let spent = spent.map(|(spent, _)| spent);
    if spent == Some(&TimeClass::Computing) && is_of_probe(stall.incident, request.path, part) {
        return (probe(part), LIKELY);
    }
    let path = request.path;
    if let (Some(pause), Some(operation)) = (path.main_pause(), path.pause_operation()) {
        return machine_pause(stall, pause, operation);
    }
    let (did, sure) = match spent {
        Some(TimeClass::Sleep) => ("slept on a timer", CONFIRMED),
        Some(TimeClass::TimeLimit) => ("waited until its own time limit", LIKELY),
        Some(TimeClass::Computing) => ("computed", CONFIRMED),
        Some(TimeClass::Lock) => ("waited for a lock", LIKELY),
        _ => ("waited for an event", POSSIBLE),
    };
    let who = named(stall, &part.task);
    let Some(link) = leaves_service(stall, request, part) else {
        let finding = Finding::new(Severity::Warning, Area::Service, format!("{who} {did}"))
            .with_impact("The service did not answer, although nothing on this machine delayed it.")
            .with_remedy(see(&part.task));
        return (finding, sure);
    };
    let (waiter, other) = (named(stall, &link.waiter), named(stall, &link.other));
    let then = if link.other.tid == part.task.tid {
        format!("which {did}")
    } else {
        format!("behind which {who} {did}")
    };
    let wait = link.wait.label();
    let chain = format!("{waiter} waited for {other} ({wait}), {then}");
    let headline = format!("{other} kept {waiter} waiting");
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_evidence("wait", Quantity::Text(chain), "critical path")
        .with_impact("The service is blocked on another program.")
        .with_remedy(see(&link.other));
    (finding, sure)
}

/// A Java virtual machine collected garbage, or stopped its threads for something else.
fn machine_pause(
    stall: &StallWindow<'_>,
    pause: &MachinePause,
    operation: MachineOperation,
) -> (Finding, u8) {
    let who = named(stall, &pause.process);
    let pid = pause.process.pid().map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    let (headline, sure, remedy) = match operation {
        MachineOperation::Collection => (
            format!("{who} collected garbage"),
            CONFIRMED,
            manual(
                "see how long collections take; give the heap more memory, or make less garbage",
                &format!("jstat -gcutil {pid} 1s"),
            ),
        ),
        MachineOperation::Safepoint => (
            format!("{who} stopped its threads, probably to collect garbage"),
            LIKELY,
            manual(
                "see how long collections take; of other operations, log the safepoints",
                &format!("jstat -gcutil {pid} 1s; jcmd {pid} VM.log what=safepoint"),
            ),
        ),
    };
    let time = Quantity::Milliseconds(pause.total_ns as f64 / 1e6);
    let finding = Finding::new(Severity::Warning, Area::Service, headline)
        .with_evidence("work of the virtual machine's own threads", time, "critical path")
        .with_impact("Threads of the program wait until the virtual machine lets them go on.")
        .with_remedy(remedy);
    (finding, sure)
}

/// The thread that asked had a CPU all the time: the service may have answered long before.
fn probe(part: &PathPart) -> Finding {
    let who = Quantity::Text(format!("{} ({})", part.task.name, part.task.tid));
    Finding::new(Severity::Warning, Area::Cpus, "the probe itself was slow, not the service")
        .with_evidence("had a CPU", who, "critical path")
        .with_impact("A virtual CPU that the hypervisor does not run looks busy from inside.")
        .with_remedy(manual("see whether the hypervisor takes CPU time (st)", "vmstat 1"))
}

fn see(task: &PathTask) -> Remedy {
    manual("see what the program does", &why(task))
}

/// The command that explains what a task does; the number of one outside of this PID namespace is another's here.
pub(crate) fn why(task: &PathTask) -> String {
    match task.pid() {
        Some(pid) => format!("memwright why --pid {pid}"),
        None => {
            "memwright why --pid PID    # on the host: it is outside this PID namespace".to_owned()
        }
    }
}

/// The link at which the chain of waits leaves the service, if the task at its end is another program's.
fn leaves_service<'a>(
    stall: &StallWindow<'a>,
    request: &RequestTime<'a>,
    part: &PathPart,
) -> Option<&'a WaitLink> {
    let service = stall.incident.service.as_ref()?;
    let is_of_service = |task: &PathTask| {
        let in_group = service.cgroup.as_deref().is_some_and(|cgroup| is_task_within(task, cgroup));
        let is_known = |pid| service.processes.iter().any(|process| process.pid == pid);
        in_group || is_known(task.process) || is_known(task.tid)
    };
    if is_of_service(&part.task) {
        return None;
    }
    let chain = &request.path.chain;
    chain.iter().rev().find(|link| is_of_service(&link.waiter) && !is_of_service(&link.other))
}

/// The disk that was busiest during the stall, by name, of those that the task's cgroup used.
pub(crate) fn disk_of(stall: &StallWindow<'_>, task: &PathTask) -> String {
    let name = busy_disk_of(stall, task);
    name.map_or_else(|| "the disk".to_owned(), |name| format!("the disk {name}"))
}

/// Its name, where it was busy for half of the stall.
pub(crate) fn busy_disk_of(stall: &StallWindow<'_>, task: &PathTask) -> Option<String> {
    const BUSY_PERCENT: f64 = 50.0;
    let used = disks_of(stall, task);
    let is_used = |name: &str| used.is_empty() || used.contains(&name);
    let busiest = busiest(stall, is_used).filter(|(_, share)| *share >= BUSY_PERCENT);
    busiest.map(|(name, _)| name)
}

/// The busiest disk, in percent of the stall.
pub(crate) fn busiest_disk(stall: &StallWindow<'_>) -> Option<(String, f64)> {
    busiest(stall, |_| true)
}

fn busiest(stall: &StallWindow<'_>, is_wanted: impl Fn(&str) -> bool) -> Option<(String, f64)> {
    let table = &stall.incident.table;
    let share = |column: &mw_model::Column| {
        let metric = column.metric();
        let Metric::Disk(name, DiskMetric::Busy) = &metric else { return None };
        if !is_wanted(name) {
            return None;
        }
        let rates: Vec<f64> = stall.during(table.rates_per_s(&metric)?).flatten().collect();
        let ms_per_s = rates.iter().sum::<f64>() / rates.len() as f64;
        ms_per_s.is_finite().then(|| (name.to_string(), (ms_per_s / 10.0).min(100.0)))
    };
    table.columns.iter().filter_map(share).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// A task of a path for a headline. The recorder's own threads wait as others do, and are nobody's service.
pub(crate) fn named(stall: &StallWindow<'_>, task: &PathTask) -> String {
    if stall.is_recorder(task) {
        let asked = stall.incident.path.as_ref().map(|path| path.task.tid);
        let who = match stall.incident.trigger.kind {
            _ if asked != Some(task.tid) => "a thread of memwright's own",
            TriggerKind::Probe => "the probe",
            _ => "the canary",
        };
        return who.to_owned();
    }
    task.label()
}

pub(crate) fn manual(summary: &str, command: &str) -> Remedy {
    Remedy::named(summary, vec![Step::manual(command)])
}
