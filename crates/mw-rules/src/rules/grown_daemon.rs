//! # grown-daemon
//!
//! A daemon of the system, or one worker of many, has far more memory than it needs.
//!
//! ## What it finds
//! A process of a system user whose program usually has tens of MiB (systemd as process 1, journald, udevd, polkitd, rsyslogd,
//! NetworkManager, snapd, …) and now has 512 MiB of anonymous memory or more; or a quarter of the memory of a small machine,
//! and 32 MiB. kubelet, containerd, CRI-O and Docker, which have hundreds of MiB on a node with many pods, from 4 GiB on, and so the FUSE clients of GlusterFS and Ceph.
//!
//! A process that has a fifth of memory, and 16 times as much as each of at least three others that the same server of their
//! name has started: one session or worker that has grown.
//!
//! ## Why it hurts
//! It leaks, or keeps what it has no use for. Nobody looks for memory there; programs that need it are swapped out or
//! killed, and the OOM killer spares many of these daemons (`OOMScoreAdjust`).
//!
//! ## What it looks like
//! `top`, sorted by memory, has a daemon beside the databases. Its memory increases for days, or since its last update.
//!
//! ## How to fix it
//! Restart the daemon: that frees the memory. Then look for an update of its package, and bound it meanwhile (`MemoryMax=`
//! of its unit, where systemd starts it again). Of a worker find out what it does, and have its server end it: PostgreSQL ends
//! all sessions where one of them is killed with SIGKILL. A bus daemon and a login manager are not restarted on a machine in use:
//! plan a reboot.
//!
//! ## Threshold
//! 512 MiB and 3% of memory are a note: a large directory, many devices or a flood of messages may need as much. 10% of
//! memory, with less than 512 MiB a quarter, is a warning. For a worker a fifth of memory is a note, since a large query may need it, and 40% are a warning. Any user can give a process such a name, so that those of other users do not count.
//!
//! ## References
//! systemd.exec(5), `OOMScoreAdjust=`; systemd.resource-control(5), `MemoryMax=`.

use crate::share::percent;
use mw_model::{
    Area, Finding, Missing, Process, Quantity, Remedy, Severity, Step, Window, derived,
    format_bytes,
};

const LEAST_BYTES: u64 = 512 << 20;
const NOTE_PERCENT: f64 = 3.0;
const WARNING_PERCENT: f64 = 10.0;

/// Daemons of a container host, and what such a daemon has at least that has grown.
const HOST_AGENTS: &[&str] = &["containerd", "crio", "dockerd", "kubelet"];
const LEAST_OF_AGENT_BYTES: u64 = 4 << 30;

/// Clients of file systems in user space that hold inodes and notices for the kernel, and map no large files.
const FUSE_CLIENTS: &[&str] = &["ceph-fuse", "glusterfs"];

/// The like for a small machine.
const SMALL_LEAST_BYTES: u64 = 32 << 20;
const SMALL_PERCENT: f64 = 25.0;

/// Shares of memory of a worker, how many times the memory of the next one it has, and its fellows.
const WORKER_NOTE_PERCENT: f64 = 20.0;
const WORKER_WARNING_PERCENT: f64 = 40.0;
const WORKER_TIMES: u64 = 16;
const LEAST_FELLOWS: usize = 3;

/// System users have lower ids (login.defs(5), `SYS_UID_MAX`).
const FIRST_USER: u32 = 1000;

/// The service manager; another process of this name is that of a user.
const FIRST_PROCESS: &str = "systemd";

