//! The time of stalls, divided among those who took it from a victim.

use crate::cgroup_owner::{cgroup_owner, cgroup_user};
use crate::{PartyKind, ServiceProcess, format_count, format_duration_ms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// Version of the JSON of [`BlameList`].
pub const BLAME_SCHEMA: u32 = 1;

/// The longest name or path of a party, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// Rows of a list, and victims; those with the least time are not listed.
const MAX_ROWS: usize = 1000;

/// One side of a stall: the victim or the culprit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlameParty {
    pub kind: PartyKind,
    /// Its name: of a unit, a pod (its UID), a container, a cgroup (its path), a process, a probe or a device. Empty for
    /// the others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its cgroup, below the hierarchy's root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The process that most evidence is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ServiceProcess>,
    /// The user whose cgroup it is, where systemd gives each one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
}

/// Time that a victim lost in a stall to one culprit, by one cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlameShare {
    pub victim: BlameParty,
    /// The victim itself where it met a limit of its own.
    pub culprit: BlameParty,
    /// The rule of the cause; `None` for time that no cause explains.
    pub cause: Option<String>,
    /// In milliseconds. The shares of a stall add up to its duration.
    pub lost_ms: u64,
}

/// Time that victims lost in the stalls of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlameList {
    /// Version of this format.
    pub schema: u32,
    /// Version of memwright.
    pub memwright: String,
    /// The answer in one line.
    pub summary: String,
    /// In milliseconds since 1970: stalls that ended before are not listed.
    pub since_unix_ms: u64,
    /// The victims, the one that lost most first.
    pub victims: Vec<BlamedVictim>,
    /// Time of each victim by culprit and cause, the most first.
    pub rows: Vec<BlameRow>,
    /// Incidents that could not be read, and limits of what was read.
    pub notes: Vec<String>,
}

/// A victim with all that it lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlamedVictim {
    pub victim: BlameParty,
    pub lost_ms: u64,
    pub stalls: u64,
}

/// Time that a victim lost to a culprit by one cause, in all stalls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlameRow {
    #[serde(flatten)]
    pub share: BlameShare,
    /// Stalls in which it did.
    pub stalls: u64,
    /// The last of them, for `memwright report`.
    pub last_incident: u64,
}

impl BlameParty {
    /// A party without a name.
    #[must_use]
    pub fn of_kind(kind: PartyKind) -> Self {
        Self { kind, ..Self::default() }
    }

    #[must_use]
    pub fn named(kind: PartyKind, name: &str) -> Self {
        Self { kind, name: shortened(name), ..Self::default() }
    }

    /// The owner of a cgroup.
    #[must_use]
    pub fn of_cgroup(path: &str) -> Self {
        let owner = cgroup_owner(path);
        let user = cgroup_user(path);
        Self { cgroup: Some(shortened(path)), user, ..Self::named(owner.kind, &owner.name) }
    }

    /// The same with the process that the evidence is of.
    #[must_use]
    pub fn with_process(self, pid: u32, name: &str) -> Self {
        Self { process: Some(ServiceProcess { pid, name: shortened(name) }), ..self }
    }

    /// True if both are one party, whatever process of it the evidence is of.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.kind, &self.name) == (other.kind, &other.name)
    }
}

/// `db.service`, `pod UID`, `process stress`; foreign text is as it was read.
impl fmt::Display for BlameParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.kind {
            PartyKind::Unit => f.write_str(name),
            PartyKind::Pod => write!(f, "pod {name}"),
            PartyKind::Container => write!(f, "container {name}"),
            PartyKind::Cgroup => write!(f, "cgroup {name}"),
            PartyKind::Process => write!(f, "process {name}"),
            PartyKind::Probe => write!(f, "probe {name}"),
            PartyKind::Machine => f.write_str("machine"),
            PartyKind::Kernel => f.write_str("kernel"),
            PartyKind::Hypervisor => f.write_str("hypervisor"),
            PartyKind::Device if name.is_empty() => f.write_str("device"),
            PartyKind::Device => write!(f, "device {name}"),
            PartyKind::Unknown => f.write_str("unknown"),
        }
    }
}

