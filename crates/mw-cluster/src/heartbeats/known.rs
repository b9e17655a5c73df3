//! Lines by which cluster software says that it was late with a heartbeat, or that a heartbeat did not come.

use mw_model::HeartbeatKind::{self, Late, Unheard};

/// A line that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownLine {
    pub(super) software: String,
    pub(super) says: HeartbeatKind,
    /// Its parts, in this order.
    parts: Vec<String>,
    /// Text of the line before the delay; empty if it has none.
    before_delay: &'static str,
}

/// A delay is at most this: a clock that was set makes longer ones.
pub(super) const LONGEST_DELAY_MS: u64 = 600_000;

/// Software, what the line says, the line, with `*` for what varies, and what it has before the time by which something
/// was late, if it says that. Found in the sources of corosync 3.1
/// (exec/main.c, totemsrp.c), sbd 1.5 (sbd-inquisitor.c), etcd 3.4 to 3.7 (server/etcdserver/raft.go), Patroni 3 and 4
/// (patroni/__main__.py), Redis 7 (sentinel.c), ZooKeeper 3.8 and Hadoop 3 (JvmPauseMonitor.java), keepalived 2
/// (scheduler.c), Galera 3 and 4 (gcomm/src/evs_proto.cpp), Kubernetes 1.37 (component-helpers, lease controller), memberlist
/// and raft of HashiCorp (state.go, raft.go), Kafka 3 (AbstractCoordinator.java); those of Pacemaker 2.1 were seen in a
/// starved cluster (eval/results/cluster.md).
const LINES: &[(&str, HeartbeatKind, &str, &str)] = &[
    ("corosync", Late, "main process was not scheduled", " for "),
    ("corosync", Late, "Process pause detected for", "detected for "),
    ("corosync", Unheard, "Token has not been received in", "received in "),
    ("corosync", Unheard, "A processor failed, forming new configuration", "timed out ("),
    ("Pacemaker", Late, "Result of monitor operation for*: Timed Out after", "Timed Out after "),
    ("Pacemaker", Late, "is unresponsive to ipc after*have it killed", ""),
    ("Pacemaker", Unheard, "Our peer on the DC (*) is dead", ""),
    ("sbd", Late, "Latency: No liveness for", "liveness for "),
    ("etcd", Late, "leader failed to send out heartbeat on time", "exceeded-duration\":\""),
    ("Patroni", Late, "Loop time exceeded, rescheduling immediately", ""),
    ("Redis Sentinel", Late, "+tilt #tilt mode entered", ""),
    ("JVM", Late, "Detected pause in JVM or host machine", "approximately "),
    ("keepalived", Late, "A thread timer expired", "expired "),
    ("Galera", Late, "WSREP: last inactive check more than", "ago ("),
    ("Galera", Unheard, "WSREP: *suspecting node", ""),
    ("kubelet", Late, "ailed to update*node lease", ""),
    ("kubelet", Late, "\"Failed to update lease\"", ""),
    ("Consul", Late, "memberlist: Refuting a suspect message", ""),
    ("Consul", Unheard, "ailed to contact quorum of nodes, stepping down", ""),
    ("Kafka", Late, "consumer poll timeout has expired", ""),
];

/// All that are shipped.
#[must_use]
pub fn shipped() -> Vec<KnownLine> {
    let shipped = |(software, says, line, before): &(&str, _, &str, &'static str)| {
        known(software, *says, line, before)
    };
    LINES.iter().map(shipped).collect()
}

/// Parses a line of the user's: `NAME=LINE`.
///
/// # Errors
/// It has no name or no line, in words.
pub fn parse(text: &str) -> Result<KnownLine, String> {
    let wrong = || format!("invalid pattern '{text}' (use NAME=LINE, with * for what varies)");
    let (name, line) = text.split_once('=').ok_or_else(wrong)?;
    let found = known(name.trim(), Late, line, "");
    if name.trim().is_empty() || found.parts.is_empty() { Err(wrong()) } else { Ok(found) }
}

