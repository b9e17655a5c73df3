//! `memwright explain`: a rule's page, or the list of rules.

use crate::args::ExplainArgs;
use crate::terminal::print;
use crate::{Exit, Failure};
use mw_rules::RULES;

pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    match &args.rule {
        Some(id) => print(&super::rule(id)?.page()),
        None => print(&list()),
    }
    Ok(Exit::Fine)
}

fn list() -> String {
    let width = RULES.iter().map(|rule| rule.id.len()).max().unwrap_or(0);
    RULES.iter().map(|rule| format!("{:<width$}  {}\n", rule.id, rule.summary())).collect()
}
