//! Made-up stalls in which a process waits for a peer, by its connections, and similar ones of which that would be false.

use crate::made::Made;
use crate::paths::{explained, first_rule, link, made, task};
use mw_critical_path::{RunMode, TimeKind, Wait};
use mw_model::{Finding, ServiceConnection, ServiceProcess, Transport, TriggerKind};
use std::net::SocketAddr;

/// When the connection was read, from the beginning of the stall.
const READ_MS: u64 = 4000;

fn at(address: &str) -> Option<SocketAddr> {
    Some(address.parse().unwrap())
}

/// The process of the critical path asked its database 0.1 s after the stall began, which acknowledged that.
fn asked(made: &Made) -> ServiceConnection {
    let started = made.incident.started_unix_ms;
    ServiceConnection {
        process: ServiceProcess { pid: 812, name: "postgres".to_owned() },
        local: at("10.0.0.1:40000"),
        peer: at("10.0.0.5:5432"),
        first_read_unix_ms: started + 1000,
        read_unix_ms: started + READ_MS,
        segments_sent: 9,
        segments_received: 8,
        sent_ms_ago: READ_MS - 100,
        acknowledged_ms_ago: READ_MS - 101,
        received_ms_ago: READ_MS + 5000,
        ..ServiceConnection::default()
    }
}

/// The like; three retransmissions timed out.
fn lost(made: &Made) -> ServiceConnection {
    ServiceConnection {
        unacknowledged: 1,
        queued_bytes: 80,
        timeouts: 3,
        retransmitted: 3,
        unacknowledged_ms: 3000,
        ..asked(made)
    }
}

fn connecting(made: &Made, timeouts: u32) -> ServiceConnection {
    let (sent_ms_ago, received_ms_ago) = (80_000_000, 80_000_000);
    let unacknowledged_ms = 2800;
    let connection = ServiceConnection { sent_ms_ago, received_ms_ago, ..lost(made) };
    ServiceConnection { is_connecting: true, timeouts, unacknowledged_ms, ..connection }
}

fn question(made: &Made) -> ServiceConnection {
    let asked = asked(made);
    let (local, peer, process) = (asked.local, at("10.0.0.2:53"), asked.process);
    ServiceConnection {
        transport: Transport::Udp,
        local,
        peer,
        process,
        first_read_unix_ms: made.incident.seen_unix_ms + 20,
        read_unix_ms: asked.read_unix_ms,
        ..ServiceConnection::default()
    }
}

/// A request whose time is of this kind, and the connections of its tasks.
fn stall(kind: TimeKind, connections: impl Fn(&Made) -> Vec<ServiceConnection>) -> Made {
    let mut made = made(&[(kind, 95)]);
    made.incident.trigger.kind = TriggerKind::Probe;
    made.incident.connections = connections(&made);
    made
}

const BY_PACKET: TimeKind = TimeKind::Waiting(Wait::Network);
const IDLE: TimeKind = TimeKind::Idle(Wait::Poll);

fn first(made: &Made) -> Finding {
    explained(made).causes.remove(0).finding
}

fn evidence(finding: &Finding, what: &str) -> String {
    let found = finding.evidence.iter().find(|evidence| evidence.what == what);
    found.unwrap_or_else(|| panic!("{what}: {:?}", finding.evidence)).quantity.to_string()
}

/// Promise (Tracing: why): A service that waits for an answer of its database, a name server or another upstream is told
/// whose, how long and since when.
#[test]
fn the_peer_that_does_not_answer_is_named() {
    for kind in [BY_PACKET, IDLE, TimeKind::TimedOut(Wait::Poll)] {
        let finding = first(&stall(kind, |made| vec![asked(made)]));
        assert_eq!(finding.rule, "network-wait", "{kind:?}");
        let wanted = "postgres (812) waited for the answer of 10.0.0.5:5432 (PostgreSQL)";
        assert_eq!(finding.headline, wanted);
        let wait = "wait for the answer of 10.0.0.5:5432 (PostgreSQL)";
        assert_eq!(evidence(&finding, wait), "3.9 s");
        assert_eq!(evidence(&finding, "its beginning"), "100 ms after that of the stall");
        let steps = format!("{:?}", finding.remedy.unwrap().steps);
        assert!(steps.contains("nsenter -t 812 -n ss -tinop dst '10.0.0.5:5432'"), "{steps}");
    }
    let name_server = first(&stall(IDLE, |made| vec![question(made)]));
    assert!(name_server.headline.ends_with("the answer of 10.0.0.2:53 (DNS)"), "{name_server:?}");
    let unknown = first(&stall(IDLE, |made| {
        vec![ServiceConnection { peer: at("10.0.0.5:40404"), ..asked(made) }]
    }));
    assert!(unknown.headline.ends_with("the answer of 10.0.0.5:40404"), "{unknown:?}");
    let first_request = first(&stall(IDLE, |made| {
        let same = READ_MS - 100;
        let (received_ms_ago, acknowledged_ms_ago) = (same, same);
        let asked = ServiceConnection { received_ms_ago, acknowledged_ms_ago, ..asked(made) };
        vec![ServiceConnection { segments_sent: 1, segments_received: 0, ..asked }]
    }));
    assert_eq!(first_request.rule, "network-wait", "sent in the tick in which it was opened");
    let opened = first(&stall(IDLE, |made| vec![connecting(made, 0)]));
    assert!(opened.headline.contains("waited for a connection to 10.0.0.5:5432"), "{opened:?}");
}