fn known(software: &str, says: HeartbeatKind, line: &str, before_delay: &'static str) -> KnownLine {
    let parts = line.split('*').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    KnownLine { software: software.to_owned(), says, parts, before_delay }
}

impl KnownLine {
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

    /// Delay in milliseconds, where the line reports one.
    pub(super) fn delay_ms(&self, line: &str) -> Option<u64> {
        if self.before_delay.is_empty() {
            return None;
        }
        let from = line.find(self.parts.first()?.as_str())?;
        let (_, delay) = line.get(from..)?.split_once(self.before_delay)?;
        duration_ms(delay).map(|ms| ms.min(LONGEST_DELAY_MS))
    }

    /// A regular expression of PCRE2 for the line.
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

/// The duration that a text begins with: `4521.3 ms`, `1m2s`, `59.5 seconds` or `PT3.5S` (ISO 8601).
fn duration_ms(text: &str) -> Option<u64> {
    if text.starts_with('P') {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let duration: jiff::SignedDuration = text.get(..end)?.parse().ok()?;
        return u64::try_from(duration.as_millis()).ok();
    }
    let (mut ms, mut rest) = first_part(text)?;
    while let Some((part_ms, after)) = first_part(rest) {
        (ms, rest) = (ms + part_ms, after);
    }
    Some(ms as u64)
}

/// A number with a unit, in milliseconds, and what follows it.
fn first_part(text: &str) -> Option<(f64, &str)> {
    let (number, rest) =
        text.split_at_checked(text.find(|c: char| !c.is_ascii_digit() && c != '.')?)?;
    let rest = rest.trim_start();
    let (unit, after) =
        rest.split_at_checked(rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len()))?;
    let unit_ms = match unit {
        "ms" => 1.0,
        "s" | "seconds" => 1000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * unit_ms, after))
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
    fn lines_say_how_late_something_was() {
        let all = shipped();
        let delay = |line: &str| all.iter().find(|known| known.is_in(line))?.delay_ms(line);
        let delays: Vec<Option<u64>> = POSTED.iter().map(|(_, line)| delay(line)).collect();
        let some = [(0, 7917), (2, 20_000), (5, 4000), (9, 31_000), (10, 2101), (11, 3502)];
        for (number, delay) in delays.into_iter().enumerate() {
            let expected = some.iter().find(|(of, _)| *of == number).map(|(_, ms)| *ms);
            assert_eq!(delay, expected, "{}", POSTED[number].1);
        }
        assert_eq!(delay("A thread timer expired 99999.5 seconds ago"), Some(LONGEST_DELAY_MS));
        assert_eq!(
            delay("Galera WSREP: last inactive check more than PT1.5S ago (PT1M2.5S)"),
            Some(62_500)
        );
        let pacemaker = |time: &str| {
            delay(&format!(
                "Result of monitor operation for db on n1: Timed Out after {time} (Resource agent did not)"
            ))
        };
        assert_eq!(pacemaker("2m"), Some(120_000));
        assert_eq!(pacemaker("1m2s"), Some(62_000));
        assert_eq!(
            delay(
                r#""msg":"leader failed to send out heartbeat on time","exceeded-duration":"1.25s""#
            ),
            Some(1250)
        );
        assert_eq!(
            delay(
                "[TOTEM ] A processor failed, forming new configuration: token timed out (3000ms), waiting"
            ),
            Some(3000)
        );
        for line in [
            "A thread timer expired",
            "A thread timer expired ... seconds ago",
            "A thread timer expired 7",
            "A thread timer expired 7 parsecs ago",
            "WSREP: last inactive check more than PT1.5S ago (P)",
            "WSREP: last inactive check more than PT1.5S ago (-PT1S",
            "expired 7 seconds ago: A thread timer expired",
        ] {
            assert_eq!(delay(line), None, "{line}");
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
        let tilt = known("x", Late, "+tilt #tilt (a.b)*[c]", "");
        assert_eq!(tilt.expression(), "\\+tilt \\#tilt \\(a\\.b\\).*\\[c\\]");
    }
}
