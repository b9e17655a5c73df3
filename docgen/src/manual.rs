//! memwright.toml(5) from docs/configuration.md: Markdown as man(7) has it. An item of a list that begins with a
//! term and a colon becomes a tagged paragraph.

mod command;
mod facts;

pub(crate) use command::pages as command_pages;

use crate::workspace::{read, root};
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

pub(crate) const PAGE: &str = "memwright.toml.5";
const SOURCE: &str = "docs/configuration.md";
const SUMMARY: &str = "memwright.toml - configuration file of memwright";
const SEE_ALSO: &str = "memwright(1), memwright-doctor(1), memwright-watch(1), memwright-run(1), \
                        memwright-pool(1), memwright-check(1)";

/// The whole page.
pub(crate) fn configuration() -> anyhow::Result<Vec<u8>> {
    let text = read(&root().join(SOURCE))?;
    let mut page = ManualPage::default();
    let version = concat!("memwright ", env!("CARGO_PKG_VERSION"));
    page.roff.control("TH", ["memwright.toml", "5", "", version]);
    page.roff.control("SH", ["NAME"]).text([roman(SUMMARY)]);
    page.roff.control("SH", ["DESCRIPTION"]);
    Parser::new(&text).try_for_each(|event| page.take(event))?;
    page.roff.control("SH", ["SEE ALSO"]).text([roman(SEE_ALSO)]);
    Ok(page.roff.render().into_bytes())
}

#[derive(Default)]
struct ManualPage {
    roff: Roff,
    /// Of the paragraph or item that is being read.
    pieces: Vec<(RoffFont, String)>,
    font: RoffFont,
    in_item: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum RoffFont {
    #[default]
    Roman,
    Bold,
    Italic,
}

impl ManualPage {
    fn take(&mut self, event: Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Start(Tag::Emphasis) => self.font = RoffFont::Italic,
            Event::Start(Tag::Strong) => self.font = RoffFont::Bold,
            Event::End(TagEnd::Emphasis | TagEnd::Strong) => self.font = RoffFont::Roman,
            Event::Start(Tag::Item) => self.in_item = true,
            Event::Start(_) | Event::End(TagEnd::Link | TagEnd::List(_)) => {}
            Event::Text(text) => self.pieces.push((self.font, text.into_string())),
            Event::Code(code) => self.pieces.push((RoffFont::Bold, code.into_string())),
            Event::SoftBreak => self.pieces.push((RoffFont::Roman, " ".to_owned())),
            Event::End(TagEnd::Heading(level)) => self.heading(level),
            Event::End(TagEnd::Paragraph) if !self.in_item => {
                let text = inlines(&std::mem::take(&mut self.pieces));
                self.roff.control("PP", []).text(text);
            }
            Event::End(TagEnd::Item) => self.item()?,
            Event::End(TagEnd::CodeBlock) => self.code_block(),
            other => anyhow::bail!("{SOURCE}: {other:?} has no form in a man page"),
        }
        Ok(())
    }

    /// The title is that of the page.
    fn heading(&mut self, level: HeadingLevel) {
        let text: String = self.pieces.drain(..).map(|(_, text)| text).collect();
        match level {
            HeadingLevel::H1 => {}
            // Names of tables are as in the file.
            _ if text.starts_with('[') => drop(self.roff.control("SH", [text.as_str()])),
            _ => drop(self.roff.control("SH", [text.to_uppercase().as_str()])),
        }
    }

    fn item(&mut self) -> anyhow::Result<()> {
        self.in_item = false;
        let mut term = std::mem::take(&mut self.pieces);
        let colon = |(font, text): &(RoffFont, String)| {
            let at = text.find(": ").filter(|_| *font == RoffFont::Roman)?;
            Some((at, text.clone()))
        };
        let place = term.iter().position(|piece| colon(piece).is_some());
        let place = place.ok_or_else(|| anyhow::anyhow!("{SOURCE}: no colon in {term:?}"))?;
        let mut body = term.split_off(place);
        if let Some((at, text)) = body.first().and_then(colon) {
            term.push((RoffFont::Roman, text[..at].to_owned()));
            body[0].1 = text[at + 2..].to_owned();
        }
        self.roff.control("TP", []).text(inlines(&term)).text(inlines(&body));
        Ok(())
    }

    fn code_block(&mut self) {
        let text: String = self.pieces.drain(..).map(|(_, text)| text).collect();
        self.roff.control("PP", []).control("EX", []);
        for line in text.lines() {
            self.roff.text([roman(line)]);
        }
        self.roff.control("EE", []);
    }
}

fn inlines(pieces: &[(RoffFont, String)]) -> Vec<Inline> {
    let styled = |(font, text): &(RoffFont, String)| match font {
        RoffFont::Roman => roman(text),
        RoffFont::Bold => bold(text),
        RoffFont::Italic => italic(text),
    };
    pieces.iter().map(styled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    fn pages() -> Vec<std::path::PathBuf> {
        let dir = root().join("docs/man").read_dir().unwrap();
        dir.map(|entry| entry.unwrap().path()).collect()
    }

    fn run(program: &str, args: &[&str], page: &Path) -> (String, String) {
        let output = Command::new(program).args(args).arg(page).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{program} {}: {}", page.display(), text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    }

    /// Promise (Installation): man(1) and apropos(1) accept every man page without a warning.
    #[test]
    fn groff_has_nothing_to_say_against_a_man_page() {
        for page in pages() {
            let (_, said) = run("groff", &["-K", "utf8", "-man", "-ww", "-z", "-Tutf8"], &page);
            assert_eq!(said, "", "{}", page.display());
        }
    }

    #[test]
    fn every_man_page_can_be_found_by_its_name() {
        for page in pages() {
            let (found, _) = run("lexgrog", &[], &page);
            let name = page.file_stem().unwrap().to_str().unwrap();
            assert!(found.contains(&format!("\"{name} - ")), "{found}");
        }
    }

    #[test]
    fn what_the_configuration_page_says_is_in_the_man_page() {
        let text = String::from_utf8(configuration().unwrap()).unwrap();
        for line in [
            ".SH [watch]",
            ".SH \"SEE ALSO\"",
            "\\fBcanary\\-limit\\fR (duration, default \\fB100ms\\fR)",
            "[[watch.probe]]",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
    }
}
