//! The man pages of commands: clap's options, and below them exit codes, examples, files and related pages.

use super::facts::{CommandFacts, FACTS, FAILURES, SUCCESS};
use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};
use std::collections::BTreeMap;

const SECTION: &str = "1";

/// Text that roff prints as an apostrophe.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

const FILES: [(&str, &str); 4] = [
    ("/etc/memwright/memwright.toml", "The configuration: memwright.toml(5)."),
    ("/var/lib/memwright/recording.db", "The recording of memwright-watch(1)."),
    (
        "/usr/share/doc/memwright/examples/memwright.toml",
        "A sample configuration with every entry.",
    ),
    (
        "/usr/share/doc/memwright",
        "Metrics, notifications, profiles, and the JSON schemas of what programs read.",
    ),
];

/// The pages of a command and of all below it: file names with contents.
pub(crate) fn pages(program: &Command) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut program = program.clone().disable_help_subcommand(true);
    program.build();
    let mut pages = BTreeMap::new();
    add(&program, None, &mut pages)?;
    Ok(pages)
}

fn add(
    command: &Command,
    group: Option<&Command>,
    pages: &mut BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add(below, Some(command), pages)?;
    }
    let man = Man::new(command.clone()).source(concat!("memwright ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(ending(command, group)?.render().into_bytes());
    // Each part begins with it.
    let page = PREAMBLE.to_owned() + &String::from_utf8(page)?.replace(PREAMBLE, "");
    pages.insert(format!("{}.{SECTION}", name(command)), page.into_bytes());
    Ok(())
}

/// The name of its page.
fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// Sections after the options.
fn ending(command: &Command, group: Option<&Command>) -> anyhow::Result<Roff> {
    let mut roff = Roff::new();
    let page = name(command);
    match (group, command.has_subcommands()) {
        (None, _) => {
            let help = command.get_after_help().context("no exit codes")?.to_string();
            tagged(&mut roff, "EXIT STATUS", &exit_codes(&help));
            tagged(&mut roff, "FILES", &FILES.map(|(file, about)| (file.into(), about.into())));
        }
        (Some(_), true) => {}
        (Some(_), false) => with_facts(&mut roff, facts(&page)?),
    }
    see_also(&mut roff, &related(command, group)?);
    Ok(roff)
}

fn facts(page: &str) -> anyhow::Result<&'static CommandFacts> {
    let is_its = |facts: &&CommandFacts| page_of(facts.command) == page;
    FACTS.iter().find(is_its).with_context(|| format!("{page}: xtask/src/manual/facts.rs lacks it"))
}

fn page_of(command: &str) -> String {
    format!("memwright-{}", command.replace(' ', "-"))
}

fn with_facts(roff: &mut Roff, facts: &CommandFacts) {
    let mut exits = vec![SUCCESS];
    exits.extend(facts.found.map(|found| ("1", found)));
    exits.extend(FAILURES.iter().chain(facts.more_exits));
    let exits: Vec<(String, String)> =
        exits.into_iter().map(|(code, meaning)| (code.into(), meaning.into())).collect();
    tagged(roff, "EXIT STATUS", &exits);
    roff.control("SH", ["EXAMPLES"]);
    for (line, about) in facts.examples {
        roff.control("PP", []).text([roman(*about)]);
        roff.control("PP", []).control("RS", ["4"]).control("EX", []).text([bold(*line)]);
        roff.control("EE", []).control("RE", []);
    }
}

fn tagged(roff: &mut Roff, heading: &str, items: &[(String, String)]) {
    roff.control("SH", [heading]);
    for (term, about) in items {
        roff.control("TP", []).text([bold(term.as_str())]).text([roman(about.as_str())]);
    }
}

/// The codes of `--help`, which has each in a line of `  CODE  meaning` and, indented further, what does not fit.
fn exit_codes(help: &str) -> Vec<(String, String)> {
    let mut codes: Vec<(String, String)> = Vec::new();
    for line in help.lines().skip(1) {
        let text = line.trim_start();
        match (line.len() - text.len(), text.split_once("  "), codes.last_mut()) {
            (0..=2, Some((code, meaning)), _) => codes.push((code.into(), meaning.trim().into())),
            (_, _, Some((_, meaning))) => *meaning += &format!(" {text}"),
            _ => {}
        }
    }
    codes
}

