//! The obstacles of a request, the worst first.

use super::constraint::{name, remedy};
use mw_model::{
    Assessment, Ceiling, Constraint, ConstraintEffect, ConstraintKind, Obstacle, Request,
    format_bytes,
};

pub(super) fn all(assessment: &Assessment) -> Vec<Obstacle> {
    let words = |constraint| obstacle(&assessment.request, constraint);
    let mut obstacles: Vec<Obstacle> = shown(assessment).into_iter().map(words).collect();
    if let Some(ceiling) = &assessment.ceiling {
        let lift = less_than_ceiling(ceiling);
        obstacles.iter_mut().for_each(|obstacle| obstacle.lift.clone_from(&lift));
    }
    obstacles
}

/// The constraints that are obstacles: first what refuses the request, then by the size that is lacking. No setting
/// makes a request succeed that exceeds the machine, and none is proposed.
pub(super) fn shown(assessment: &Assessment) -> Vec<&Constraint> {
    let is_refusing = |constraint: &Constraint| constraint.effect == ConstraintEffect::Refuses;
    let is_shown = |constraint: &&Constraint| match constraint.effect {
        ConstraintEffect::Refuses => true,
        ConstraintEffect::MayRefuse => false,
        ConstraintEffect::Slows | ConstraintEffect::Informs => {
            assessment.ceiling.is_none() && !matches!(constraint.kind, ConstraintKind::Unread(_))
        }
    };
    let mut shown: Vec<&Constraint> = assessment.constraints.iter().filter(is_shown).collect();
    shown.sort_by_key(|c| (!is_refusing(c), std::cmp::Reverse(c.lacking_bytes())));
    shown
}

/// A constraint in words.
pub fn obstacle(request: &Request, constraint: &Constraint) -> Obstacle {
    Obstacle {
        blocks: constraint.effect == ConstraintEffect::Refuses,
        what: name(constraint),
        needed_bytes: constraint.needed_bytes,
        available_bytes: constraint.available_bytes,
        lift: remedy(request, constraint),
    }
}

fn less_than_ceiling(ceiling: &Ceiling) -> String {
    let whole = match &ceiling.nodes {
        None => "this machine has".to_owned(),
        Some(nodes) => {
            let (word, verb) = if nodes.len() == 1 { ("node", "has") } else { ("nodes", "have") };
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            format!("{word} {} {verb}", nodes.join(","))
        }
    };
    let swap = match ceiling.swap_bytes {
        0 => String::new(),
        swap => format!(" and {} of swap", format_bytes(swap)),
    };
    let memory = format_bytes(ceiling.memory_bytes);
    format!("request less, or add memory: {whole} {memory} in total{swap}")
}
