//! `[evaluation]` in `case.toml`: the variants are options that are compared; nothing is checked or
//! fixed.
//!
//! ```toml
//! kind = "evaluation"
//! [evaluation]
//! plot = ["create"]        # the measurements in the chart, all in one unit
//! [[evaluation.claim]]     # what the recommendation rests on, checked on medians
//! of = "create"            # a measurement
//! less = "mode-0"          # a variant in which it is lower,
//! more = "mode-4"          # one in which it is higher,
//! times = 2.5              # by at least this factor; with one below 1, "more" may be that much lower
//! ```

use serde::Deserialize;

use crate::case::expect::Expect;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The measurements in the chart.
    pub plot: Vec<String>,
    /// Claims that the recommendation rests on.
    #[serde(default)]
    pub claim: Vec<Claim>,
}

/// A comparison of one measurement in two options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub of: String,
    /// The variant with the lower value.
    pub less: String,
    /// The variant with the higher value.
    pub more: String,
    /// The least factor between them. Below 1 the claim is that the first is not much higher than the second.
    pub times: f64,
}

impl Claim {
    pub fn holds(&self, less: f64, more: f64) -> bool {
        more > 0.0 && more >= self.times * less && (self.times < 1.0 || more > less)
    }
}

impl Evaluation {
    /// Validates it for a case with these variants.
    pub(crate) fn check(&self, variants: &[&str]) -> Result<(), String> {
        if self.plot.is_empty() {
            return Err("[evaluation]: `plot` is empty".to_owned());
        }
        for claim in &self.claim {
            for name in [&claim.less, &claim.more] {
                if !variants.contains(&name.as_str()) {
                    return Err(format!("[[evaluation.claim]]: unknown variant {name:?}"));
                }
            }
            // Not a number is no factor either.
            if !(claim.times > 0.0 && claim.times.is_finite()) {
                return Err(format!(
                    "[[evaluation.claim]]: invalid factor {} (use one above 0)",
                    claim.times
                ));
            }
        }
        Ok(())
    }
}

/// Validates `[expect]` of a variant of an evaluation.
pub(crate) fn check_expect(expect: &Expect, measures: bool) -> Result<(), String> {
    if !measures {
        return Err("an evaluation needs measure.sh".to_owned());
    }
    let log = expect.log.clone();
    if *expect != (Expect { log, measured_only: true, ..Expect::default() }) {
        return Err("an evaluation allows only `log` in [expect]".to_owned());
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
        assert!(check(&claim("c", "2.0")).unwrap_err().contains("unknown variant \"c\""));
        for bad in ["0.0", "-2.0", "nan", "inf"] {
            assert!(check(&claim("a", bad)).unwrap_err().contains("invalid factor"), "{bad}");
        }
        assert!(check("plot = []").unwrap_err().contains("is empty"));
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
        assert!(check_expect(&nothing, false).unwrap_err().contains("needs measure.sh"));
    }

    #[test]
    fn a_claim_of_nothing_against_nothing_does_not_hold() {
        let claim = Claim { of: "x".into(), less: "a".into(), more: "b".into(), times: 2.0 };
        assert!(claim.holds(1.0, 2.0) && claim.holds(0.0, 1.0));
        assert!(!claim.holds(1.0, 1.9) && !claim.holds(0.0, 0.0));
        let not_much_higher = Claim { times: 0.5, ..claim };
        assert!(not_much_higher.holds(2.0, 1.0) && !not_much_higher.holds(2.1, 1.0));
    }
}