/// Pages of the same group, then others, the program's and the configuration's last.
fn related(command: &Command, group: Option<&Command>) -> anyhow::Result<Vec<String>> {
    let Some(group) = group else {
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set()).map(name);
        let shown = shown.map(|page| format!("{page}(1)"));
        return Ok(shown.chain(["memwright.toml(5)".to_owned()]).collect());
    };
    let page = name(command);
    let mut pages: Vec<String> = command.get_subcommands().map(name).collect();
    if name(group) != "memwright" {
        pages.push(name(group));
        pages.extend(group.get_subcommands().map(name).filter(|other| *other != page));
    }
    if !command.has_subcommands() {
        pages.extend(facts(&page)?.related.iter().map(|command| page_of(command)));
    }
    pages.push("memwright".to_owned());
    let pages = pages.into_iter().map(|page| format!("{page}({SECTION})"));
    Ok(pages.chain(["memwright.toml(5)".to_owned()]).collect())
}

fn see_also(roff: &mut Roff, pages: &[String]) {
    roff.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(page: &str) -> String {
        let pages = pages(&mw_cli::args::command()).unwrap();
        String::from_utf8(pages[page].clone()).unwrap()
    }

    /// Promise (Installation): Every man page of a command has exit codes, examples that parse, and names only pages
    /// that are installed.
    #[test]
    fn every_command_has_exit_codes_examples_and_related_pages() {
        for (page, bytes) in pages(&mw_cli::args::command()).unwrap() {
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.contains("\n.SH \"SEE ALSO\"\n"), "{page}");
            assert!(!text.contains(".SH EXTRA"), "{page}");
            let is_group = text.contains(".SH SUBCOMMANDS");
            for heading in [".SH \"EXIT STATUS\"\n", ".SH EXAMPLES\n"] {
                assert!(is_group || text.contains(heading), "{page}: no {heading}");
            }
        }
        let check = text_of("memwright-check.1");
        assert!(
            check.contains(".TP\n\\fB1\\fR\nThere is a finding at or above \\-\\-fail\\-on"),
            "{check}"
        );
    }

    #[test]
    fn exit_codes_are_paragraphs_that_can_be_wrapped() {
        let text = text_of("memwright.1");
        let code = "\\fB4\\fR\npermission denied: a privilege is missing\n";
        assert!(text.contains(code), "{text}");
        let all = exit_codes("Exit codes:\n  1  findings at\n     or above\n  126, 127  run: none");
        let all: Vec<(&str, &str)> = all.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(all, [("1", "findings at or above"), ("126, 127", "run: none")]);
    }

    #[test]
    fn examples_are_command_lines() {
        let mut program = mw_cli::args::command();
        program.build();
        for (line, _) in FACTS.iter().flat_map(|facts| facts.examples) {
            let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "sudo").collect();
            let parsed = program.clone().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
        let all = pages(&mw_cli::args::command()).unwrap();
        for facts in FACTS {
            assert!(
                all.contains_key(&format!("{}.1", page_of(facts.command))),
                "{}",
                facts.command
            );
        }
    }

    /// Every page that another one names is one of ours, and packages have it.
    #[test]
    fn pages_that_are_named_are_installed() {
        let all = pages(&mw_cli::args::command()).unwrap();
        for (page, bytes) in &all {
            let text = String::from_utf8(bytes.clone()).unwrap().replace("\\-", "-");
            assert!(!text.contains("docs/"), "{page} names a file of the source");
            for (before, after) in text.match_indices('(').map(|(at, _)| text.split_at(at)) {
                let section = after.get(1..3).unwrap_or_default();
                if !matches!(section, "1)" | "5)") {
                    continue;
                }
                let is_part = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
                let named = before.rsplit(|c| !is_part(c)).next().unwrap_or_default();
                if !named.starts_with("memwright") || named == "memwright.toml" {
                    continue;
                }
                assert!(all.contains_key(&format!("{named}.1")), "{page} names {named}");
            }
        }
    }
}
