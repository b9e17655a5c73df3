//! Kills of the OOM killer that are one incident: those of one cgroup at its limit, and those of one shortage of the
//! machine. Pure.
//!
//! Anybody can have his own processes killed as often as he likes. So each cgroup has incidents of its own, and a shortage
//! of the machine that goes on has another one for whom it had not hit in its first seconds. Where a user, a service or a
//! container has very many cgroups, the kills of the others are one incident of all of them. The cgroup of a probed
//! service always has its own.

use crate::kills::{self, Kill};
use crate::oom_detector::{LEAST_QUIET_MS, OomDetector, OomTransition};
use mw_model::fair::cgroup_tree;
use mw_model::{OomKills, OomShortage, OomVictim};
use std::collections::VecDeque;

/// Cgroups that are told apart below a path of so many levels: of a user or a service, of all of them, of the machine.
const MAX_BELOW: [(usize, usize); 3] = [(2, 8), (1, 24), (0, 64)];

/// Users, and shortages of the machine, that are told apart.
const MAX_USERS: usize = 16;
const MAX_SHORTAGES: usize = 8;

/// Victims of a run so far, as far as they are remembered.
const MAX_HIT: usize = 32;

/// Runs that are kept for their incidents: those that are open, and the latest that were.
const MAX_RUNS: usize = 128;

/// Facts about one incident. `L` is a service that lost a process.
#[derive(Debug, Clone)]
pub(crate) struct OomRun<L> {
    pub(crate) number: u64,
    pub(crate) kills: OomKills,
    /// By the place of the service's probe, each once.
    pub(crate) lost: Vec<(usize, L)>,
}

/// Facts that the kills of a run have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scope {
    Machine,
    Cgroup(String),
    /// Cgroups below a path, beyond those that are told apart.
    Below(String),
    /// At the limit of a cgroup that the kernel does not name, by the user: it leaves that out where it kills often.
    User(Option<u32>),
    /// The same, of a probed service, by its place.
    Service(usize),
    /// Counted only.
    NotLogged,
}

#[derive(Debug)]
struct ScopeState {
    scope: Scope,
    detector: OomDetector,
    began_ms: f64,
    run: u64,
    /// Cgroups and users that were hit.
    hit: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct OomRuns<L> {
    followed: Vec<ScopeState>,
    runs: VecDeque<OomRun<L>>,
    last_number: u64,
}

impl<L> Default for OomRuns<L> {
    fn default() -> Self {
        Self { followed: Vec::new(), runs: VecDeque::new(), last_number: 0 }
    }
}

/// A kill with the probed services that lost a process by it, each by the probe's place.
pub(crate) type KillOf<L> = (Kill, Vec<(usize, L)>);

impl<L: Clone> OomRuns<L> {
    pub(crate) fn is_open(&self) -> bool {
        self.followed.iter().any(|followed| followed.detector.is_open())
    }

    pub(crate) fn run(&self, number: u64) -> Option<&OomRun<L>> {
        self.runs.iter().find(|run| run.number == number)
    }

    pub(crate) fn run_mut(&mut self, number: u64) -> Option<&mut OomRun<L>> {
        self.runs.iter_mut().find(|run| run.number == number)
    }

    /// Takes the kills since the last turn. What began and what is over, each with the number of its run.
    pub(crate) fn turn(&mut self, now_ms: f64, killed: &[KillOf<L>]) -> Vec<(OomTransition, u64)> {
        let mut transitions = Vec::new();
        for (kill, lost) in killed {
            let Some(place) = self.place(now_ms, kill, lost.first().map(|(probe, _)| *probe))
            else {
                continue;
            };
            transitions.extend(self.step(now_ms, place, true));
            let Some(followed) = self.followed.get_mut(place) else { continue };
            note_hit(&mut followed.hit, kill);
            let number = followed.run;
            let Some(run) = self.run_mut(number) else { continue };
            kills::add(&mut run.kills, kill);
            for lost in lost {
                if !run.lost.iter().any(|(probe, _)| *probe == lost.0) {
                    run.lost.push(lost.clone());
                }
            }
        }
        for place in 0..self.followed.len() {
            transitions.extend(self.step(now_ms, place, false));
        }
        self.followed.retain(|followed| !followed.detector.is_forgotten(now_ms));
        transitions
    }