/// Promise (Tracing: why): A connection that was read once, early, is that of the whole wait where its process has no other,
/// and one that is not made in time lost packets.
#[test]
fn an_early_reading_stands_for_the_wait_that_it_is_of() {
    let early = |made: &Made, more: bool| {
        let late = connecting(made, 0);
        let read_unix_ms = made.incident.started_unix_ms + 628;
        let ended_by_unix_ms = Some(made.incident.started_unix_ms + READ_MS);
        let early = ServiceConnection {
            read_unix_ms,
            first_read_unix_ms: read_unix_ms,
            ended_by_unix_ms,
            unacknowledged_ms: 528,
            ..late.clone()
        };
        let other = ServiceConnection { peer: at("10.0.0.6:5432"), ..early.clone() };
        if more { vec![early, other] } else { vec![early] }
    };
    let finding = first(&stall(BY_PACKET, |made| early(made, false)));
    assert_eq!(finding.rule, "network-loss", "{finding:?}");
    let answer_of = |segments_sent: u32| {
        first(&stall(BY_PACKET, |made| {
            vec![ServiceConnection { retransmitted: 1, segments_sent, ..asked(made) }]
        }))
    };
    assert_eq!(answer_of(2).rule, "network-loss", "one of two segments was lost");
    assert_eq!(answer_of(900).rule, "network-wait", "one of 900, at some time");
    let of_two = first(&stall(BY_PACKET, |made| early(made, true)));
    assert_eq!(of_two.rule, "network-wait", "which of the two is not known: {of_two:?}");
}

/// Promise (Tracing: why): Segments of a service to a peer that are sent again are lost packets, and not a slow peer.
#[test]
fn lost_packets_of_a_service_are_told_from_a_slow_peer() {
    for kind in [BY_PACKET, IDLE] {
        for connection in [lost, |made: &Made| connecting(made, 2)] {
            let finding = first(&stall(kind, |made| vec![connection(made)]));
            assert_eq!(finding.rule, "network-loss");
            let wanted =
                "the network lost packets from postgres (812) to 10.0.0.5:5432 (PostgreSQL)";
            assert_eq!(finding.headline, wanted);
            assert_eq!(evidence(&finding, "segments that were sent again"), "3");
        }
    }
}

/// Each is the connection of [`asked`], but for one thing.
#[test]
fn a_connection_that_nobody_waits_for_is_no_evidence() {
    type Change = fn(&mut ServiceConnection);
    let changes: &[(&str, Change)] = &[
        ("it is another process's", |other| other.process.pid = 813),
        ("a client opened it, and sends the next request", |other| other.is_accepted = true),
        ("the peer sent last", |other| other.received_ms_ago = other.sent_ms_ago - 1),
        ("the answer is there", |other| other.unread_bytes = 1),
        ("it was idle long before the stall", |other| other.sent_ms_ago = READ_MS + 1001),
        ("it was asked in the middle", |other| other.sent_ms_ago = READ_MS * 49 / 100),
        ("it was answered early in the stall", |other| {
            other.ended_by_unix_ms = Some(other.read_unix_ms + READ_MS);
        }),
        ("it never brings an answer", |other| {
            (other.segments_received, other.segments_sent) = (0, 17);
        }),
        ("nothing was sent", |other| other.segments_sent = 0),
        ("the peer has not acknowledged it yet", |other| other.unacknowledged = 1),
        ("not all of it was sent", |other| other.queued_bytes = 1),
        ("both in one tick, and the answer last", |other| {
            (other.received_ms_ago, other.acknowledged_ms_ago) =
                (other.sent_ms_ago, other.sent_ms_ago);
        }),
        ("a UDP socket that logs", |other| other.transport = Transport::Udp),
        ("a question over UDP that was read once", |other| {
            (other.transport, other.peer) = (Transport::Udp, at("10.0.0.2:53"));
            other.first_read_unix_ms = other.read_unix_ms;
        }),
    ];
    for (why, change) in changes {
        let changed = |made: &Made| {
            let mut connection = asked(made);
            change(&mut connection);
            vec![connection]
        };
        let packet = first(&stall(BY_PACKET, changed));
        assert!(packet.headline.ends_with("waited for a peer on the network"), "{why}: {packet:?}");
        assert_eq!(first_rule(&stall(IDLE, changed)), "network-or-service", "{why}");
    }
}

