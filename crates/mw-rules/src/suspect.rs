//! A rule's explanation of a stall on its way to a cause: first how strong the evidence of its condition is, then a score
//! by which causes are ranked, at last the confidence that causes with this score deserve (`confidence.rs`).

use mw_model::Finding;

/// From which score on a cause is plausible.
pub const PLAUSIBLE_PERCENT: u8 = 40;

/// How far the evidence confirms a condition, 0 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Strength(pub(crate) u8);

/// How well a condition explains a stall, 0 to 100: what causes are ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(pub(crate) u8);

/// The condition that a rule found during a stall.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Suspect {
    pub(crate) finding: Finding,
    pub(crate) strength: Strength,
    /// The share of the request's time that it explains, in percent, where the critical path shows it.
    pub(crate) explains_percent: Option<u8>,
}

/// A suspect with its score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScoredSuspect {
    pub(crate) suspect: Suspect,
    pub(crate) score: Score,
}

impl Score {
    /// The score of a condition without a critical path, which would show what it explains.
    pub(crate) fn of(strength: Strength) -> Self {
        Self(strength.0)
    }

    pub(crate) fn is_plausible(self) -> bool {
        self.0 >= PLAUSIBLE_PERCENT
    }

    /// A score between 0 and 100.
    pub(crate) fn rounded(percent: f64) -> Self {
        Self(percent.clamp(0.0, 100.0).round() as u8)
    }
}

impl Suspect {
    pub(crate) fn new(finding: Finding, strength_percent: u8) -> Self {
        Self { finding, strength: Strength(strength_percent), explains_percent: None }
    }

    /// A condition with a score of its own. Nothing is certain.
    pub(crate) fn of_score(finding: Finding, score_percent: f64) -> Self {
        const MOST: f64 = 95.0;
        Self::new(finding, score_percent.clamp(0.0, MOST).round() as u8)
    }

    /// It explains this share of the request's time, in percent.
    #[must_use]
    pub(crate) fn explaining(self, percent: f64) -> Self {
        Self { explains_percent: Some(percent.clamp(0.0, 100.0).round() as u8), ..self }
    }

    /// The share that it explains; 0 where that is unknown.
    pub(crate) fn explained(&self) -> u8 {
        self.explains_percent.unwrap_or(0)
    }

    /// As strong as its evidence: there is no critical path.
    pub(crate) fn by_strength(self) -> ScoredSuspect {
        let score = Score::of(self.strength);
        self.scored(score)
    }

    pub(crate) fn scored(self, score: Score) -> ScoredSuspect {
        ScoredSuspect { suspect: self, score }
    }
}

impl ScoredSuspect {
    pub(crate) fn rule(&self) -> &str {
        &self.suspect.finding.rule
    }
}
