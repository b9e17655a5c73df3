//! What an evaluation says of itself, `[evaluation]` in `case.toml`: options are measured against each
//! other, each a variant, and nothing is looked for or mended.
//!
//! ```toml
//! kind = "evaluation"
//! [evaluation]
//! plot = ["create"]        # the measurements that are drawn, one after the other; all in one unit
//! [[evaluation.claim]]     # what the recommendation rests on, held against the middle of the rounds
//! of = "create"            # a measurement
//! less = "mode-0"          # a variant in which it is less,
//! more = "mode-4"          # one in which it is more,
//! times = 2.5              # and so many times as much at least
//! ```

use serde::Deserialize;

use crate::expect::Expect;

/// An evaluation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The measurements that are drawn.
    pub plot: Vec<String>,
    /// What the recommendation rests on.
    #[serde(default)]
    pub claim: Vec<Claim>,
}

/// One measurement of two options, compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is measured.
    pub of: String,
    /// The variant in which it is less.
    pub less: String,
    /// The variant in which it is more.
    pub more: String,
    /// How many times as much it is there at least.
    pub times: f64,
}

impl Claim {
    /// Whether it is true of these two.
    pub fn holds(&self, less: f64, more: f64) -> bool {
        more > less && more >= self.times * less
    }
}

impl Evaluation {
    /// What is wrong with it, for a case with these variants.
    pub(crate) fn check(&self, variants: &[&str]) -> Result<(), String> {
        if self.plot.is_empty() {
            return Err("[evaluation]: `plot` names nothing".to_owned());
        }
        for claim in &self.claim {
            for name in [&claim.less, &claim.more] {
                if !variants.contains(&name.as_str()) {
                    return Err(format!("[[evaluation.claim]]: no variant is called {name:?}"));
                }
            }
            // Not a number is no factor either.
            if !(claim.times >= 1.0 && claim.times.is_finite()) {
                return Err(format!("[[evaluation.claim]]: {} times is no claim", claim.times));
            }
        }
        Ok(())
    }
}

/// What is wrong with the promise of a variant of an evaluation.
pub(crate) fn check_expect(expect: &Expect, measures: bool) -> Result<(), String> {
    if !measures {
        return Err("an evaluation without measure.sh".to_owned());
    }
    let log = expect.log.clone();
    if *expect != (Expect { log, measured_only: true, ..Expect::default() }) {
        return Err("an evaluation can expect nothing but lines of the kernel's `log`".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), String> {
        toml::from_str::<Evaluation>(text).unwrap().check(&["a", "b"])
    }

    #[test]
    fn mistakes_are_named() {
        let claim = |less: &str, times: &str| {
            format!(
                "plot = ['x']\n[[claim]]\nof = 'x'\nless = '{less}'\nmore = 'b'\ntimes = {times}"
            )
        };
        assert_eq!(check(&claim("a", "2.0")), Ok(()));
        assert!(check(&claim("c", "2.0")).unwrap_err().contains("called \"c\""));
        for bad in ["0.5", "nan", "inf"] {
            assert!(check(&claim("a", bad)).unwrap_err().contains("is no claim"), "{bad}");
        }
        assert!(check("plot = []").unwrap_err().contains("names nothing"));
    }

    #[test]
    fn an_evaluation_promises_nothing() {
        let expect = |text: &str| {
            let expect: Expect = toml::from_str(text).unwrap();
            check_expect(&Expect { measured_only: true, ..expect }, true)
        };
        assert_eq!(expect("log = ['Out of memory']"), Ok(()));
        assert!(expect("found = ['oom-kill']").is_err());
        assert!(expect("no_finding = true").is_err());
        let nothing = Expect { measured_only: true, ..Expect::default() };
        assert!(check_expect(&nothing, false).unwrap_err().contains("without measure.sh"));
    }

    #[test]
    fn a_claim_of_nothing_against_nothing_does_not_hold() {
        let claim = Claim { of: "x".into(), less: "a".into(), more: "b".into(), times: 2.0 };
        assert!(claim.holds(1.0, 2.0) && claim.holds(0.0, 1.0));
        assert!(!claim.holds(1.0, 1.9) && !claim.holds(0.0, 0.0));
    }
}
