//! What accompanies the answer.

use mw_model::{
    Answer, FolioSupply, Missing, Obstacle, ObstacleKind, PoolGrowth, Snapshot, caller,
};

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(super) obstacles: Vec<Obstacle>,
    pub(super) unseen: Vec<Missing>,
    /// The reason why the answer is unknown, if it is: a limit could not be determined, or depends on the program.
    pub(super) undecided: Option<String>,
    /// Possible growth of a pool that is too small.
    pub(super) pool_growth: Option<PoolGrowth>,
    /// Free memory for folios, where they are requested.
    pub(super) folios: Vec<FolioSupply>,
    /// True if a limit slows the process down without refusing the request.
    pub(super) slowed: bool,
}

impl Notes {
    pub(super) fn obstacle(
        &mut self,
        blocks: bool,
        what: impl Into<String>,
        needed_bytes: Option<u64>,
        available_bytes: Option<u64>,
        lift: impl Into<String>,
    ) {
        let (what, lift, kind) = (what.into(), lift.into(), ObstacleKind::Other);
        self.obstacles.push(Obstacle { blocks, what, needed_bytes, available_bytes, lift, kind });
    }

    /// A pool of huge pages is too small.
    pub(super) fn huge_pool(
        &mut self,
        what: String,
        needed_bytes: u64,
        available_bytes: u64,
        lift: String,
    ) {
        let (needed_bytes, available_bytes) = (Some(needed_bytes), Some(available_bytes));
        let (blocks, kind) = (true, ObstacleKind::HugePool);
        self.obstacles.push(Obstacle { blocks, what, needed_bytes, available_bytes, lift, kind });
    }

    /// The request exceeds the machine: no setting makes it succeed, and none is proposed.
    pub(super) fn beyond(&mut self, lift: &str) {
        self.obstacles.retain(|obstacle| obstacle.blocks);
        for obstacle in &mut self.obstacles {
            lift.clone_into(&mut obstacle.lift);
        }
    }

    pub(super) fn unseen(&mut self, missing: &Missing) {
        if !self.unseen.contains(missing) {
            self.unseen.push(missing.clone());
        }
    }

    /// A limit on the calling process could not be read: it may refuse the request.
    pub(super) fn unseen_limit(&mut self, snapshot: &Snapshot, missing: &Missing) {
        self.unseen(missing);
        if caller::undetermined(snapshot, missing.clone()).is_some() {
            self.undecided("a limit that could not be determined may refuse it".to_owned());
        }
    }

    /// The answer is unknown, for this reason; the first one counts.
    pub(super) fn undecided(&mut self, why: String) {
        self.undecided.get_or_insert(why);
    }

    /// A request that a limit may refuse or not is unknown.
    pub(super) fn within_limits(&self, machine: Answer) -> Answer {
        if machine != Answer::No && self.undecided.is_some() { Answer::Unknown } else { machine }
    }

    pub(super) fn answer(&self, is_plan_slow: bool) -> Answer {
        if self.obstacles.iter().any(|obstacle| obstacle.blocks) {
            Answer::No
        } else if is_plan_slow || self.slowed {
            Answer::Slowly
        } else {
            Answer::Yes
        }
    }

    /// Order: the limit that refuses the request first; then that with the largest shortfall.
    pub(super) fn sort(&mut self) {
        let lacks = |o: &Obstacle| {
            o.needed_bytes.unwrap_or(0).saturating_sub(o.available_bytes.unwrap_or(u64::MAX))
        };
        self.obstacles.sort_by_key(|o| (!o.blocks, std::cmp::Reverse(lacks(o))));
    }
}
