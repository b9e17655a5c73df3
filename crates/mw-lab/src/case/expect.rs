//! `[expect]` in `case.toml`: the findings while the condition is in force, their fixes, and bounds for
//! the measured effect.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The limit of `looks`.
const MAX_LOOKS: u32 = 30;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Rules that must report a finding while the condition is in force.
    pub found: Vec<String>,
    /// Rules that must pass then.
    pub absent: Vec<String>,
    /// By rule, a part of the headline of its finding.
    pub says: BTreeMap<String, String>,
    /// No rule that is not in `found` may report a warning or a critical finding.
    pub no_finding: bool,
    /// Rules whose findings `memwright fix` removes.
    pub fix: Vec<String>,
    /// The condition does not return when the fix is reverted: it was an action, not a setting.
    pub stays: bool,
    /// Number of checks, a second apart, of a condition that comes in bursts.
    pub looks: u32,
    /// Parts of lines of the kernel's log about trouble that this case causes on purpose.
    pub log: Vec<String>,
    /// Bounds, by the name of the measurement.
    pub effect: BTreeMap<String, EffectBounds>,
    /// The variant of an evaluation: nothing is promised, checked or fixed.
    #[serde(skip)]
    pub measured_only: bool,
}

impl Default for Expect {
    fn default() -> Expect {
        Expect {
            found: Vec::new(),
            absent: Vec::new(),
            says: BTreeMap::new(),
            no_finding: false,
            fix: Vec::new(),
            stays: false,
            looks: 1,
            log: Vec::new(),
            effect: BTreeMap::new(),
            measured_only: false,
        }
    }
}

/// Bounds for one measurement, by phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EffectBounds {
    pub during: Bound,
    pub fixed: Bound,
    pub reverted: Bound,
}

/// Bounds for one measurement in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bound {
    /// Multiple of the value before.
    pub times_at_least: Option<f64>,
    /// Multiple of the value before.
    pub times_at_most: Option<f64>,
    /// Share of the value while the condition was in force. A fix is judged against the damage: the
    /// value before may be so small that noise is a multiple of it.
    pub of_during_at_most: Option<f64>,
    /// In the measurement's unit.
    pub at_least: Option<f64>,
    /// In the measurement's unit.
    pub at_most: Option<f64>,
}

impl Bound {
    fn is_empty(&self) -> bool {
        *self == Bound::default()
    }

    /// The reason why `value` is out of bounds, given the values in the phases `before` and `during`; `None`: it is
    /// within.
    pub fn broken_by(
        &self,
        before: Option<f64>,
        during: Option<f64>,
        value: f64,
    ) -> Option<String> {
        let of_before = (before, "before");
        let bounds = [
            (self.at_least, None, false),
            (self.at_most, None, true),
            (self.times_at_least, Some(of_before), false),
            (self.times_at_most, Some(of_before), true),
            (self.of_during_at_most, Some((during, "during")), true),
        ];
        bounds.into_iter().find_map(|(bound, of, is_most)| breaks(value, bound?, of, is_most))
    }
}

/// The reason why `value` breaks `bound`, which is in its unit, or a multiple of the value in another phase.
fn breaks(
    value: f64,
    bound: f64,
    of: Option<(Option<f64>, &str)>,
    is_most: bool,
) -> Option<String> {
    let limit = match of {
        None => bound,
        Some((Some(other), _)) => bound * other,
        Some((None, phase)) => return Some(format!("not measured {phase}")),
    };
    let is_broken = if is_most { value > limit } else { value < limit };
    let word = if is_most { "more" } else { "less" };
    is_broken.then(|| match of {
        Some((Some(other), phase)) => {
            format!("{value}, which is {word} than {bound} times the {other} of {phase}")
        }
        _ => format!("{value}, which is {word} than {bound}"),
    })
}

impl Expect {
    /// `measures`: whether the case has a `measure.sh`.
    pub(crate) fn check(&self, measures: bool) -> Result<(), String> {
        for name in self.found.iter().chain(&self.absent).chain(&self.fix) {
            if !is_rule_name(name) {
                return Err(format!("invalid rule name {name:?}"));
            }
        }
        if let Some(name) = self.fix.iter().find(|name| !self.found.contains(name)) {
            return Err(format!("`fix` names {name:?}, which is not in `found`"));
        }
        if let Some(name) = self.says.keys().find(|name| !self.found.contains(name)) {
            return Err(format!("`says` names {name:?}, which is not in `found`"));
        }
        if self.stays && self.fix.is_empty() {
            return Err("`stays` without `fix`".to_owned());
        }
        if self.looks == 0 || self.looks > MAX_LOOKS {
            return Err(format!("`looks` is not from 1 to {MAX_LOOKS}"));
        }
        let nothing = self.found.is_empty() && self.absent.is_empty() && !self.no_finding;
        if nothing && self.effect.is_empty() {
            return Err(
                "`expect` is empty (use `found`, `absent`, `no_finding` or `effect`)".to_owned()
            );
        }
        self.effect.iter().try_for_each(|(name, effect)| self.check_effect(name, effect, measures))
    }

