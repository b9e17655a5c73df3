//! `memwright explain`: a rule's page, the list of rules, where all memory is, or what a kernel log says.

mod kernel_log;

use crate::args::ExplainArgs;
use crate::terminal::{self, print};
use crate::{Exit, Failure, live};
use mw_collect::Source;
use mw_model::{MemoryAccount, Missing};
use mw_render::text;
use mw_rules::RULES;

pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    if args.all_memory {
        return all_memory(args);
    }
    if let Some(file) = &args.log {
        return kernel_log::run(args, file.as_deref());
    }
    if args.format.is_json() {
        return Err(Failure::new(
            Exit::Usage,
            "--json needs --all-memory or --log: pages of rules are text",
        ));
    }
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

fn all_memory(args: &ExplainArgs) -> Result<Exit, Failure> {
    let account = match &args.root {
        Some(root) => super::tree::read(root, account)?.map(|mut account| {
            account.root = root.display().to_string();
            account
        }),
        None => account(&live::source()?),
    };
    let account = account.map_err(|missing| Failure::new(Exit::CouldNotCheck, missing))?;
    if args.format.is_json() {
        super::print_json(&account)?;
    } else {
        terminal::print_page(&text::account(&account, terminal::layout(args.verbose)));
    }
    Ok(Exit::Fine)
}

fn account(source: &Source) -> Result<MemoryAccount, Missing> {
    let snapshot = mw_collect::snapshot(source);
    let holders = mw_collect::holders(source, &snapshot);
    mw_rules::account(&snapshot, &holders)
}