/// Programs by the name that the kernel has of them, 15 bytes at most, and their units; none where a restart ends sessions.
const DAEMONS: &[(&str, Option<&str>)] = &[
    ("ModemManager", Some("ModemManager")),
    ("NetworkManager", Some("NetworkManager")),
    ("accounts-daemon", Some("accounts-daemon")),
    ("acpid", Some("acpid")),
    ("atd", Some("atd")),
    ("auditd", Some("auditd")),
    ("avahi-daemon", Some("avahi-daemon")),
    ("bluetoothd", Some("bluetooth")),
    ("chronyd", Some("chronyd")),
    ("colord", Some("colord")),
    ("cron", Some("cron")),
    ("crond", Some("crond")),
    ("cupsd", Some("cups")),
    ("dbus-broker", None),
    ("dbus-daemon", None),
    ("fwupd", Some("fwupd")),
    ("gssproxy", Some("gssproxy")),
    ("irqbalance", Some("irqbalance")),
    ("iscsid", Some("iscsid")),
    ("lldpd", Some("lldpd")),
    ("mcelog", Some("mcelog")),
    ("multipathd", Some("multipathd")),
    ("networkd-dispat", Some("networkd-dispatcher")),
    ("nscd", Some("nscd")),
    ("nslcd", Some("nslcd")),
    ("ntpd", Some("ntpd")),
    ("packagekitd", Some("packagekit")),
    ("polkitd", Some("polkit")),
    ("rasdaemon", Some("rasdaemon")),
    ("rngd", Some("rngd")),
    ("rpc.gssd", Some("rpc-gssd")),
    ("rpc.idmapd", Some("nfs-idmapd")),
    ("rpc.statd", Some("rpc-statd")),
    ("rpcbind", Some("rpcbind")),
    ("rsyslogd", Some("rsyslog")),
    ("smartd", Some("smartd")),
    ("snapd", Some("snapd")),
    ("snmpd", Some("snmpd")),
    ("sssd_be", Some("sssd")),
    ("sssd_nss", Some("sssd")),
    (FIRST_PROCESS, None),
    ("systemd-journal", Some("systemd-journald")),
    ("systemd-logind", None),
    ("systemd-network", Some("systemd-networkd")),
    ("systemd-oomd", Some("systemd-oomd")),
    ("systemd-resolve", Some("systemd-resolved")),
    ("systemd-timesyn", Some("systemd-timesyncd")),
    ("systemd-udevd", Some("systemd-udevd")),
    ("tuned", Some("tuned")),
    ("udisksd", Some("udisks2")),
    ("upowerd", Some("upower")),
    ("wpa_supplicant", Some("wpa_supplicant")),
    ("zabbix_agentd", Some("zabbix-agent")),
];

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let processes = snapshot.processes.required()?;
    let memory = derived::memory_bytes(&snapshot.sample)?;
    let mut found: Vec<Finding> =
        processes.list.iter().filter_map(|process| finding(process, memory)).collect();
    found.extend(processes.list.iter().find_map(|one| grown_worker(one, &processes.list, memory)));
    if found.is_empty() {
        processes.whole()?;
    }
    Ok(found)
}

fn finding(process: &Process, memory: u64) -> Option<Finding> {
    let status = &process.status;
    let is_agent = HOST_AGENTS.contains(&status.name.as_str());
    let is_client = FUSE_CLIENTS.contains(&status.name.as_str());
    let is_agent = is_agent || is_client;
    let daemon = DAEMONS.iter().find(|(name, _)| *name == status.name);
    let unit = daemon.map(|(_, unit)| *unit).or_else(|| is_agent.then_some(None))?;
    let (pid, uid) = (status.pid?, status.uid?);
    if status.name == FIRST_PROCESS && pid != 1 {
        return None;
    }
    // Before 4.5 the kernel does not tell anonymous memory from mapped files, of which a daemon may have many: its journal.
    let bytes = if is_client { status.resident_bytes() } else { status.rss_anon_bytes }?;
    let share = percent(bytes, memory);
    let least = if is_agent { LEAST_OF_AGENT_BYTES } else { LEAST_BYTES };
    let is_large = bytes >= least && share >= NOTE_PERCENT;
    let is_most = !is_agent && bytes >= SMALL_LEAST_BYTES && share >= SMALL_PERCENT;
    if uid >= FIRST_USER || !(is_large || is_most) {
        return None;
    }
    let severity = if share >= WARNING_PERCENT { Severity::Warning } else { Severity::Note };
    let usual = match (is_agent, is_large) {
        (true, _) => "hundreds of MiB",
        (false, true) => "tens of MiB",
        (false, false) => "a few MiB",
    };
    let headline = format!(
        "{} ({pid}) has {}; a daemon like it usually has {usual}",
        status.name,
        format_bytes(bytes)
    );
    let remedy = match unit {
        None if status.name == FIRST_PROCESS => Remedy::named(
            "re-execute it, which frees its memory, and look for an update: it may leak",
            vec![Step::manual("systemctl daemon-reexec")],
        ),
        Some(unit) => Remedy::named(
            "restart it, which frees its memory, and look for an update: it may leak",
            vec![Step::manual(format!("systemctl restart {unit}"))],
        ),
        None if is_client => Remedy::named(
            "unmount and mount again, which frees it; bound its caches and queues (mount options), and look for an update: it may leak",
            vec![Step::manual("findmnt -t fuse.glusterfs,fuse.ceph-fuse,fuse.ceph")],
        ),
        None if is_agent => Remedy::named(
            "see its log for what grows (probes and logs without end, many events), and look for an update: it may leak",
            vec![Step::manual(format!("journalctl -n 100 _PID={pid}"))],
        ),
        None => Remedy::named(
            "look for an update, since it may leak, and plan a reboot: its restart ends sessions",
            vec![Step::manual("systemctl reboot")],
        ),
    };
    let counter = if status.rss_anon_bytes.is_some() { "RssAnon" } else { "VmRSS" };
    let finding = Finding::new(severity, Area::Memory, headline)
        .with_evidence(counter, Quantity::Bytes(bytes), format!("/proc/{pid}/status"))
        .with_evidence("share of memory", Quantity::Percent(share), "/proc/meminfo")
        .with_impact("Other programs lack this memory, and the OOM killer spares many daemons.")
        .with_remedy(remedy);
    Some(finding)
}

