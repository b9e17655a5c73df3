//! What corosync and Pacemaker wrote: of lost tokens, of monitors that failed, and of resources that were moved.

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// corosync was late, or has not heard the other node.
    Token,
    /// An operation of a resource failed or timed out, or a daemon of Pacemaker was killed as one that does not answer.
    Failed,
    /// Pacemaker stops, moves or restarts a resource, or takes a node for dead.
    Moved,
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

impl Line {
    /// Seconds after a moment, which is less than a day ago.
    pub(super) fn after_s(&self, unix_s: f64) -> f64 {
        (self.day_s - unix_s.rem_euclid(DAY_S)).rem_euclid(DAY_S)
    }
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