    fn check_effect(
        &self,
        name: &str,
        effect: &EffectBounds,
        measures: bool,
    ) -> Result<(), String> {
        if !measures {
            return Err(format!("`effect.{name}`, but the case has no measure.sh"));
        }
        let after = !effect.fixed.is_empty() || !effect.reverted.is_empty();
        if after && self.fix.is_empty() {
            return Err(format!("`effect.{name}` has a bound after `fix`, but nothing is fixed"));
        }
        if effect.during.of_during_at_most.is_some() {
            return Err(format!(
                "`effect.{name}`: `of_during_at_most` is for `fixed` and `reverted`"
            ));
        }
        if effect.during.is_empty() && !after {
            return Err(format!("`effect.{name}` has no bound"));
        }
        Ok(())
    }
}

/// Rule names become words of a shell script in the guest.
fn is_rule_name(name: &str) -> bool {
    let well = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(well)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expect(text: &str) -> Expect {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn expectations_are_read() {
        let got = expect(
            "found = ['zone-reclaim']\nfix = ['zone-reclaim']\n[effect.create]\n\
             during = { times_at_least = 3.0 }\nfixed = { times_at_most = 1.5 }",
        );
        assert_eq!(got.check(true), Ok(()));
        assert_eq!(got.looks, 1);
        assert_eq!(got.effect["create"].during.times_at_least, Some(3.0));
        assert!(got.effect["create"].reverted.is_empty());
    }

    fn check_mistake(text: &str, want: &str) {
        let error = expect(text).check(false).unwrap_err();
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        check_mistake("", "is empty");
        check_mistake("found = ['a b']", "invalid rule name \"a b\"");
        check_mistake("absent = ['x; reboot']", "invalid rule name");
        check_mistake("found = ['a']\nfix = ['b']", "`fix` names \"b\"");
        check_mistake("found = ['a']\nsays = { b = 'x' }", "`says` names \"b\"");
        check_mistake("found = ['a']\nstays = true", "`stays` without");
        check_mistake("found = ['a']\nlooks = 0", "`looks` is not");
        check_mistake("effect.x.during.at_most = 1.0", "no measure.sh");
        let measured = |text: &str| expect(text).check(true).unwrap_err();
        assert!(measured("effect.x = {}").contains("no bound"));
        let of_itself = measured("effect.x.during.of_during_at_most = 1.0");
        assert!(of_itself.contains("is for `fixed` and `reverted`"));
        assert!(measured("effect.x.fixed.at_most = 1.0").contains("nothing is fixed"));
    }

    fn check_bound(text: &str, before: Option<f64>, value: f64, want: Option<&str>) {
        let bound: Bound = toml::from_str(text).unwrap();
        assert_eq!(bound.broken_by(before, Some(8.0), value).as_deref(), want, "{text}");
    }

    #[test]
    fn bounds_hold_or_say_what_broke_them() {
        check_bound("times_at_least = 3.0", Some(2.0), 6.0, None);
        check_bound(
            "times_at_least = 3.0",
            Some(2.0),
            5.0,
            Some("5, which is less than 3 times the 2 of before"),
        );
        check_bound(
            "times_at_most = 1.5",
            Some(2.0),
            4.0,
            Some("4, which is more than 1.5 times the 2 of before"),
        );
        check_bound("times_at_most = 1.5", None, 4.0, Some("not measured before"));
        check_bound("at_most = 0.0", None, 0.0, None);
        check_bound("at_most = 0.0", None, 1.0, Some("1, which is more than 0"));
        check_bound("at_least = 2.0", None, 1.0, Some("1, which is less than 2"));
        check_bound("of_during_at_most = 0.25", None, 2.0, None);
        check_bound(
            "of_during_at_most = 0.25",
            None,
            3.0,
            Some("3, which is more than 0.25 times the 8 of during"),
        );
    }
}