    fn step(&mut self, now_ms: f64, place: usize, killed: bool) -> Option<(OomTransition, u64)> {
        let followed = self.followed.get_mut(place)?;
        let transition = followed.detector.turn(now_ms, killed)?;
        if transition == OomTransition::Begun {
            self.last_number += 1;
            (followed.run, followed.began_ms) = (self.last_number, now_ms);
            let run =
                OomRun { number: self.last_number, kills: OomKills::default(), lost: Vec::new() };
            self.runs.push_back(run);
            self.make_room();
        }
        Some((transition, self.followed.get(place)?.run))
    }

    /// Drops the oldest runs that are over.
    fn make_room(&mut self) {
        while self.runs.len() > MAX_RUNS {
            let is_open = |run: &OomRun<L>| {
                let mut open = self.followed.iter().filter(|followed| followed.detector.is_open());
                open.any(|followed| followed.run == run.number)
            };
            let Some(place) = self.runs.iter().position(|run| !is_open(run)) else { return };
            self.runs.remove(place);
        }
    }

    /// Source of a kill.
    fn place(&mut self, now_ms: f64, kill: &Kill, probe: Option<usize>) -> Option<usize> {
        let Kill::Logged(logged) = kill else { return self.find_or_add(Scope::NotLogged) };
        match (&logged.victim.shortage, probe) {
            (OomShortage::Cgroup(Some(path)), probe) => {
                let scope = Scope::Cgroup(path.clone());
                let is_new = self.find(&scope).is_none() && probe.is_none();
                let below = is_new.then(|| self.crowded_above(path)).flatten();
                self.find_or_add(below.map_or(scope, Scope::Below))
            }
            (OomShortage::Cgroup(None), Some(probe)) => self.find_or_add(Scope::Service(probe)),
            (OomShortage::Cgroup(None), None) => self.place_of_user(logged.victim.user),
            _ => self.place_of_shortage(now_ms, kill, probe),
        }
    }

    /// A path below which too many cgroups are told apart already, the longest one.
    fn crowded_above(&self, path: &str) -> Option<String> {
        MAX_BELOW.iter().find_map(|(levels, most)| {
            let above = first_levels(path, *levels);
            let is_below = |followed: &&ScopeState| match &followed.scope {
                Scope::Cgroup(other) => first_levels(other, *levels) == above,
                _ => false,
            };
            (self.followed.iter().filter(is_below).count() >= *most).then_some(above)
        })
    }

    /// An open run of this user's processes at the limits of cgroups, or one of its own.
    fn place_of_user(&mut self, user: Option<u32>) -> Option<usize> {
        let hit = user.filter(|user| *user != 0).map(of_user);
        let is_his = |followed: &ScopeState| {
            let is_of_cgroup = matches!(followed.scope, Scope::Cgroup(_) | Scope::Below(_));
            is_of_cgroup
                && followed.detector.is_open()
                && hit.as_ref().is_some_and(|hit| followed.hit.contains(hit))
        };
        if let Some(place) = self.followed.iter().position(is_his) {
            return Some(place);
        }
        let is_of_user = |followed: &&ScopeState| matches!(followed.scope, Scope::User(Some(_)));
        let is_full = self.followed.iter().filter(is_of_user).count() >= MAX_USERS;
        let is_known = self.find(&Scope::User(user)).is_some();
        self.find_or_add(Scope::User(user.filter(|_| is_known || !is_full)))
    }

