//! The plays of a seed: pure functions, the same on every machine.

use super::boot::{Boot, TrialHost, TrialService};
use super::condition::{self, CONDITIONS, DECOYS, TrialCondition};
use super::random::TrialRandom;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Plays in which nothing is done to the service, of which a second condition is injected, and which have a
/// decoy, in percent.
const NOTHING_PERCENT: u64 = 5;
const TWO_PERCENT: u64 = 8;
const DECOY_PERCENT: u64 = 50;

/// The condition that is none.
const NOTHING: &str = "none";

/// Something that is started, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Injection {
    pub(super) name: String,
    pub(super) arguments: Vec<u64>,
}

/// One stall that is made, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Play {
    pub(super) seed: u64,
    pub(super) index: u32,
    pub(super) service: TrialService,
    /// Time before it, in which the client measures what is usual.
    pub(super) quiet_s: u64,
    pub(super) hold_s: u64,
    pub(super) conditions: Vec<Injection>,
    pub(super) decoys: Vec<Injection>,
}

impl Injection {
    fn draw(name: &str, bounds: &[RangeInclusive<u64>], random: &mut TrialRandom) -> Self {
        let arguments = bounds.iter().map(|bounds| random.within(bounds.clone())).collect();
        Self { name: name.to_owned(), arguments }
    }

    /// As lab/trials/make.sh reads it.
    pub(super) fn word(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(u64::to_string).collect();
        if arguments.is_empty() {
            return self.name.clone();
        }
        format!("{}:{}", self.name, arguments.join(","))
    }
}

impl Play {
    pub(super) fn conditions(&self) -> impl Iterator<Item = &'static TrialCondition> {
        self.conditions.iter().filter_map(|injection| TrialCondition::named(&injection.name))
    }

    /// Injected conditions, in a few words.
    pub(super) fn label(&self) -> String {
        let words: Vec<String> = self.conditions.iter().map(Injection::word).collect();
        words.join(" ")
    }
}

/// One play of a seed. With names of conditions it is composed of these alone; `None` where none of them suits its
/// service.
pub(super) fn draw(place: TrialHost, seed: u64, index: u32, among: &[String]) -> Option<Play> {
    let boot = Boot::of(place, seed, index);
    let mut random = TrialRandom::new(&[seed, u64::from(index), 2]);
    let service = *random.one_of(&boot.services);
    let nothing = random.percent(NOTHING_PERCENT) && among.is_empty();
    let is_asked_for = |name: &str| {
        if among.is_empty() {
            nothing == (name == NOTHING)
        } else {
            among.iter().any(|n| n == name)
        }
    };
    let fits = |c: &&TrialCondition| c.suits(service, &boot) && is_asked_for(c.name);
    let fitting: Vec<&TrialCondition> = CONDITIONS.iter().filter(fits).collect();
    if fitting.is_empty() {
        return None;
    }
    let mut chosen = vec![*random.one_of(&fitting)];
    if random.percent(TWO_PERCENT) {
        let second = *random.one_of(&fitting);
        chosen.extend(is_beside(chosen[0], second).then_some(second));
    }
    let hold_s = chosen.iter().map(|c| random.within(c.hold_s.clone())).max().unwrap_or_default();
    let injected = |c: &&TrialCondition| Injection::draw(c.name, c.arguments, &mut random);
    let conditions: Vec<Injection> = chosen.iter().map(injected).collect();
    let wants_decoy = random.percent(DECOY_PERCENT) || nothing;
    let beside: Vec<_> =
        DECOYS.iter().filter(|decoy| condition::is_possible(decoy.0, place)).collect();
    let decoys = wants_decoy.then(|| random.one_of(&beside));
    let decoys = decoys.map(|(name, bounds)| Injection::draw(name, bounds, &mut random));
    Some(Play {
        seed,
        index,
        service,
        quiet_s: random.within(3..=4),
        hold_s,
        conditions,
        decoys: decoys.into_iter().collect(),
    })
}

