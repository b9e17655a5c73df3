//! Lines by which cluster software says that it was late with a heartbeat, or that a heartbeat did not come.

use mw_model::HeartbeatKind::{self, Late, Unheard};

/// A line that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) software: String,
    pub(super) says: HeartbeatKind,
    /// Its parts, in this order.
    parts: Vec<String>,
}

/// Software, what the line says, and the line, with `*` for what varies. Found in the sources of corosync 3.1
/// (exec/main.c, totemsrp.c), sbd 1.5 (sbd-inquisitor.c), etcd 3.4 to 3.7 (server/etcdserver/raft.go), Patroni 3 and 4
/// (patroni/__main__.py), Redis 7 (sentinel.c), ZooKeeper 3.8 and Hadoop 3 (JvmPauseMonitor.java), keepalived 2
/// (scheduler.c), Galera 3 and 4 (gcomm/src/evs_proto.cpp), Kubernetes 1.37 (component-helpers, lease controller), memberlist
/// and raft of HashiCorp (state.go, raft.go), Kafka 3 (AbstractCoordinator.java); those of Pacemaker 2.1 were seen in a
/// starved cluster (docs/cluster.md).
const LINES: &[(&str, HeartbeatKind, &str)] = &[
    ("corosync", Late, "main process was not scheduled"),
    ("corosync", Late, "Process pause detected for"),
    ("corosync", Unheard, "Token has not been received in"),
    ("corosync", Unheard, "A processor failed, forming new configuration"),
    ("Pacemaker", Late, "Result of monitor operation for*: Timed Out after"),
    ("Pacemaker", Late, "is unresponsive to ipc after*have it killed"),
    ("Pacemaker", Unheard, "Our peer on the DC (*) is dead"),
    ("sbd", Late, "Latency: No liveness for"),
    ("etcd", Late, "leader failed to send out heartbeat on time"),
    ("Patroni", Late, "Loop time exceeded, rescheduling immediately"),
    ("Redis Sentinel", Late, "+tilt #tilt mode entered"),
    ("JVM", Late, "Detected pause in JVM or host machine"),
    ("keepalived", Late, "A thread timer expired"),
    ("Galera", Late, "WSREP: last inactive check more than"),
    ("Galera", Unheard, "WSREP: *suspecting node"),
    ("kubelet", Late, "ailed to update*node lease"),
    ("kubelet", Late, "\"Failed to update lease\""),
    ("Consul", Late, "memberlist: Refuting a suspect message"),
    ("Consul", Unheard, "ailed to contact quorum of nodes, stepping down"),
    ("Kafka", Late, "consumer poll timeout has expired"),
];

/// All that are shipped.
pub(super) fn shipped() -> Vec<Known> {
    LINES.iter().map(|(software, says, line)| known(software, *says, line)).collect()
}

/// One of the user's: `NAME=LINE`.
///
/// # Errors
/// It has no name or no line, in words.
pub(super) fn parse(text: &str) -> Result<Known, String> {
    let wrong = || format!("invalid pattern '{text}' (use NAME=LINE, with * for what varies)");
    let (name, line) = text.split_once('=').ok_or_else(wrong)?;
    let found = known(name.trim(), Late, line);
    if name.trim().is_empty() || found.parts.is_empty() { Err(wrong()) } else { Ok(found) }
}

fn known(software: &str, says: HeartbeatKind, line: &str) -> Known {
    let parts = line.split('*').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    Known { software: software.to_owned(), says, parts }
}

impl Known {
    pub(super) fn is_in(&self, line: &str) -> bool {
        let mut rest = line;
        self.parts.iter().all(|part| match rest.split_once(part.as_str()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }

    /// As a regular expression of PCRE2.
    pub(super) fn expression(&self) -> String {
        let quoted = |part: &String| {
            let quote = |c: char| match c {
                c if c.is_ascii_alphanumeric() || c == ' ' || !c.is_ascii() => c.to_string(),
                c => format!("\\{c}"),
            };
            part.chars().map(quote).collect::<String>()
        };
        self.parts.iter().map(quoted).collect::<Vec<_>>().join(".*")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as people have posted them.
    const POSTED: &[(&str, &str)] = &[
        (
            "corosync",
            "node2 corosync[38932]: [MAIN ] Corosync main process was not scheduled (@1681222048760) for 7917.4106 ms (threshold is 800.0000 ms). Consider token timeout increase.",
        ),
        ("corosync", "corosync[1837]:  [TOTEM ] A processor failed, forming new configuration."),
        (
            "Pacemaker",
            "pacemaker-controld[272]:  error: Result of monitor operation for address on n1: Timed Out after 20s (Resource agent did not complete within 20s)",
        ),
        (
            "Pacemaker",
            "pacemakerd[259]:  error: pacemaker-controld[278] is unresponsive to ipc after 5 tries but we found the pid so have it killed that we can restart",
        ),
        ("Pacemaker", "pacemaker-controld[259]:  notice: Our peer on the DC (n1) is dead"),
        (
            "sbd",
            "sbd[912]: warning: inquisitor_child: Latency: No liveness for 4s exceeds watchdog warning timeout of 3s (healthy servants: 1)",
        ),
        (
            "etcd",
            r#"{"level":"warn","ts":"2022-08-30T09:17:30.387Z","caller":"etcdserver/raft.go:369","msg":"leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"}"#,
        ),
        (
            "Patroni",
            "2024-09-02 15:10:06,674 WARNING: Loop time exceeded, rescheduling immediately.",
        ),
        ("Redis Sentinel", "2311:X 25 Nov 2026 10:02:14.123 # +tilt #tilt mode entered"),
        (
            "JVM",
            "2017-05-09 17:45:07,683 WARN  [JvmPauseMonitor] util.JvmPauseMonitor: Detected pause in JVM or host machine (eg GC): pause of approximately 31000ms",
        ),
        ("keepalived", "Keepalived_vrrp[77]: A thread timer expired 2.101010 seconds ago"),
        (
            "Galera",
            "2020-09-02 16:15:50 0 [Warning] WSREP: last inactive check more than PT1.5S ago (PT3.50297S), skipping check",
        ),
        (
            "Consul",
            "[WARN]  agent.client.memberlist.lan: memberlist: Refuting a suspect message (from: n3)",
        ),
        ("Consul", "[WARN]  raft: failed to contact quorum of nodes, stepping down"),
    ];

    #[test]
    fn lines_that_people_have_posted_are_known() {
        let all = shipped();
        for (software, line) in POSTED {
            let found: Vec<&str> = all
                .iter()
                .filter(|known| known.is_in(line))
                .map(|known| known.software.as_str())
                .collect();
            assert_eq!(found, [*software], "{line}");
        }
        for line in [
            "",
            "corosync started",
            "WSREP: suspecting nothing",
            "node lease",
            "is unresponsive to ipc after 1 tries",
        ] {
            assert!(!all.iter().any(|known| known.is_in(line)), "{line}");
        }
    }

    #[test]
    fn a_pattern_of_the_user_has_a_name_and_parts() {
        let known = parse("lvmlockd=lease*expired").unwrap_or_else(|why| unreachable!("{why}"));
        assert!(known.is_in("12:00 lease 7 has expired") && !known.is_in("expired lease"));
        assert_eq!(known.expression(), "lease.*expired");
        for wrong in ["", "x", "=x", "x=", "x=*"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_expression_has_no_special_characters_left() {
        let tilt = known("x", Late, "+tilt #tilt (a.b)*[c]");
        assert_eq!(tilt.expression(), "\\+tilt \\#tilt \\(a\\.b\\).*\\[c\\]");
    }
}
