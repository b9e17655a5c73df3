//! Which item goes where there are too many, when anybody on the machine can add one.
//!
//! Items have sources: names in levels, such as `oom_kill/user.slice/user-1000.slice/app`. The item that goes is found
//! from the first level on, in the branch that holds most. Whoever adds many therefore pushes out his own, however he
//! names them below the level that is his.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Levels that are told apart; what lies deeper is of one source.
const MAX_LEVELS: usize = 16;

/// The place of the item that goes, of items with their sources and sizes, the oldest first: the oldest one of the source
/// that holds most. `None` where there is none.
pub fn place_to_free<'a>(items: impl IntoIterator<Item = (&'a str, u64)>) -> Option<usize> {
    let mut left: Vec<(usize, &str, u64)> = items
        .into_iter()
        .enumerate()
        .map(|(place, (source, size))| (place, source, size))
        .collect();
    for level in 0..MAX_LEVELS {
        // How much each holds, and its oldest item.
        let mut branches: BTreeMap<Option<&str>, (u64, Reverse<usize>)> = BTreeMap::new();
        for (place, source, size) in &left {
            let held = branches.entry(level_of(source, level)).or_insert((0, Reverse(*place)));
            held.0 = held.0.saturating_add(*size);
        }
        let (branch, _) = branches.into_iter().max_by_key(|(_, held)| *held)?;
        left.retain(|(_, source, _)| level_of(source, level) == branch);
        if branch.is_none() {
            break;
        }
    }
    left.first().map(|(place, ..)| *place)
}

fn level_of(source: &str, level: usize) -> Option<&str> {
    source.split('/').filter(|name| !name.is_empty()).nth(level)
}

/// The source of what happened to a cgroup, up to the level that belongs to a user, a service or a container.
pub fn cgroup_tree(path: &str) -> String {
    const LEVELS: usize = 2;
    let names = path.split('/').filter(|name| !name.is_empty()).take(LEVELS);
    names.fold(String::new(), |tree, name| tree + "/" + name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sources: &[&str], goes: Option<usize>) {
        let items = sources.iter().map(|source| (*source, 1));
        assert_eq!(place_to_free(items), goes, "{sources:?}");
    }

    #[test]
    fn whoever_has_most_loses_his_oldest() {
        check(&[], None);
        check(&["db", "oom/user", "oom/user", "canary"], Some(1));
        check(&["db", "db", "canary"], Some(0));
        check(&["/system.slice/db", "/user.slice/u1/a", "/user.slice/u1/b"], Some(1));
        let sizes = [("db", 100), ("oom/a", 30), ("oom/a", 30), ("oom/b", 50)];
        assert_eq!(place_to_free(sizes), Some(1), "a branch counts as a whole");
    }

    /// A user has as many cgroups as he likes; all are below his own.
    #[test]
    fn many_names_push_out_nobody_else() {
        let mine: Vec<String> = (0..100).map(|n| format!("oom/user.slice/u1/{n}")).collect();
        let mut items: Vec<&str> = vec!["oom/system.slice/db", "oom/user.slice/u2/x"];
        items.extend(mine.iter().map(String::as_str));
        for _ in 0..99 {
            let place = place_to_free(items.iter().map(|source| (*source, 1))).unwrap();
            assert!(items.remove(place).contains("u1"));
        }
        assert_eq!(items.len(), 3);
    }

    #[test]
    fn a_tree_is_a_user_s_or_a_service_s() {
        assert_eq!(cgroup_tree("/user.slice/user-1000.slice/a/b"), "/user.slice/user-1000.slice");
        assert_eq!(cgroup_tree("/db"), "/db");
        assert_eq!(cgroup_tree("/"), "");
    }
}
