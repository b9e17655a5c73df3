use super::*;
use mw_kernel_log::KillingProgram;
use mw_kernel_log::kill_notice;
use mw_model::ServiceProcess;

const AT: u64 = 1_000_000;
const DB: &str = "/system.slice/db.service";

fn party(pid: u32, name: &str, uid: u32, cgroup: &str) -> KillParty {
    let unit = cgroup.rsplit('/').find(|part| part.ends_with(".service")).map(str::to_owned);
    KillParty {
        process: ServiceProcess { pid, name: name.to_owned() },
        uid: Some(uid),
        unit,
        cgroup: Some(cgroup.to_owned()),
        parent: None,
    }
}

fn sent_by(sender: KillParty) -> SentSignal {
    let victim = party(812, "postgres", 105, DB);
    SentSignal { unix_ms: AT, victim, sender: Some(sender), ..SentSignal::default() }
}

fn of_kernel(sender: KillParty) -> SentSignal {
    SentSignal { is_of_kernel: true, ..sent_by(sender) }
}

fn line(at: i64, program: KillingProgram, text: &str) -> KillLogLine {
    let notice = kill_notice(program, text).expect(text);
    let unix_ms = AT.saturating_add_signed(at);
    KillLogLine { unix_ms, program, notice, text: text.to_owned() }
}

#[track_caller]
fn check(sent: SentSignal, lines: &[KillLogLine], killer: Killer, reason: KillReason) {
    let kill = explain_signal(sent, &[], lines);
    assert_eq!((&kill.killer, &kill.reason), (&killer, &reason), "{kill:?}");
}

fn daemon(name: &str) -> Killer {
    Killer::OomDaemon(name.to_owned())
}

fn unit() -> String {
    "db.service".to_owned()
}

/// Promise (Kills): A signal of the kernel is the OOM killer's only where the kernel says so.
#[test]
fn a_signal_of_the_kernel_is_decided_by_evidence() {
    let other = || party(9, "sh", 0, "/");
    check(of_kernel(other()), &[], Killer::Kernel, KillReason::Unknown);
    let marked = SentSignal { is_oom_victim: true, ..of_kernel(other()) };
    check(marked, &[], Killer::OomKiller, KillReason::OutOfMemory(OomShortage::Unknown));
    let victim = |pid, at| OomVictim {
        process: ServiceProcess { pid, name: "postgres".to_owned() },
        shortage: OomShortage::Cpuset,
        first_unix_ms: at,
        last_unix_ms: at,
        ..OomVictim::default()
    };
    for (oom, sent, killer) in [
        (victim(812, AT + 500), of_kernel(other()), Killer::OomKiller),
        (victim(813, AT), of_kernel(other()), Killer::Kernel),
        (victim(812, AT - 60_000), of_kernel(other()), Killer::Kernel),
        // kill(1), of a process that the OOM killer killed as well.
        (victim(812, AT), sent_by(other()), Killer::Process),
    ] {
        assert_eq!(explain_signal(sent, std::slice::from_ref(&oom), &[]).killer, killer, "{oom:?}");
    }
    let own = || party(812, "postgres", 105, DB);
    let limited = |sender| SentSignal { reached_cpu_limit_s: Some(7), ..of_kernel(sender) };
    check(limited(own()), &[], Killer::Kernel, KillReason::CpuTimeLimit(7));
    check(limited(other()), &[], Killer::Kernel, KillReason::Unknown);
    let init = SentSignal { is_of_namespace_init: true, ..of_kernel(other()) };
    check(init, &[], Killer::Kernel, KillReason::NamespaceEnded);
}

/// Promise (Kills): A process is taken for a daemon only in the daemon's unit, or where root runs it.
#[test]
fn a_name_alone_makes_no_daemon() {
    let of_user = "/user.slice/user-1000.slice/session-3.scope";
    for (sender, killer) in [
        (
            party(7, "systemd-oomd", 990, "/system.slice/systemd-oomd.service"),
            daemon("systemd-oomd"),
        ),
        (party(7, "earlyoom", 0, of_user), daemon("earlyoom")),
        (party(7, "earlyoom", 64_000, "/system.slice/earlyoom.service"), daemon("earlyoom")),
        (party(7, "earlyoom", 1000, of_user), Killer::Process),
        (
            party(
                7,
                "earlyoom",
                1000,
                "/user.slice/user-1000.slice/user@1000.service/earlyoom.service",
            ),
            Killer::Process,
        ),
        (party(1, "systemd", 0, "/init.scope"), Killer::Systemd),
        (
            party(900, "systemd", 1000, "/user.slice/user-1000.slice/user@1000.service/init.scope"),
            Killer::Systemd,
        ),
        (party(900, "systemd", 1000, of_user), Killer::Process),
        (party(7, "runc", 1000, of_user), Killer::Process),
        (party(7, "bash", 0, of_user), Killer::Process),
    ] {
        check(sent_by(sender), &[], killer, KillReason::Unknown);
    }
    let runc = party(7, "runc", 0, "/system.slice/docker.service");
    check(
        sent_by(runc),
        &[],
        Killer::ContainerRuntime("runc".to_owned()),
        KillReason::ContainerRequest,
    );
    check(sent_by(party(7, "", 0, "/")), &[], Killer::Unknown, KillReason::Unknown);
}