    /// A shortage of the machine in its first seconds is of the same run for all victims; later only for earlier victims.
    fn place_of_shortage(
        &mut self,
        now_ms: f64,
        kill: &Kill,
        probe: Option<usize>,
    ) -> Option<usize> {
        let hits = hits(kill);
        let of_machine = || {
            let all = self.followed.iter().enumerate();
            all.filter(|(_, followed)| followed.scope == Scope::Machine)
        };
        let is_same = |followed: &ScopeState| {
            let is_young =
                followed.detector.is_open() && now_ms - followed.began_ms < LEAST_QUIET_MS;
            is_young || hits.first().is_some_and(|hit| followed.hit.contains(hit))
        };
        let same = of_machine().find(|(_, followed)| is_same(followed)).map(|(place, _)| place);
        let is_full = of_machine().count() >= MAX_SHORTAGES && probe.is_none();
        let shared = of_machine().next_back().filter(|_| is_full).map(|(place, _)| place);
        same.or(shared).or_else(|| Some(self.add(Scope::Machine)))
    }

    fn find(&self, scope: &Scope) -> Option<usize> {
        self.followed.iter().position(|followed| followed.scope == *scope)
    }

    fn find_or_add(&mut self, scope: Scope) -> Option<usize> {
        self.find(&scope).or_else(|| Some(self.add(scope)))
    }