#[test]
fn a_task_that_works_waits_for_nobody() {
    let computes = stall(TimeKind::Running(RunMode::User), |made| vec![asked(made), lost(made)]);
    assert_eq!(first_rule(&computes), "service-itself");
    let reads = stall(TimeKind::Waiting(Wait::FileRead), |made| vec![asked(made)]);
    assert_eq!(first_rule(&reads), "slow-disk");
}

/// A process that has been stopped for days is not the service, of which the peer is known.
#[test]
fn a_stopped_process_of_others_does_not_excuse_a_known_peer() {
    let stopped = |name, connections: fn(&Made) -> Vec<ServiceConnection>| {
        first_rule(&stall(IDLE, connections).blocked((77, name), 'T', 20, &[]))
    };
    assert_eq!(stopped("editor", |made| vec![asked(made)]), "network-wait");
    assert_eq!(stopped("editor", |_| Vec::new()), "stopped-process");
    assert_eq!(stopped("postgres", |made| vec![asked(made)]), "stopped-process");
    let local = |made: &Made| {
        let (local, peer) = (at("127.0.0.1:51000"), at("127.0.0.1:8000"));
        vec![ServiceConnection { local, peer, ..asked(made) }]
    };
    assert_eq!(stopped("backend", local), "stopped-process", "it may be the peer itself");
    assert_eq!(first_rule(&stall(IDLE, local)), "network-wait");
}

/// What a vanished client of another connection does not acknowledge delays no request of the probe.
#[test]
fn lost_packets_of_clients_are_those_of_the_probes_command_alone() {
    let accepted = |made: &Made| ServiceConnection {
        is_accepted: true,
        local: at("10.0.0.1:5432"),
        peer: at("10.0.0.1:51000"),
        ..lost(made)
    };
    let alone = stall(IDLE, |made| vec![accepted(made)]);
    assert_eq!(first_rule(&alone), "network-or-service");
    let command = |made: &Made| ServiceConnection {
        process: ServiceProcess { pid: 77, name: "psql".to_owned() },
        local: at("10.0.0.1:51000"),
        peer: at("10.0.0.1:5432"),
        ..asked(made)
    };
    let of_probe = stall(IDLE, |made| vec![accepted(made), command(made)]);
    assert_eq!(first_rule(&of_probe), "network-loss");
}

/// Promise (Tracing: why): Packets that a probe's command lost are found where the connections of the service are not known.
#[test]
fn lost_packets_of_a_command_explain_why_its_server_waits() {
    let command = |made: &Made| {
        let process = ServiceProcess { pid: 77, name: "psql".to_owned() };
        ServiceConnection { process, segments_sent: 1, ..lost(made) }
    };
    for kind in [BY_PACKET, IDLE] {
        let mut of_server = stall(kind, |made| vec![command(made)]);
        assert_ne!(first_rule(&of_server), "network-loss", "of somebody");
        let path = of_server.incident.path.as_mut().unwrap();
        let server = path.parts[0].task.clone();
        path.chain = vec![link(&task(77, "psql"), Wait::Socket, &server)];
        let finding = first(&of_server);
        let headline = "the network lost packets from psql (77) to 10.0.0.5:5432 (PostgreSQL)";
        assert_eq!((finding.rule.as_str(), finding.headline.as_str()), ("network-loss", headline));
    }
}

#[test]
fn of_several_peers_the_one_that_was_waited_for_longest_is_likely() {
    let two = stall(BY_PACKET, |made| {
        let shorter = ServiceConnection { sent_ms_ago: 3000, ..asked(made) };
        vec![ServiceConnection { peer: at("10.0.0.6:6379"), ..shorter }, asked(made)]
    });
    let one = stall(BY_PACKET, |made| vec![asked(made), asked(made)]);
    let finding = first(&two);
    assert!(finding.headline.ends_with("10.0.0.5:5432 (PostgreSQL)"), "{finding:?}");
    assert_eq!(evidence(&finding, "other peers that it waited for"), "1");
    let score = |made: &Made| explained(made).causes[0].score();
    assert!(score(&two) < score(&one), "{} {}", score(&two), score(&one));
}