#[test]
fn daemons_of_memory_have_their_reason() {
    let oomd = || sent_by(party(7, "systemd-oomd", 990, "/system.slice/systemd-oomd.service"));
    let killed = |path: &str| {
        let text = format!(
            "Killed {path} due to memory pressure for /system.slice being 70.24% > 50.00% for > 20s with reclaim activity"
        );
        line(4, KillingProgram::SystemdOomd, &text)
    };
    let pressure = KillReason::MemoryPressure("/system.slice".to_owned());
    check(oomd(), &[killed(DB)], daemon("systemd-oomd"), pressure);
    check(
        oomd(),
        &[killed("/system.slice/other.service")],
        daemon("systemd-oomd"),
        KillReason::Unknown,
    );
    let early = || sent_by(party(7, "earlyoom", 0, "/system.slice/earlyoom.service"));
    let sending = |pid: u32| {
        let text = format!(
            "sending SIGKILL to process {pid} uid 105 \"postgres\": badness 8, VmRSS 1 MiB"
        );
        line(-1, KillingProgram::Earlyoom, &text)
    };
    check(early(), &[sending(812)], daemon("earlyoom"), KillReason::LowMemory);
    check(early(), &[sending(813)], daemon("earlyoom"), KillReason::Unknown);
    // The line of another daemon is none of its.
    let by_other = KillLogLine { program: KillingProgram::Nohang, ..sending(812) };
    check(early(), &[by_other], daemon("earlyoom"), KillReason::Unknown);
}

#[test]
fn systemd_has_its_reason() {
    use KillingProgram::Systemd;
    let sent = || sent_by(party(1, "systemd", 0, "/init.scope"));
    let killing =
        || line(0, Systemd, "db.service: Killing process 812 (postgres) with signal SIGKILL.");
    check(sent(), &[killing()], Killer::Systemd, KillReason::UnitEnded(unit()));
    for (text, reason) in [
        ("db.service: State 'stop-sigterm' timed out. Killing.", KillReason::StopTimeout(unit())),
        ("db.service: Watchdog timeout (limit 30s)!", KillReason::Watchdog(unit())),
        ("db.service: start operation timed out. Terminating.", KillReason::StartTimeout(unit())),
        (
            "db.service: A process of this unit has been killed by the OOM killer.",
            KillReason::OomPolicy(unit()),
        ),
    ] {
        check(sent(), &[line(-1, Systemd, text), killing()], Killer::Systemd, reason.clone());
        check(sent(), &[line(-1, Systemd, text)], Killer::Systemd, reason);
        let other = text.replace("db.service", "other.service");
        let lines = [line(-1, Systemd, &other), killing()];
        check(sent(), &lines, Killer::Systemd, KillReason::UnitEnded(unit()));
    }
    let asked = "db.service: Sent signal SIGKILL to main process 812 (postgres) on client request.";
    check(sent(), &[line(0, Systemd, asked)], Killer::Systemd, KillReason::ClientRequest(unit()));
    // Of an hour before.
    let old = line(-3_600_000, Systemd, "db.service: Watchdog timeout (limit 30s)!");
    check(sent(), &[old], Killer::Systemd, KillReason::Unknown);
}

#[test]
fn containers_have_their_reason() {
    use KillingProgram::{ContainerRuntime, Kubelet};
    const ID: &str = "0f9e8d7c6b5a4f3e2d1c";
    let runc = || party(7, "runc", 0, "/system.slice/containerd.service");
    let victim =
        party(812, "web", 0, &format!("/kubepods.slice/pod1.slice/cri-containerd-{ID}.scope"));
    let sent = || SentSignal { victim: victim.clone(), ..sent_by(runc()) };
    let runtime = || Killer::ContainerRuntime("runc".to_owned());
    let force = format!(
        "level=info msg=\"Container failed to exit within 10s of signal 15 - using the force\" container={ID}"
    );
    let forced = line(-20, ContainerRuntime, &force);
    check(sent(), std::slice::from_ref(&forced), runtime(), KillReason::ContainerStopTimeout);
    check(sent_by(runc()), &[forced], runtime(), KillReason::ContainerRequest);
    let short = line(-40_000, Kubelet, "\"must evict pod(s) to reclaim\" resourceName=\"memory\"");
    let end = format!(
        "\"Killing container with a grace period\" pod=\"a/web\" containerID=\"containerd://{ID}\""
    );
    let end = line(-30_000, Kubelet, &end);
    let evicted =
        |pod: &str| line(900, Kubelet, &format!("\"pod is evicted successfully\" pod=\"{pod}\""));
    let lines = [short.clone(), end.clone(), evicted("a/web")];
    check(sent(), &lines, Killer::Kubelet, KillReason::Eviction("memory".to_owned()));
    check(sent(), &[short, end, evicted("a/other")], Killer::Kubelet, KillReason::Unknown);
}

#[test]
fn lines_alone_tell_of_kills() {
    let lines = [
        line(
            0,
            KillingProgram::Earlyoom,
            "low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%",
        ),
        line(
            1,
            KillingProgram::Earlyoom,
            "sending SIGTERM to process 7 uid 1000 \"tail\": badness 8, VmRSS 1 MiB",
        ),
        line(2, KillingProgram::Systemd, "db.service: Watchdog timeout (limit 30s)!"),
        line(
            3,
            KillingProgram::Systemd,
            "db.service: Killing process 812 (postgres) with signal SIGABRT.",
        ),
    ];
    let kills = kills_of_lines(&lines);
    let told: Vec<String> = kills.iter().map(|kill| kill.sentence("1:02")).collect();
    assert_eq!(
        told,
        [
            "tail (pid 7) was sent SIGTERM by earlyoom at 1:02: available memory was below its limit",
            "postgres (pid 812) was sent SIGABRT by systemd at 1:02: db.service did not report to its watchdog in time",
        ]
    );
}
