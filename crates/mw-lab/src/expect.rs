//! What a variant promises, `[expect]` in `case.toml`: what memwright finds while the condition is in
//! force, what mends it, and by how much it shows.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The most often that a bursty condition is looked for.
const MAX_LOOKS: u32 = 30;

/// The promise.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Rules that must find something while the condition is in force.
    pub found: Vec<String>,
    /// Rules that must not.
    pub absent: Vec<String>,
    /// Parts of headlines of findings while the condition is in force, by the rule that finds them.
    pub says: BTreeMap<String, String>,
    /// No rule that is not in `found` may find anything from a warning on; without `found`, memory is
    /// not to blame.
    pub no_finding: bool,
    /// Rules whose findings `memwright fix` mends.
    pub fix: Vec<String>,
    /// The condition does not come back when the fix is undone: it was an action, not a setting.
    pub stays: bool,
    /// How often to look, a second apart, for a condition that comes in bursts.
    pub looks: u32,
    /// Parts of lines of the kernel's log that tell of trouble which this case makes on purpose.
    pub log: Vec<String>,
    /// What measurements show, by the measurement's name.
    pub effect: BTreeMap<String, Effect>,
    /// Nothing is promised, looked for or mended: the variant of an evaluation.
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

/// Bounds for one measurement in the phases after the first.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Effect {
    /// While the condition is in force.
    pub during: Bound,
    /// After `fix`.
    pub fixed: Bound,
    /// After `undo`.
    pub undone: Bound,
}

/// Bounds for one measurement in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bound {
    /// At least so many times what it was before.
    pub times_at_least: Option<f64>,
    /// At most so many times what it was before.
    pub times_at_most: Option<f64>,
    /// At most this share of what it was while the condition was in force: how well a mend works is
    /// seen against the damage, and not against a first value that may be next to nothing.
    pub of_during_at_most: Option<f64>,
    /// At least this, in the measurement's unit.
    pub at_least: Option<f64>,
    /// At most this, in the measurement's unit.
    pub at_most: Option<f64>,
}

impl Bound {
    fn is_empty(&self) -> bool {
        *self == Bound::default()
    }

    /// What is wrong with `value`, which was `before` at first, and `during` while the condition was in
    /// force; `None`: nothing.
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

/// Why `value` breaks `bound`, which is in its unit or in times of what it was in another phase.
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
    /// What is wrong with the promise; `measures` says whether the case has a `measure.sh`.
    pub(crate) fn check(&self, measures: bool) -> Result<(), String> {
        for name in self.found.iter().chain(&self.absent).chain(&self.fix) {
            if !is_rule_name(name) {
                return Err(format!("{name:?} is no rule's name"));
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
                "`expect` promises nothing: say `found`, `absent`, `no_finding` or `effect`"
                    .to_owned(),
            );
        }
        self.effect.iter().try_for_each(|(name, effect)| self.check_effect(name, effect, measures))
    }

    fn check_effect(&self, name: &str, effect: &Effect, measures: bool) -> Result<(), String> {
        if !measures {
            return Err(format!("`effect.{name}`, but the case has no measure.sh"));
        }
        let after = !effect.fixed.is_empty() || !effect.undone.is_empty();
        if after && self.fix.is_empty() {
            return Err(format!("`effect.{name}` has a bound after `fix`, but nothing is fixed"));
        }
        if effect.during.of_during_at_most.is_some() {
            return Err(format!(
                "`effect.{name}`: `of_during_at_most` is for `fixed` and `undone`"
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
    fn a_promise_is_read() {
        let got = expect(
            "found = ['zone-reclaim']\nfix = ['zone-reclaim']\n[effect.create]\n\
             during = { times_at_least = 3.0 }\nfixed = { times_at_most = 1.5 }",
        );
        assert_eq!(got.check(true), Ok(()));
        assert_eq!(got.looks, 1);
        assert_eq!(got.effect["create"].during.times_at_least, Some(3.0));
        assert!(got.effect["create"].undone.is_empty());
    }

    fn check_mistake(text: &str, want: &str) {
        let error = expect(text).check(false).unwrap_err();
        assert!(error.contains(want), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        check_mistake("", "promises nothing");
        check_mistake("found = ['a b']", "\"a b\" is no rule's name");
        check_mistake("absent = ['x; reboot']", "no rule's name");
        check_mistake("found = ['a']\nfix = ['b']", "`fix` names \"b\"");
        check_mistake("found = ['a']\nsays = { b = 'x' }", "`says` names \"b\"");
        check_mistake("found = ['a']\nstays = true", "`stays` without");
        check_mistake("found = ['a']\nlooks = 0", "`looks` is not");
        check_mistake("effect.x.during.at_most = 1.0", "no measure.sh");
        let measured = |text: &str| expect(text).check(true).unwrap_err();
        assert!(measured("effect.x = {}").contains("no bound"));
        let of_itself = measured("effect.x.during.of_during_at_most = 1.0");
        assert!(of_itself.contains("is for `fixed` and `undone`"));
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
