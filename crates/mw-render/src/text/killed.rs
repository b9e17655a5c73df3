//! Kills: the answer in one line, then a row for each, the latest last.

use super::{MIN_WIDTH, TextLayout, TextPage, time};
use crate::visible::on_terminal;
use anstyle::Style;
use jiff::tz::TimeZone;
use mw_model::{KillList, Killer, ProcessKill, format_count, visible};

/// The column of times.
const TIME: usize = 21;
const DATE_BYTES: usize = "2026-11-22".len();

/// Kills that are listed below the answer.
const MAX_LISTED: usize = 100;

/// The answer in one line: the last kill, or that there is none.
pub fn kill_summary(list: &KillList, process: Option<&str>, now_unix_ms: u64) -> String {
    let at = |unix_ms| time(unix_ms, &TimeZone::system()).unwrap_or_default();
    let Some(last) = list.kills.last() else {
        let of = process.map_or(String::new(), |process| format!(" of {process}"));
        return format!("no kill{of} is known since {}", at(list.since_unix_ms));
    };
    let (moment, now) = (at(last.unix_ms), at(now_unix_ms));
    let is_today = moment.get(..DATE_BYTES) == now.get(..DATE_BYTES);
    let moment = if is_today { moment.get(DATE_BYTES + 1..).unwrap_or(&moment) } else { &moment };
    last.sentence(moment)
}

/// The page of kills.
pub fn kills(list: &KillList, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    let summary = page.painted(Style::new().bold(), &list.summary);
    page.line(&summary);
    if let Some(last) = list.kills.last() {
        page.evidence(last);
    }
    let earlier = list.kills.len().saturating_sub(1);
    if earlier > 0 {
        page.heading(&format!("{} before", format_count(earlier, "kill")));
    }
    let skipped = earlier.saturating_sub(MAX_LISTED);
    for kill in list.kills.iter().take(earlier).skip(skipped) {
        let at = time(kill.unix_ms, &TimeZone::system()).unwrap_or_default();
        let reason = kill.reason_text().map_or(String::new(), |reason| format!(": {reason}"));
        let signal = kill.signal.name();
        let text = format!("{}  {signal} by {}{reason}", kill.victim, kill.killer_text());
        page.folded(TIME, &at, &text);
    }
    if !list.notes.is_empty() {
        page.line("");
    }
    for note in &list.notes {
        page.folded(TIME, "note", note);
    }
    on_terminal(&page.text, layout.colour)
}

impl TextPage {
    /// Facts of the kill that the answer names.
    fn evidence(&mut self, kill: &ProcessKill) {
        let mut rows = vec![("signal", kill.signal.name().to_owned())];
        rows.extend(kill.victim.cgroup.clone().map(|path| ("cgroup", path)));
        rows.extend(kill.victim.uid.map(|uid| ("user", uid.to_string())));
        if let Some(sender) = &kill.sender {
            let parent = sender.parent.as_ref().filter(|parent| parent.pid > 0);
            let parent = parent.map_or(String::new(), |parent| {
                format!(", started by {} ({})", parent.name, parent.pid)
            });
            let place = sender.cgroup.as_ref().map_or(String::new(), |path| format!(", in {path}"));
            let user = sender.uid.map_or(String::new(), |uid| format!(", user {uid}"));
            let is_of_kernel = matches!(kill.killer, Killer::OomKiller | Killer::Kernel);
            let label = if is_of_kernel { "in the context of" } else { "sent by" };
            rows.push((label, format!("{sender}{user}{place}{parent}")));
        }
        rows.extend(kill.line.as_ref().map(|line| ("log", line.clone())));
        if kill.more > 0 {
            let more = format_count(kill.more, "further kill");
            rows.push(("not told apart", format!("{more} about that time")));
        }
        rows.extend(kill.unseen.iter().map(|unseen| ("not read", unseen.clone())));
        for (label, text) in rows {
            self.folded(TIME, label, &visible::line(&text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_model::{KillParty, ServiceProcess};

    /// Promise (Kills): The first line is the answer, and names of processes steer no terminal.
    #[test]
    fn the_first_line_is_the_answer() {
        let process = ServiceProcess { pid: 812, name: "db\x1b[2J".to_owned() };
        let victim =
            KillParty { process, cgroup: Some("/a\nb".to_owned()), ..KillParty::default() };
        let kill = ProcessKill {
            unix_ms: 1_700_000_000_000,
            victim,
            killer: Killer::Kernel,
            ..ProcessKill::default()
        };
        let mut list = KillList { kills: vec![kill.clone(), kill], ..KillList::default() };
        list.summary = kill_summary(&list, None, 1_800_000_000_000);
        let text = kills(&list, TextLayout { width: 60, verbose: false, colour: false });
        let first = text.lines().next().unwrap();
        assert!(
            first.starts_with("db\\u{1b}[2J (pid 812) was killed by the kernel at 2023-11-1"),
            "{text}"
        );
        assert!(
            first.ends_with(": reason unknown") && text.contains("\n1 kill before\n"),
            "{text}"
        );
        assert!(!text.contains('\x1b') && text.contains("/a\\u{a}b"), "{text}");
        let none = KillList { since_unix_ms: 1_700_000_000_000, ..KillList::default() };
        assert!(
            kill_summary(&none, Some("db"), 0).starts_with("no kill of db is known since 2023-")
        );
    }
}