/// True if two conditions can be undone one after the other, and the service answers again then.
fn is_beside(first: &TrialCondition, second: &TrialCondition) -> bool {
    const ENDS_IT: &[&str] = &[
        "kill",
        "oom",
        "oom-restart",
        "fail",
        "stop",
        "freeze",
        "disk-hang",
        "wrong-password",
        "frozen-filesystem",
        "disk-full",
        "open-files",
        "task-limit",
    ];
    const GROUPS: &[&[&str]] = &[
        &["file-limit", "anon-limit", "memory-high", "folder-limit", "oom", "oom-restart"],
        &["net-delay", "net-loss"],
        &["cpu-hogs", "realtime-hogs", "crowded-cpu"],
        &["slow-read", "slow-write", "disk-hang", "drop-caches"],
        &["table-lock", "row-lock"],
    ];
    let both = |names: &&[&str]| names.contains(&first.name) && names.contains(&second.name);
    first.name != second.name
        && !GROUPS.iter().any(both)
        && ![first, second].iter().any(|c| ENDS_IT.contains(&c.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_same_seed_has_the_same_plays() {
        for place in [TrialHost::Guest, TrialHost::Host] {
            let plays = |seed| {
                (0..50).filter_map(|index| draw(place, seed, index, &[])).collect::<Vec<_>>()
            };
            assert_eq!(plays(7), plays(7));
            assert_ne!(plays(7), plays(8));
            assert_eq!(draw(place, 7, 31, &[]), Some(plays(7)[31].clone()));
            assert_eq!(Boot::of(place, 7, 10), Boot::of(place, 7, 19));
            assert_ne!(Boot::of(place, 7, 10), Boot::of(place, 7, 20));
        }
    }

    fn check_plays(place: TrialHost, count: u32) -> BTreeSet<&'static str> {
        let mut played = BTreeSet::new();
        for index in 0..count {
            let (play, boot) = (draw(place, 3, index, &[]).unwrap(), Boot::of(place, 3, index));
            assert!(boot.services.contains(&play.service));
            assert!((1..=2).contains(&play.conditions.len()), "{play:?}");
            assert!(play.hold_s <= 12 && play.quiet_s >= 3);
            for (injection, condition) in play.conditions.iter().zip(play.conditions()) {
                assert!(condition.suits(play.service, &boot), "{play:?}");
                assert_eq!(injection.arguments.len(), condition.arguments.len());
                let mut bounds = injection.arguments.iter().zip(condition.arguments);
                assert!(bounds.all(|(value, bounds)| bounds.contains(value)), "{play:?}");
                played.insert(condition.name);
            }
            let known = |name: &str| DECOYS.iter().find(|known| known.0 == name).unwrap().0;
            played.extend(play.decoys.iter().map(|decoy| known(&decoy.name)));
        }
        played
    }

    #[test]
    fn every_play_is_within_bounds_and_every_condition_is_played() {
        let played = check_plays(TrialHost::Guest, 5000);
        assert_eq!(played.len(), CONDITIONS.len() + DECOYS.len(), "{played:?}");
        let played = check_plays(TrialHost::Host, 2000);
        assert!(!played.contains("allocator") && played.contains("slow-write"), "{played:?}");
    }

    #[test]
    fn plays_are_composed_of_the_conditions_that_were_asked_for() {
        let among = ["busy-script".to_owned(), "none".to_owned()];
        let drawn = (0..100).filter_map(|index| draw(TrialHost::Guest, 3, index, &among));
        let names: BTreeSet<(TrialService, String)> = drawn
            .flat_map(|play| play.conditions.into_iter().map(move |c| (play.service, c.name)))
            .collect();
        assert!(names.contains(&(TrialService::Redis, "busy-script".to_owned())), "{names:?}");
        assert!(names.iter().all(|(_, name)| among.contains(name)), "{names:?}");
        let locks = ["table-lock".to_owned()];
        let drawn = (0..100).filter_map(|index| draw(TrialHost::Guest, 3, index, &locks));
        let services: BTreeSet<TrialService> = drawn.map(|play| play.service).collect();
        assert_eq!(services, BTreeSet::from([TrialService::Postgres, TrialService::Mysql]));
    }

    #[test]
    fn the_guest_knows_every_condition_and_decoy() {
        let conditions = include_str!("../../../lab/trials/conditions");
        let decoys = include_str!("../../../lab/trials/decoys");
        let names = CONDITIONS.iter().map(|c| (c.name, conditions));
        for (name, text) in names.chain(DECOYS.iter().map(|d| (d.0, decoys))) {
            for part in ["begin", "end"] {
                let function = format!("\n{part}_{}()", name.replace('-', "_"));
                assert!(text.contains(&function), "{function}");
            }
        }
    }
}
