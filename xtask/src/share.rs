//! What takes long is divided into shares, of which a run of CI has one, by the hash of the commit.

use crate::workspace::commit_number;

/// Number of shares of the tests and checks. What is played in guests has as many as parts.
pub(crate) const SHARES: usize = 3;

/// What of the divided work a run does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommitShare {
    Whole,
    /// The share of the commit with this number.
    OfCommit(usize),
}

impl CommitShare {
    pub(crate) fn of(is_whole: bool) -> Self {
        let number = commit_number().filter(|_| !is_whole);
        number.map_or(Self::Whole, Self::OfCommit)
    }

    /// Whether the share of `shares` at index `at` is done.
    pub(crate) fn has(self, at: usize, shares: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::OfCommit(number) => number % shares == at,
        }
    }

    /// What this run does of one list for each share, and what it leaves to other commits.
    pub(crate) fn divide<T>(self, shares: &[T; SHARES]) -> (Vec<&T>, Vec<&T>) {
        let (own, others): (Vec<_>, Vec<_>) =
            shares.iter().enumerate().partition(|(at, _)| self.has(*at, SHARES));
        let plain = |list: Vec<(usize, _)>| list.into_iter().map(|(_, share)| share).collect();
        (plain(own), plain(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_has_one_share_and_all_of_them_are_the_whole() {
        for number in 0..12 {
            let has = (0..SHARES).filter(|at| CommitShare::OfCommit(number).has(*at, SHARES));
            assert_eq!(has.count(), 1);
            let (own, others) = CommitShare::OfCommit(number).divide(&[0, 1, 2]);
            assert_eq!((own.len(), others.len()), (1, SHARES - 1));
        }
        assert!((0..SHARES).all(|at| CommitShare::Whole.has(at, SHARES)));
    }
}
