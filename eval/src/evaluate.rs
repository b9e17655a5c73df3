//! Plays the lab's evaluations and writes docs/evaluations: NAME.json is what was measured, NAME.md and
//! NAME.svg are made from it and from lab/NAME/about.md, in which the recommendation stands.

mod page;
mod results;

use crate::ages;
use crate::workspace::{cargo, root, target_dir};
use anyhow::Context;
use mw_lab::vm::guest::GuestRole;
use mw_lab::{Case, CaseKind, GuestKernel, Lab, Variant, catalogue};
use results::Results;
use std::path::PathBuf;

const FOLDER: &str = "docs/evaluations";
const MOST_ROUNDS: usize = 20;
const MOST_JOBS: usize = 16;

/// Evaluates `names` (none: all of them) in so many rounds; `redraw` takes what was measured before.
/// Of each round, so many options are measured at once.
pub(crate) fn run(
    names: &[String],
    rounds: usize,
    jobs: usize,
    redraw: bool,
) -> anyhow::Result<()> {
    anyhow::ensure!((1..=MOST_ROUNDS).contains(&rounds), "--rounds is from 1 to {MOST_ROUNDS}");
    anyhow::ensure!((1..=MOST_JOBS).contains(&jobs), "--jobs is from 1 to {MOST_JOBS}");
    let all = evaluations(names)?;
    let mut problems = Vec::new();
    let lab = if redraw { None } else { Some(lab()?) };
    for case in &all {
        let results = match &lab {
            Some(lab) => play(lab, case, rounds, jobs)?,
            None => saved(&case.name)?,
        };
        if redraw {
            write(case, &results)?;
        }
        println!("wrote {FOLDER}/{}.md", case.name);
        problems.extend(page::broken_claims(case, &results));
    }
    anyhow::ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// The evaluations called `names`, or all.
fn evaluations(names: &[String]) -> anyhow::Result<Vec<Case>> {
    let lab = root().join("lab");
    let variants = catalogue::select(&lab, names, &[CaseKind::Evaluation])?;
    let mut names: Vec<&str> = variants.iter().map(|variant| variant.case.as_str()).collect();
    names.dedup();
    anyhow::ensure!(!names.is_empty(), "no evaluation is called so: see lab/evaluate-*");
    names.into_iter().map(|name| Ok(Case::read(&lab.join(name))?)).collect()
}

fn lab() -> anyhow::Result<Lab> {
    cargo(&["build", "--locked", "--release", "--package", "mw-cli"])?;
    Ok(Lab::new(&target_dir().join("release/memwright"))?)
}

/// All variants once, then all of them again: what changes on the host in the meantime meets all alike.
/// Each round is written when it is complete, so that an interrupted evaluation leaves what it has.
fn play(lab: &Lab, case: &Case, rounds: usize, jobs: usize) -> anyhow::Result<Results> {
    let first = case.variants.first().context("no variant")?;
    let kernel = GuestKernel::find(&first.kernel)?;
    let mut results = Results::new(case, &kernel.release);
    let play_one = |variant: &Variant| {
        lab.run(variant, &kernel, &kernel.release, GuestRole::Check, &mut |_| true).0
    };
    for round in 1..=rounds {
        for variants in case.variants.chunks(jobs) {
            let plays = std::thread::scope(|scope| {
                let playing: Vec<_> =
                    variants.iter().map(|variant| scope.spawn(|| play_one(variant))).collect();
                playing.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
            });
            for play in plays {
                let play = play.map_err(|_| anyhow::anyhow!("a player has panicked"))?;
                let played = results.round(&play);
                let said = played.failed.as_deref().unwrap_or("measured");
                println!("round {round} of {rounds}: {}: {said}", play.full_name());
                results.add(&play.variant, played);
            }
        }
        write(case, &results)?;
    }
    Ok(results)
}

fn path_of(name: &str, ending: &str) -> PathBuf {
    root().join(FOLDER).join(format!("{name}.{ending}"))
}

fn saved(name: &str) -> anyhow::Result<Results> {
    let path = path_of(name, "json");
    let text = crate::workspace::read(&path)?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn write(case: &Case, results: &Results) -> anyhow::Result<()> {
    std::fs::create_dir_all(root().join(FOLDER))?;
    let json = serde_json::to_string_pretty(results)? + "\n";
    for (ending, text) in [("json", json), ("svg", page::plot(case, results)?)] {
        std::fs::write(path_of(&case.name, ending), text)?;
    }
    let file = |ending: &str| format!("{FOLDER}/{}.{ending}", case.name);
    ages::draw(&file("md"), &page_of(case, results)?, &[&file("json")])
}

fn page_of(case: &Case, results: &Results) -> anyhow::Result<String> {
    let about = crate::workspace::read(&root().join("lab").join(&case.name).join("about.md"))?;
    page::page(case, &about, results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_test::stamp;

    /// The committed results are those that were measured, and the recommendations rest on them.
    ///
    /// Promise (The lab): Each recommendation in docs/evaluations rests on committed measurements.
    #[test]
    fn pages_are_those_of_their_results_and_claims_hold() {
        for case in evaluations(&[]).unwrap() {
            let results = saved(&case.name).unwrap();
            let is = |ending: &str| crate::workspace::read(&path_of(&case.name, ending)).unwrap();
            assert_eq!(
                stamp::without(&is("md")),
                page_of(&case, &results).unwrap(),
                "{}: --redraw",
                case.name
            );
            assert_eq!(is("svg"), page::plot(&case, &results).unwrap(), "{}", case.name);
            assert_eq!(page::broken_claims(&case, &results), [""; 0], "{}", case.name);
            let variants: Vec<&str> = case.variants.iter().map(|v| v.name.as_str()).collect();
            let tried: Vec<&str> = results.tried.iter().map(|t| t.option.as_str()).collect();
            assert_eq!(variants, tried, "{}: evaluate it again", case.name);
        }
    }
}