/// A name of a bounded length. What was cut off shows, so that it is not taken for another.
fn shortened(name: &str) -> String {
    if name.len() <= MAX_NAME_BYTES {
        return name.to_owned();
    }
    let end = (0..=MAX_NAME_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", name.get(..end).unwrap_or(""))
}

impl BlameShare {
    /// True if the victim met a limit of its own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.victim.is_same(&self.culprit)
    }

    /// True if the evidence proves a culprit.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.culprit.kind != PartyKind::Unknown
    }

    /// The rule of the cause, or `unknown`.
    #[must_use]
    pub fn cause_name(&self) -> &str {
        self.cause.as_deref().unwrap_or("unknown")
    }

    fn key(&self) -> (String, String, Option<String>) {
        (self.victim.to_string(), self.culprit.to_string(), self.cause.clone())
    }
}

/// Identity of a row: victim, culprit and cause.
type RowKey = (String, String, Option<String>);

impl BlameList {
    /// Sums up the shares of stalls, each with its number.
    pub fn add_all(&mut self, stalls: impl IntoIterator<Item = (u64, Vec<BlameShare>)>) {
        let mut rows: BTreeMap<RowKey, BlameRow> = BTreeMap::new();
        let mut victims: BTreeMap<String, BlamedVictim> = BTreeMap::new();
        for (incident, shares) in stalls {
            if let Some(BlameShare { victim, .. }) = shares.first() {
                let known = victims.entry(victim.to_string()).or_insert_with(|| BlamedVictim {
                    victim: victim.clone(),
                    ..BlamedVictim::default()
                });
                known.stalls += 1;
                let lost_ms = shares.iter().map(|share| share.lost_ms);
                known.lost_ms = lost_ms.fold(known.lost_ms, u64::saturating_add);
            }
            for share in shares {
                let (key, lost_ms) = (share.key(), share.lost_ms);
                let row = rows.entry(key).or_insert_with(|| BlameRow {
                    share: BlameShare { lost_ms: 0, ..share },
                    ..BlameRow::default()
                });
                row.share.lost_ms = row.share.lost_ms.saturating_add(lost_ms);
                row.stalls += 1;
                row.last_incident = row.last_incident.max(incident);
            }
        }
        self.rows = rows.into_values().collect();
        self.victims = victims.into_values().collect();
        self.rows.sort_by_key(|row| Reverse(row.share.lost_ms));
        self.victims.sort_by_key(|victim| Reverse(victim.lost_ms));
        self.victims.truncate(MAX_ROWS);
        if let Some(beyond) = self.rows.get(MAX_ROWS..).filter(|beyond| !beyond.is_empty()) {
            let lost_ms = beyond.iter().map(|row| row.share.lost_ms as f64).sum();
            let (count, time) = (format_count(beyond.len(), "row"), format_duration_ms(lost_ms));
            self.notes.push(format!("{count} with {time} in all are not listed"));
            self.rows.truncate(MAX_ROWS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(culprit: &str, cause: Option<&str>, lost_ms: u64) -> BlameShare {
        BlameShare {
            victim: BlameParty::of_cgroup("/system.slice/db.service/worker"),
            culprit: BlameParty::of_cgroup(culprit),
            cause: cause.map(str::to_owned),
            lost_ms,
        }
    }

    #[test]
    fn shares_of_several_stalls_are_one_row() {
        let backup = "/system.slice/backup.service";
        let flood = Some("page-cache-flood");
        let stalls = [
            (3, vec![share(backup, flood, 700), share("/", None, 300)]),
            (7, vec![share(&format!("{backup}/a"), flood, 900)]),
            (8, Vec::new()),
        ];
        let mut list = BlameList::default();
        list.add_all(stalls);
        let rows: Vec<_> = list
            .rows
            .iter()
            .map(|row| (row.share.lost_ms, row.stalls, row.last_incident))
            .collect();
        assert_eq!(rows, [(1600, 2, 7), (300, 1, 3)]);
        let [victim] = list.victims.as_slice() else { panic!("{:?}", list.victims) };
        assert_eq!((victim.lost_ms, victim.stalls), (1900, 2));
        assert_eq!(victim.victim.to_string(), "db.service");
    }

    #[test]
    fn many_culprits_and_long_names_are_bounded() {
        let stalls = (0..10_000).map(|n| (n, vec![share(&format!("/{n}"), None, n)]));
        let mut list = BlameList::default();
        list.add_all(stalls);
        assert_eq!((list.rows.len(), list.rows[0].share.lost_ms), (MAX_ROWS, 9999));
        assert!(list.notes[0].starts_with("9000 rows with "), "{:?}", list.notes);
        let long = BlameParty::of_cgroup(&format!("/{}", "ä".repeat(4000)));
        assert!(long.name.len() <= MAX_NAME_BYTES + "…".len() && long.name.ends_with('…'));
    }
}