/// A process that has outgrown the others that its server has started.
fn grown_worker(worker: &Process, processes: &[Process], memory: u64) -> Option<Finding> {
    let (status, bytes) = (&worker.status, worker.status.rss_anon_bytes?);
    let share = percent(bytes, memory);
    if share < WORKER_NOTE_PERCENT {
        return None;
    }
    let (pid, parent) = (status.pid?, status.ppid?);
    let is_server =
        |other: &Process| other.status.pid == Some(parent) && other.status.name == status.name;
    let is_fellow = |other: &&Process| {
        let other = &other.status;
        other.ppid == Some(parent) && other.name == status.name && other.pid != Some(pid)
    };
    let fellows = processes.iter().filter(is_fellow);
    let fellows: Vec<u64> = fellows.filter_map(|fellow| fellow.status.rss_anon_bytes).collect();
    let next = *fellows.iter().max()?;
    let is_alone = next.saturating_mul(WORKER_TIMES) <= bytes && fellows.len() >= LEAST_FELLOWS;
    if !is_alone || !processes.iter().any(is_server) {
        return None;
    }
    let is_most = share >= WORKER_WARNING_PERCENT;
    let severity = if is_most { Severity::Warning } else { Severity::Note };
    let headline = format!(
        "{} ({pid}) has {}; each of the {} others of its server has at most {}",
        status.name,
        format_bytes(bytes),
        fellows.len(),
        format_bytes(next)
    );
    let finding = Finding::new(severity, Area::Memory, headline)
        .with_evidence("RssAnon", Quantity::Bytes(bytes), format!("/proc/{pid}/status"))
        .with_evidence("share of memory", Quantity::Percent(share), "/proc/meminfo")
        .with_evidence("of the next one", Quantity::Bytes(next), "/proc/PID/status")
        .with_impact("One session or worker uses the memory that all of them share: it leaks, or its work is large.")
        .with_remedy(Remedy::named(
            "find out what it does, and have its server end it, never SIGKILL",
            worker_steps(worker, pid),
        ));
    Some(finding)
}

