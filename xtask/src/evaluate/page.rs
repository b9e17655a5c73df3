//! The page and the plot of an evaluation, from what was measured. Pure.

use super::results::{Middle, Results, Tried};
use anyhow::Context;
use mw_lab::report::short;
use mw_lab::{Case, Claim};
use mw_render::plot::{Bar, Bars, Outcome, Spread, bars};
use std::fmt::Write;

/// The page: what `about` says, then the plot, the table, and what the recommendation rests on.
pub(super) fn page(case: &Case, about: &str, results: &Results) -> anyhow::Result<String> {
    let name = &case.name;
    let mut out = format!("{}\n\n## What was measured\n\n", about.trim_end());
    write!(
        out,
        "![{}]({name}.svg)\n\n{}\n\n",
        case.description,
        under(case, results, "in brackets")
    )?;
    let heads: Vec<String> =
        results.quantities.iter().map(|q| format!("{}, {}", q.name, q.unit)).collect();
    writeln!(out, "| option | {} |\n|---{}|", heads.join(" | "), "|---".repeat(heads.len()))?;
    for tried in &results.tried {
        writeln!(out, "| `{}` | {} |", tried.option, cells(results, tried).join(" | "))?;
    }
    out += "\nThe options:\n\n";
    for variant in &case.variants {
        writeln!(out, "- `{}`: {}", variant.name, variant.how)?;
    }
    let claims = case.evaluation.iter().flat_map(|evaluation| &evaluation.claim);
    let claims: Vec<String> = claims.map(|claim| said(claim, results)).collect();
    if !claims.is_empty() {
        out += "\nWhat the recommendation rests on, held against the middle of the rounds:\n\n";
        claims.iter().try_for_each(|claim| writeln!(out, "- {claim}"))?;
    }
    Ok(out)
}

/// The kernel, the machine and the rounds, in a paragraph; `ends` is where the least and the most stand.
fn under(case: &Case, results: &Results, ends: &str) -> String {
    let rounds = results.rounds();
    let these = match rounds {
        1 => "One round".to_owned(),
        _ => format!(
            "The middle of {rounds} rounds, each with all options in turn, and {ends} the least and \
             the most"
        ),
    };
    format!(
        "{these}. Linux {} in QEMU, {}. Guests are emulated in software, so that times tell of \
         ratios, not of speeds. Made by `cargo xtask evaluate {} --rounds {rounds}`.",
        results.kernel, results.machine, case.name
    )
}

fn cells(results: &Results, tried: &Tried) -> Vec<String> {
    let cell = |name: &String| {
        let middle = results.middle(&tried.option, std::slice::from_ref(name));
        middle.map_or_else(|| "-".to_owned(), ranged)
    };
    let mut cells: Vec<String> = results.quantities.iter().map(|q| cell(&q.name)).collect();
    let failed: Vec<&str> = tried.rounds.iter().filter_map(|r| r.failed.as_deref()).collect();
    if let (Some(first), Some(why)) = (cells.first_mut(), failed.first()) {
        let (count, of) = (failed.len(), tried.rounds.len());
        *first += &format!("; {count} of {of} {}", why.replace('|', "\\|").replace('\n', " "));
    }
    cells
}

/// `2.10 (2.00 to 2.31)`, or one number where all are the same.
fn ranged(middle: Middle) -> String {
    let median = short(middle.median);
    if middle.min == middle.max {
        return median;
    }
    format!("{median} ({} to {})", short(middle.min), short(middle.max))
}

/// The middle of what a claim compares: less, more.
fn compared(claim: &Claim, results: &Results) -> Option<(f64, f64)> {
    let of = std::slice::from_ref(&claim.of);
    let median = |option: &str| results.middle(option, of).map(|middle| middle.median);
    Some((median(&claim.less)?, median(&claim.more)?))
}

fn said(claim: &Claim, results: &Results) -> String {
    let Claim { of, less, more, times } = claim;
    let claimed = match times {
        1.0 => format!("{of} is more with `{more}` than with `{less}`"),
        _ => format!("{of} with `{more}` is at least {times} times what it is with `{less}`"),
    };
    let unit = results.unit(of).unwrap_or_default();
    match compared(claim, results) {
        None => format!("{claimed}: not measured"),
        Some((few, many)) => {
            let word = if claim.holds(few, many) { "" } else { "**does not hold**: " };
            format!("{claimed}: {word}{} against {} {unit}", short(many), short(few))
        }
    }
}

/// The claims that are not borne out.
pub(super) fn broken_claims(case: &Case, results: &Results) -> Vec<String> {
    let claims = case.evaluation.iter().flat_map(|evaluation| &evaluation.claim);
    let holds = |claim: &&Claim| {
        compared(claim, results).is_some_and(|(less, more)| claim.holds(less, more))
    };
    let broken = claims.filter(|claim| !holds(claim));
    broken.map(|claim| format!("{}: {}", case.name, said(claim, results))).collect()
}