    fn add(&mut self, scope: Scope) -> usize {
        self.followed.push(ScopeState {
            scope,
            detector: OomDetector::default(),
            began_ms: 0.0,
            run: 0,
            hit: Vec::new(),
        });
        self.followed.len() - 1
    }
}

fn note_hit(hit: &mut Vec<String>, kill: &Kill) {
    for name in hits(kill) {
        if hit.len() < MAX_HIT && !hit.contains(&name) {
            hit.push(name);
        }
    }
}

/// Victim of a kill: the user, service or container by its cgroup, and the user by his number. The first tells victims
/// of the machine's shortage apart.
fn hits(kill: &Kill) -> Vec<String> {
    let Kill::Logged(logged) = kill else { return Vec::new() };
    let OomVictim { cgroup, user, .. } = &logged.victim;
    let tree = cgroup.as_deref().map(cgroup_tree).filter(|tree| !tree.is_empty());
    tree.into_iter().chain(user.map(of_user)).collect()
}

fn of_user(user: u32) -> String {
    format!("user {user}")
}

fn first_levels(path: &str, levels: usize) -> String {
    let names = path.split('/').filter(|name| !name.is_empty()).take(levels);
    names.fold(String::new(), |above, name| above + "/" + name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_collect::LoggedKill;

    fn kill(shortage: OomShortage, cgroup: Option<&str>, user: Option<u32>) -> Kill {
        let cgroup = cgroup.map(str::to_owned);
        let victim = OomVictim { count: 1, shortage, cgroup, user, ..OomVictim::default() };
        Kill::Logged(LoggedKill { victim, holders: Vec::new() })
    }

    fn at_limit(path: &str) -> Kill {
        kill(OomShortage::Cgroup(Some(path.to_owned())), Some(path), Some(1000))
    }

    fn of_machine(cgroup: &str) -> Kill {
        kill(OomShortage::Machine, Some(cgroup), None)
    }

    /// The numbers of the runs that began, of kills at a second each.
    fn begun(runs: &mut OomRuns<()>, second: u32, kill: Kill, probe: Option<usize>) -> Vec<u64> {
        let lost = probe.map(|probe| (probe, ())).into_iter().collect();
        let transitions = runs.turn(f64::from(second) * 1000.0, &[(kill, lost)]);
        let begun = transitions.into_iter().filter(|(what, _)| *what == OomTransition::Begun);
        begun.map(|(_, number)| number).collect()
    }

    const NONE: [u64; 0] = [];
    const MINE: &str = "/user.slice/user-1000.slice/mine";
    const DB: &str = "/system.slice/db.service";

    /// A kill a second, of 17 names, for minutes.
    #[test]
    fn the_database_s_kill_is_an_incident_of_its_own_beside_a_user_s() {
        let mut runs = OomRuns::default();
        for second in 0..300 {
            let expected: &[u64] = if second == 0 { &[1] } else { &[] };
            assert_eq!(begun(&mut runs, second, at_limit(MINE), None), expected);
        }
        assert_eq!(begun(&mut runs, 300, at_limit(DB), None), [2]);
        assert_eq!((runs.run(1).unwrap().kills.count, runs.run(2).unwrap().kills.count), (300, 1));
    }

    #[test]
    fn a_shortage_of_the_machine_is_told_again_for_whom_it_hits_later() {
        let mut runs = OomRuns::default();
        assert_eq!(begun(&mut runs, 0, of_machine(MINE), None), [1]);
        assert_eq!(begun(&mut runs, 3, of_machine("/system.slice/web.service"), None), NONE);
        for second in 4..60 {
            assert_eq!(begun(&mut runs, second, of_machine(MINE), None), NONE);
        }
        assert_eq!(begun(&mut runs, 60, of_machine(DB), None), [2], "a new page");
        assert_eq!(begun(&mut runs, 61, of_machine("/system.slice/web.service"), None), NONE);
        assert_eq!(begun(&mut runs, 62, at_limit(MINE), None), [3], "and a limit is another");
    }

    /// A kernel that kills often leaves out the cgroup of the limit.
    #[test]
    fn kills_without_a_cgroup_are_told_apart_by_their_users_and_services() {
        let unnamed = |user| kill(OomShortage::Cgroup(None), None, user);
        let mut runs = OomRuns::default();
        assert_eq!(begun(&mut runs, 0, at_limit(MINE), None), [1]);
        assert_eq!(begun(&mut runs, 1, unnamed(Some(1000)), None), NONE, "the user of the first");
        assert_eq!(begun(&mut runs, 2, unnamed(Some(105)), None), [2]);
        assert_eq!(begun(&mut runs, 3, unnamed(Some(1000)), Some(0)), [3], "a probed service");
        assert_eq!(begun(&mut runs, 4, unnamed(None), None), [4]);
        assert_eq!(begun(&mut runs, 5, Kill::Counted { unix_ms: 5, count: 2 }, None), [5]);
    }

    #[test]
    fn a_user_with_a_thousand_cgroups_has_a_few_incidents_and_hides_nobody() {
        let mut runs = OomRuns::default();
        let mut begun_by_user = 0;
        for second in 0..1000 {
            let path = format!("{MINE}/{second}");
            begun_by_user += begun(&mut runs, second, at_limit(&path), None).len();
        }
        // Each of eight and one of the others, which are quiet in between.
        assert!(begun_by_user <= 9, "{begun_by_user}");
        assert_eq!(begun(&mut runs, 1000, at_limit(DB), None).len(), 1);
        // A container's root makes cgroups of the first levels.
        for second in 1001..2000 {
            begun(&mut runs, second, at_limit(&format!("/lxc.x/{second}/a")), None);
        }
        assert_eq!(begun(&mut runs, 2000, at_limit("/db2"), None).len(), 1);
        assert!(runs.followed.len() <= 64 + MAX_USERS && runs.runs.len() <= MAX_RUNS);
        for second in 2001..4000 {
            begun(&mut runs, second, at_limit(&format!("/{second}")), None);
        }
        assert!(runs.followed.len() <= 80, "{}", runs.followed.len());
        let probed = begun(&mut runs, 4000, at_limit("/db3"), Some(1));
        assert_eq!(probed.len(), 1, "a probed service has its own however many there are");
    }

    #[test]
    fn what_is_over_is_forgotten_after_an_hour() {
        let mut runs = OomRuns::default();
        begun(&mut runs, 0, at_limit(MINE), None);
        assert!(runs.is_open());
        let over = runs.turn(LEAST_QUIET_MS, &[]);
        assert_eq!(over, [(OomTransition::Over, 1)]);
        assert!(!runs.is_open() && runs.run(1).is_some());
        runs.turn(2.0 * 3_600_000.0, &[]);
        assert!(runs.followed.is_empty());
    }
}
