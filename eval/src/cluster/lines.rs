//! What corosync and Pacemaker wrote: of lost tokens, of operations that failed, of resources that were moved, and of fencing.

/// Meaning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// corosync was late, or has not heard the other node.
    Token,
    /// An operation of a resource failed or timed out, or a daemon of Pacemaker was killed as one that does not answer.
    Failed,
    /// The node that decides has learned of such an operation on n1.
    Unexpected,
    /// Pacemaker stops, moves or restarts a resource, or takes a node for dead.
    Moved,
    /// Pacemaker wants n1 to be fenced.
    Fencing,
    /// n1 has been fenced.
    Fenced,
    /// n2 has started the database.
    TakenOver,
}

const CLUSTER: &[(Says, &str)] = &[
    (Says::Token, "was not scheduled"),
    (Says::Token, "Process pause detected"),
    (Says::Token, "Token has not been received"),
    (Says::Token, "A processor failed"),
    (Says::Token, "Failed to receive the leave message"),
    (Says::Failed, "operation for * on n1: Timed Out"),
    (Says::Failed, "operation for * on n1: error"),
    (Says::Failed, "operation for * on n1: not running"),
    (Says::Failed, "is unresponsive to ipc after*have it killed"),
    (Says::Moved, "Our peer on the DC"),
    (Says::Moved, "state is now lost"),
    (Says::Moved, "Actions: Start*n2 )"),
    (Says::Moved, "Actions: Recover"),
    (Says::Moved, "Actions: Move"),
    (Says::Moved, "Actions: Stop"),
    (Says::Moved, "Actions: Restart"),
    (Says::Unexpected, "Unexpected result (*was recorded for*on n1"),
    (Says::Fencing, "Actions: Fence (reboot) n1"),
    (Says::Fenced, "Peer n1 was terminated"),
    (Says::TakenOver, "Result of start operation for database on n2: ok"),
];

/// The probes before a resource is started find it not running, as they should.
const EXPECTED: &str = "Result of probe operation";

pub(super) struct Line {
    /// Seconds since midnight.
    pub(super) day_s: f64,
    pub(super) node: &'static str,
    pub(super) says: Says,
    pub(super) text: String,
}

const DAY_S: f64 = 86_400.0;

/// A cluster has settled so long after one of its nodes was late.
const SETTLED_S: f64 = 10.0;

impl Line {
    /// Time at which n2 was not scheduled, in seconds since midnight, and for how many seconds.
    fn pause_of_n2(&self) -> Option<(f64, f64)> {
        let (_, delay) = self.text.split_once("was not scheduled (@")?.1.split_once(" for ")?;
        let delay_s = delay.split_once(' ')?.0.parse::<f64>().ok()? / 1000.0;
        (self.node == "n2").then(|| ((self.day_s - delay_s - 1.0).rem_euclid(DAY_S), delay_s + 1.0))
    }

    /// Seconds after a moment, which is less than a day ago.
    pub(super) fn after_s(&self, unix_s: f64) -> f64 {
        (self.day_s - unix_s.rem_euclid(DAY_S)).rem_euclid(DAY_S)
    }
}

/// Separates the lines from the time in which this machine did not run its guests: n2, where nothing happens, was late itself.
pub(super) fn without_pauses(lines: Vec<Line>) -> (Vec<Line>, Vec<Line>) {
    let pauses: Vec<(f64, f64)> = lines.iter().filter_map(Line::pause_of_n2).collect();
    let is_in = |line: &Line, (began_s, took_s): (f64, f64)| {
        (line.day_s - began_s).rem_euclid(DAY_S) < took_s + SETTLED_S
    };
    lines.into_iter().partition(|line| !pauses.iter().any(|pause| is_in(line, *pause)))
}

/// Those from one moment to another, in their order.
pub(super) fn between(lines: &[Line], from_s: f64, end_s: f64) -> impl Iterator<Item = &Line> {
    let mut lines: Vec<&Line> =
        lines.iter().filter(|line| line.after_s(from_s) < end_s - from_s).collect();
    lines.sort_by(|a, b| a.after_s(from_s).total_cmp(&b.after_s(from_s)));
    lines.into_iter()
}

/// The lines of a log of `node` that say one of these things.
pub(super) fn of_log(node: &'static str, log: &str) -> Vec<Line> {
    let known = |text: &str| CLUSTER.iter().find(|(_, part)| is_in(part, text));
    let line = |line: &str| {
        let (day_s, text) = timed(line)?;
        let (says, _) = known(text).filter(|_| !text.contains(EXPECTED))?;
        // What follows a bar is for programmers.
        let text = text.split(" | ").next().unwrap_or(text).replace('\t', "");
        Some(Line { day_s, node, says: *says, text })
    };
    log.lines().filter_map(line).collect()
}

/// `*` stands for anything.
fn is_in(pattern: &str, text: &str) -> bool {
    let mut rest = Some(text);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

/// The time and the rest of `Nov 26 18:04:30.123 text`.
fn timed(line: &str) -> Option<(f64, &str)> {
    let mut parts = line.splitn(4, ' ').skip(2);
    let (time, text) = (parts.next()?, parts.next()?);
    let mut fields = time.split(':').map(str::parse::<f64>);
    let mut next = || fields.next()?.ok();
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    Some((hours * 3600.0 + minutes * 60.0 + seconds, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pause_of_this_machine_did_is_not_the_clusters() {
        let late = |node, second: &str| {
            let log = format!(
                "Nov 26 00:00:{second} [1] {node} corosync warning [MAIN  ] Corosync main process was not scheduled (@1) for 2500.5 ms (threshold"
            );
            of_log(if node == "n1" { "n1" } else { "n2" }, &log)
        };
        // From shortly before midnight on.
        let all = ["01.500", "02.000", "09.000", "30.000"];
        let lines: Vec<Line> = all.iter().flat_map(|second| late("n1", second)).collect();
        let (kept, _) = without_pauses(lines);
        assert_eq!(kept.len(), 4);
        let (kept, paused) = without_pauses(kept.into_iter().chain(late("n2", "02.100")).collect());
        let seconds = |lines: &[Line]| lines.iter().map(|line| line.day_s).collect::<Vec<_>>();
        assert_eq!((seconds(&kept), seconds(&paused)), (vec![30.0], vec![1.5, 2.0, 9.0, 2.1]));
    }

    #[test]
    fn lines_have_a_time_and_a_meaning() {
        let log = "Nov 26 18:04:30.250 [245] n2 corosync notice  [TOTEM ] A processor failed, forming new configuration\n\
                   Nov 26 18:04:31.000 [245] n2 corosync notice  [TOTEM ] A new membership\n\
                   Nov 26 18:05:00.000 n1 pacemaker-controld  [275] (log) error: Result of monitor operation for database on n1: Timed Out after 30s | call=7\n\
                   Nov 26 18:05:01.000 n1 pacemaker-controld  [275] (log) notice: Result of probe operation for database on n1: not running\n";
        let lines = of_log("n2", log);
        let says: Vec<(Says, f64)> = lines.iter().map(|line| (line.says, line.day_s)).collect();
        assert_eq!(says, [(Says::Token, 65_070.25), (Says::Failed, 65_100.0)]);
        assert!(lines[1].text.starts_with("n1 pacemaker-controld"));
        assert!(lines[1].text.ends_with("Timed Out after 30s"));
    }
}