/// The measurements that the case wants drawn, a bar for each option.
pub(super) fn plot(case: &Case, results: &Results) -> anyhow::Result<String> {
    let drawn = &case.evaluation.as_ref().context("not an evaluation")?.plot;
    let units: Vec<&str> = drawn.iter().filter_map(|name| results.unit(name)).collect();
    let unit = units.first().context("nothing that is to be drawn was measured")?;
    anyhow::ensure!(units.iter().all(|other| other == unit), "{drawn:?} have not one unit");
    let svg = bars(&Bars {
        title: case.description.clone(),
        axis: format!("{}, {unit}", drawn.join(" + ")),
        parts: drawn.clone(),
        rows: results.tried.iter().map(|tried| bar(results, tried, drawn)).collect(),
        marks: Vec::new(),
        footnote: vec![under(case, results, "as whiskers").replace('`', "")],
    })?;
    Ok(svg)
}

fn bar(results: &Results, tried: &Tried, drawn: &[String]) -> Bar {
    let part = |name: &String| {
        let middle = results.middle(&tried.option, std::slice::from_ref(name))?;
        Some(middle.median)
    };
    let parts: Option<Vec<f64>> = drawn.iter().map(part).collect();
    let failed = tried.rounds.iter().find_map(|round| round.failed.clone());
    let outcome = match (results.middle(&tried.option, drawn), parts) {
        (Some(Middle { median, min, max }), Some(parts)) => {
            Outcome::Measured { parts, total: Spread { median, min, max }, ratio: None }
        }
        _ => Outcome::Missing(failed.unwrap_or_else(|| "not measured".to_owned())),
    };
    Bar { name: tried.option.clone(), outcome }
}

#[cfg(test)]
mod tests {
    use super::super::results::{Quantity, Round};
    use super::*;
    use std::path::Path;

    fn case(times: &str) -> Case {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("measure.sh"), "").unwrap();
        let text = format!(
            "description = 'D'\nkind = 'evaluation'\n[machine]\nkernel = '6.1'\nmemory = '1G'\n\
             [evaluation]\nplot = ['create']\n[[evaluation.claim]]\nof = 'create'\nless = 'a'\n\
             more = 'b'\ntimes = {times}\n[variant.a]\nhow = 'A.'\n[variant.b]\nhow = 'B.'\n"
        );
        let mut case = Case::parse(dir.path(), &text).unwrap();
        case.name = Path::new("evaluate-x").display().to_string();
        case
    }

    fn results() -> Results {
        let round = |value: f64| Round {
            values: [("create".to_owned(), value)].into(),
            ..Round::default()
        };
        let broken = Round { failed: Some("failed: x|y".to_owned()), ..Round::default() };
        let tried = |option: &str, rounds: Vec<Round>| Tried { option: option.to_owned(), rounds };
        Results {
            kernel: "6.1.0".to_owned(),
            machine: "1024 MiB of memory".to_owned(),
            quantities: vec![Quantity { name: "create".to_owned(), unit: "s".to_owned() }],
            tried: vec![
                tried("a", vec![round(2.0), round(2.0)]),
                tried("b", vec![round(8.0), round(12.0), broken]),
            ],
        }
    }

    #[test]
    fn the_page_has_a_row_for_each_option_and_says_whether_claims_hold() {
        let text = page(&case("4.0"), "# T\n\nAbout.\n", &results()).unwrap();
        assert!(text.starts_with("# T\n\nAbout.\n\n## What was measured\n\n![D](evaluate-x.svg)"));
        assert!(text.contains("| option | create, s |\n|---|---|\n| `a` | 2 |\n"), "{text}");
        let row = "| `b` | 10 (8 to 12); 1 of 3 failed: x\\|y |\n";
        assert!(text.contains(row), "{text}");
        let claim = "- create with `b` is at least 4 times what it is with `a`: 10 against 2 s\n";
        assert!(text.ends_with(claim), "{text}");
        assert!(broken_claims(&case("4.0"), &results()).is_empty());
        let broken = broken_claims(&case("6.0"), &results());
        assert!(broken[0].contains("**does not hold**: 10 against 2 s"), "{broken:?}");
    }

    #[test]
    fn what_failed_in_every_round_is_drawn_as_missing() {
        let mut results = results();
        results.tried[0].rounds = vec![Round { failed: Some("why".into()), ..Round::default() }];
        assert!(plot(&case("1.0"), &results).unwrap().contains("why"));
        assert!(broken_claims(&case("1.0"), &results)[0].ends_with("not measured"));
    }
}