/// A server in a container knows its sessions by their numbers there.
fn worker_steps(worker: &Process, pid: u32) -> Vec<Step> {
    let mut steps = vec![Step::manual(format!("ps -o pid,etime,rss,args -p {pid}"))];
    if worker.status.name == "postgres" {
        let inner = worker.status.inner_pid.unwrap_or(pid);
        steps.extend([
            Step::manual(format!(
                "in its cluster: SELECT backend_type, state, query FROM pg_stat_activity WHERE pid = {inner}"
            )),
            Step::manual(format!("SELECT pg_cancel_backend({inner}), or pg_terminate_backend({inner})")),
        ]);
    }
    steps
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Processes, Reading, Snapshot};
    use mw_proc::meminfo::Meminfo;
    use mw_proc::status::Status;

    fn found(name: &str, uid: u32, mib: u64) -> Vec<(Severity, String)> {
        found_within(16 << 10, name, uid, mib)
    }

    fn found_within(memory_mib: u64, name: &str, uid: u32, mib: u64) -> Vec<(Severity, String)> {
        let mut snapshot = Snapshot::default();
        let meminfo = Meminfo { mem_total_bytes: Some(memory_mib << 20), ..Meminfo::default() };
        snapshot.sample.meminfo = Reading::Value(meminfo);
        let status = Status {
            name: name.to_owned(),
            pid: Some(412),
            uid: Some(uid),
            rss_anon_bytes: Some(mib << 20),
            ..Status::default()
        };
        let list = vec![Process { status, ..Process::default() }];
        snapshot.processes = Reading::Value(Processes { list, ..Processes::default() });
        let found = hazard(&Window::new(snapshot)).unwrap();
        found.into_iter().map(|finding| (finding.severity, finding.headline)).collect()
    }

    /// Promise (Findings): A daemon of the system that has grown far beyond what it needs is named with its memory; a
    /// process of a user that has such a name is not.
    #[test]
    fn a_daemon_that_has_grown_is_named() {
        let headline =
            "systemd-journal (412) has 5.7 GiB; a daemon like it usually has tens of MiB";
        let journal = |uid, mib| found("systemd-journal", uid, mib);
        assert_eq!(journal(0, 5847), [(Severity::Warning, headline.to_owned())]);
        assert_eq!(journal(0, 600)[0].0, Severity::Note);
        assert_eq!(journal(0, 500), [], "a flood of messages");
        assert_eq!(journal(1000, 5847), [], "a user's program of that name");
        assert_eq!(found("mysqld", 27, 5847), [], "a database may have as much");
        let router = found_within(118, "snmpd", 0, 60);
        assert_eq!(router[0].0, Severity::Warning);
        assert!(router[0].1.ends_with("a daemon like it usually has a few MiB"), "{router:?}");
        assert_eq!(found_within(118, "snmpd", 0, 25), []);
        assert_eq!(found("kubelet", 0, 2000), [], "of many pods");
        assert_eq!(found("kubelet", 0, 9000)[0].0, Severity::Warning);
        assert_eq!(found_within(512, "kubelet", 0, 200), []);
        assert_eq!(found("glusterfs", 0, 2000), [], "its caches");
        assert_eq!(found("glusterfs", 0, 9000)[0].0, Severity::Warning);
    }

    /// Promise (Findings): One worker of a server that has grown far beyond the others is named; several large ones, and a
    /// process without others, are not.
    #[test]
    fn a_worker_that_has_grown_is_named() {
        let worker = |pid: u32, mib: u64| {
            let status = Status {
                name: "postgres".to_owned(),
                pid: Some(pid),
                ppid: Some(612),
                rss_anon_bytes: Some(mib << 20),
                ..Status::default()
            };
            Process { status, ..Process::default() }
        };
        let found_of = |server: &str, mib: &[u64]| {
            let mut list: Vec<Process> =
                (700..).zip(mib).map(|(pid, mib)| worker(pid, *mib)).collect();
            let mut first = worker(612, 10);
            server.clone_into(&mut first.status.name);
            first.status.ppid = Some(1);
            list.push(first);
            let found = list.iter().find_map(|one| grown_worker(one, &list, 16 << 30));
            found.map(|finding| (finding.severity, finding.headline))
        };
        let found = |mib: &[u64]| found_of("postgres", mib);
        let headline =
            "postgres (702) has 9 GiB; each of the 3 others of its server has at most 40 MiB";
        assert_eq!(found_of("slurmstepd", &[20, 40, 9216, 30]), None, "no server of its name");
        assert_eq!(found(&[20, 40, 9216, 30]), Some((Severity::Warning, headline.to_owned())));
        assert_eq!(found(&[20, 40, 4096, 30]).unwrap().0, Severity::Note);
        assert_eq!(found(&[20, 900, 9216, 30]), None, "another is large");
        assert_eq!(found(&[20, 40, 9216]), None, "few others");
        assert_eq!(found(&[20, 40, 1024, 30]), None, "little of memory");
    }

    #[test]
    fn names_are_as_the_kernel_has_them() {
        assert!(DAEMONS.iter().all(|(name, _)| name.len() <= 15));
        assert!(DAEMONS.is_sorted());
    }
}
