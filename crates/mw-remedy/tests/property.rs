//! Random sequences of fixes, undos and other people's changes, against a model of a few lines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop where it stands")]

mod common;

use common::{KHUGEPAGED, SWAPPINESS, Tree, ZONE_RECLAIM, wants};
use mw_remedy::{SYSCTL_FILE, TMPFILES_FILE, UndoSelection, changes};
use proptest::prelude::*;

const PATHS: [&str; 3] = [ZONE_RECLAIM, SWAPPINESS, KHUGEPAGED];

#[derive(Debug, Clone)]
enum Op {
    Fix { wishes: Vec<(usize, u8)>, persist: bool },
    Somebody { path: usize, value: u8 },
    Undo { id: Option<u64>, force: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let proposal = (0..PATHS.len(), 0..4_u8);
    prop_oneof![
        (prop::collection::vec(proposal.clone(), 1..4), any::<bool>())
            .prop_map(|(wishes, persist)| Op::Fix { wishes, persist }),
        proposal.prop_map(|(path, value)| Op::Somebody { path, value }),
        (prop::option::of(1..8_u64), any::<bool>()).prop_map(|(id, force)| Op::Undo { id, force }),
    ]
}

#[derive(Default)]
struct Model {
    now: [u8; 3],
    changes: Vec<Change>,
}

struct Change {
    path: usize,
    before: u8,
    value: u8,
    persist: bool,
    active: bool,
}

impl Model {
    fn fix(&mut self, wishes: &[(usize, u8)], persist: bool) {
        let mut settled = [false; 3];
        for &(path, value) in wishes {
            if std::mem::replace(&mut settled[path], true) || self.now[path] == value {
                continue;
            }
            let before = std::mem::replace(&mut self.now[path], value);
            self.changes.push(Change { path, before, value, persist, active: true });
        }
    }

    fn covered(&self, index: usize) -> bool {
        let path = self.changes[index].path;
        self.changes[index + 1..].iter().any(|newer| newer.active && newer.path == path)
    }

    /// Whether what is there now was there before an older change.
    fn below(&self, index: usize) -> bool {
        let path = self.changes[index].path;
        let older = self.changes[..index].iter();
        older
            .filter(|older| older.active && older.path == path)
            .any(|older| older.before == self.now[path])
    }

    fn undo(&mut self, index: usize, force: bool) -> &'static str {
        let (covered, below) = (self.covered(index), self.below(index));
        let change = &mut self.changes[index];
        let now = &mut self.now[change.path];
        let outcome = if !change.active {
            "AlreadyUndone"
        } else if covered {
            "Blocked"
        } else if *now == change.before {
            "AlreadyBefore"
        } else if *now == change.value {
            "Restored"
        } else if below {
            "AlreadyBefore"
        } else if force {
            "Restored"
        } else {
            "Drifted"
        };
        if outcome == "Restored" {
            *now = change.before;
        }
        change.active &= !matches!(outcome, "AlreadyBefore" | "Restored");
        outcome
    }

    fn state(&self, index: usize) -> &'static str {
        let change = &self.changes[index];
        let now = self.now[change.path];
        if !change.active {
            "Undone"
        } else if self.covered(index) {
            "Covered"
        } else if now == change.before {
            "AlreadyBefore"
        } else if now == change.value {
            "InForce"
        } else if self.below(index) {
            "AlreadyBefore"
        } else {
            "Drifted"
        }
    }
}

fn name(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

fn check(tree: &Tree, model: &Model) {
    for (path, now) in PATHS.iter().zip(model.now) {
        assert_eq!(tree.get(path), format!("{now}\n"));
    }
    let seen = changes(&tree.kernel(), &tree.history());
    let states: Vec<String> = seen.changes.iter().map(|change| name(&change.state)).collect();
    let expected: Vec<&str> = (0..model.changes.len()).map(|index| model.state(index)).collect();
    assert_eq!(states, expected);
    let kept: String = [SYSCTL_FILE, TMPFILES_FILE]
        .iter()
        .filter(|file| tree.has(file))
        .map(|file| tree.get(file))
        .collect();
    for (index, change) in model.changes.iter().enumerate() {
        let there = kept.contains(&format!("# memwright change {} (rule)\n", index + 1));
        assert_eq!(there, change.active && change.persist, "change {}", index + 1);
    }
}

fn step(tree: &Tree, model: &mut Model, op: &Op) {
    match op {
        Op::Fix { wishes, persist } => {
            let findings: Vec<_> = wishes
                .iter()
                .map(|(path, value)| wants("rule", PATHS[*path], &value.to_string()))
                .collect();
            tree.fix(&findings, *persist).unwrap();
            model.fix(wishes, *persist);
        }
        Op::Somebody { path, value } => {
            tree.set(PATHS[*path], &format!("{value}\n"));
            model.now[*path] = *value;
        }
        Op::Undo { id: None, force } => {
            let outcomes = tree.undo(&UndoSelection::All, *force);
            for undone in outcomes {
                let expected = model.undo(undone.id as usize - 1, *force);
                assert_eq!(name(&undone.outcome), expected);
            }
        }
        Op::Undo { id: Some(id), force } if *id as usize <= model.changes.len() => {
            let undone = tree.undo(&UndoSelection::Ids(vec![*id]), *force).remove(0);
            let expected = model.undo(*id as usize - 1, *force);
            assert_eq!(name(&undone.outcome), expected);
        }
        Op::Undo { .. } => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_and_the_model_agree(ops in prop::collection::vec(op(), 1..25)) {
        let tree = Tree::new();
        for path in PATHS {
            tree.set(path, "0\n");
        }
        let before = tree.everything();
        let mut model = Model::default();
        for op in &ops {
            step(&tree, &mut model, op);
            check(&tree, &model);
        }
        let everything = Op::Undo { id: None, force: true };
        step(&tree, &mut model, &everything);
        step(&tree, &mut model, &everything);
        for path in PATHS {
            tree.set(path, "0\n");
        }
        assert_eq!(tree.everything(), before);
    }
}
