//! The critical path of a request as text: the answer, a bar, a table, and the chain of waits.

use super::{MIN_WIDTH, TextLayout, TextPage};
use crate::path_words::{answer, chain, doer, duration, kind, percent, remarks, stacks};
use crate::visible::{on_terminal, whole_words};
use anstyle::{AnsiColor, Color, Style};
use mw_critical_path::{PathPart, PathSummary};
use mw_model::visible;

/// Parts below this share are summed up.
const LEAST_PERCENT: f64 = 1.0;
const MAX_ROWS: usize = 10;
const MAX_BAR: usize = 80;

/// The critical path of a request, on one screen.
pub fn critical_path(path: &PathSummary, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    page.critical_path(path);
    on_terminal(&page.text, layout.colour)
}

impl TextPage {
    pub(super) fn critical_path(&mut self, path: &PathSummary) {
        let Some(answer) = answer(path) else { return };
        let room = self.layout.width.saturating_sub(1);
        for line in textwrap::wrap(&visible::line(&answer), whole_words(room)) {
            let line = self.painted(Style::new().bold(), &line);
            self.line(&line);
        }
        self.path_bar(path);
        self.path_table(path);
        let chain = chain(path);
        if !chain.is_empty() {
            self.heading("chain of waits");
        }
        for line in chain.iter().chain(&stacks(path)).chain(&remarks(path)) {
            self.folded(2, "", line);
        }
    }

    /// One bar over the width, a colour or shade a part.
    pub(super) fn path_bar(&mut self, path: &PathSummary) {
        let width = self.layout.width.min(MAX_BAR);
        let mut bar = String::new();
        let mut drawn = 0;
        for (index, part) in path.parts.iter().enumerate() {
            let cells = (percent(path, part.total_ns) * width as f64 / 100.0).round() as usize;
            let cells = cells.min(width - drawn);
            drawn += cells;
            bar.push_str(&self.painted(colour(index), &shade(index).repeat(cells)));
        }
        self.line(&bar);
    }

    pub(super) fn path_table(&mut self, path: &PathSummary) {
        let is_shown = |part: &&PathPart| percent(path, part.total_ns) >= LEAST_PERCENT;
        let shown: Vec<&PathPart> = path.parts.iter().take(MAX_ROWS).filter(is_shown).collect();
        for (index, part) in shown.iter().enumerate() {
            let mark = self.painted(colour(index), shade(index));
            let text = format!("{}  [{}]", kind(part), doer(part));
            self.path_row(&mark, (percent(path, part.total_ns), part.total_ns), &text);
        }
        let listed: u64 = shown.iter().map(|part| part.total_ns).sum();
        let rest = path.total_ns.saturating_sub(listed);
        if rest > 0 {
            self.path_row(" ", (percent(path, rest), rest), "smaller parts");
        }
    }

    /// A row, whose text is folded behind its numbers.
    fn path_row(&mut self, mark: &str, (percent, time): (f64, u64), text: &str) {
        let numbers = format!("{percent:5.1}%  {:>9}  ", duration(time));
        let indent = 2 + numbers.chars().count();
        let room = self.layout.width.saturating_sub(indent).max(MIN_WIDTH / 2);
        for (at, line) in textwrap::wrap(&visible::line(text), whole_words(room)).iter().enumerate()
        {
            match at {
                0 => self.line(&format!("{mark} {numbers}{line}")),
                _ => self.line(&format!("{:indent$}{line}", "")),
            }
        }
    }
}

fn colour(index: usize) -> Style {
    let colours = [
        AnsiColor::Red,
        AnsiColor::Yellow,
        AnsiColor::Blue,
        AnsiColor::Green,
        AnsiColor::Magenta,
        AnsiColor::Cyan,
    ];
    let colour = colours.get(index).copied().unwrap_or(AnsiColor::White);
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

fn shade(index: usize) -> &'static str {
    ["█", "▓", "▒", "░"].get(index).copied().unwrap_or("·")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mw_critical_path::{
        MachineOperation, MachinePause, PathTask, TimeKind, UserPlace, Wait, WaitLink,
    };

    fn task(tid: u32, name: &str) -> PathTask {
        PathTask { tid, name: name.to_owned(), process: tid, ..PathTask::default() }
    }

    fn part(kind: TimeKind, total_ns: u64, task: PathTask) -> PathPart {
        PathPart {
            kind,
            total_ns,
            task,
            inferred: false,
            holder: None,
            holders: Vec::new(),
            work: None,
            stack: Vec::new(),
            waker_stack: Vec::new(),
            user: UserPlace::default(),
        }
    }

    /// nginx waits for python3, which sleeps.
    fn proxied() -> PathSummary {
        let (client, nginx, python) = (task(1, "curl"), task(201, "nginx"), task(252, "python3"));
        let link = |waiter: &PathTask, other: &PathTask| WaitLink {
            waiter: waiter.clone(),
            wait: Wait::Socket,
            other: other.clone(),
            inferred: false,
            stack: Vec::new(),
            user: UserPlace::default(),
        };
        PathSummary {
            task: client.clone(),
            total_ns: 8_000_000_000,
            parts: vec![
                part(TimeKind::Waiting(Wait::Sleep), 7_500_000_000, python.clone()),
                part(TimeKind::Stopped, 450_000_000, nginx.clone()),
            ],
            rest_ns: 50_000_000,
            chain: vec![link(&client, &nginx), link(&nginx, &python)],
            ..PathSummary::default()
        }
    }

    #[test]
    fn the_chain_is_told_in_words() {
        let page = critical_path(&proxied(), TextLayout::default());
        let first = page.lines().next().unwrap();
        assert_eq!(first, "8.0 s; 94% of it: python3 (252) slept on a timer");
        assert!(page.contains("curl (1) waited for nginx (201) (a socket)\n"), "{page}");
        let last = "nginx (201) waited for python3 (252) (a socket), which slept 7.5 s on a timer";
        assert!(page.contains(last), "{page}");
        assert!(page.contains("0.6%") && page.contains("smaller parts"), "{page}");
    }

    #[test]
    fn what_is_inferred_is_probable() {
        let mut path = proxied();
        path.parts[0].inferred = true;
        path.chain[1].inferred = true;
        let page = critical_path(&path, TextLayout::default());
        assert!(page.starts_with("8.0 s; 94% of it: probably python3"), "{page}");
        assert!(page.contains("nginx (201) probably waited for python3"), "{page}");
    }

    #[test]
    fn a_pause_is_told_beside_the_chain_and_first_where_it_is_most() {
        let mut path = proxied();
        let mut page = |operation, total_ns| {
            path.pause = Some(MachinePause { process: task(7, "java"), operation, total_ns });
            critical_path(&path, TextLayout { width: 200, ..TextLayout::default() })
        };
        let most = page(MachineOperation::Collection, 7_500_000_000);
        let first =
            "8.0 s; 94% of it: java (7) collected garbage: python3 (252) slept on a timer\n";
        assert!(most.starts_with(first), "{most}");
        assert!(most.contains("threads of its virtual machine took 7.5 s of it"), "{most}");
        let little = page(MachineOperation::Safepoint, 1_000_000_000);
        assert!(little.starts_with("8.0 s; 94% of it: python3 (252) slept"), "{little}");
        assert!(little.contains("its VM Thread took 1.0 s of it"), "{little}");
        path.parts[0].user.functions = vec!["GenMarkSweep::invoke_at_safepoint".to_owned()];
        let known = critical_path(&path, TextLayout { width: 200, ..TextLayout::default() });
        assert!(known.contains("java (7) collected garbage: threads"), "{known}");
    }

    #[test]
    fn workers_of_run_times_without_work_are_told() {
        let mut path = proxied();
        path.parts[0].user.functions = vec!["runtime.stopm".to_owned()];
        let page = critical_path(&path, TextLayout::default());
        let said =
            "python3 (252) was in runtime.stopm: a thread of Go without a goroutine to run\n";
        assert!(page.contains(said), "{page}");
    }

    #[test]
    fn names_of_thread_process_work_and_unit() {
        let mut path = proxied();
        path.parts[0].task = PathTask {
            tid: 9,
            name: "worker".to_owned(),
            process: 7,
            process_name: Some("java".to_owned()),
            cgroup: Some("/system.slice/shop.service".to_owned()),
            ..PathTask::default()
        };
        path.parts[0].work = Some("wb_workfn".to_owned());
        let page = critical_path(&path, TextLayout::default());
        assert!(page.contains("worker (9, of java 7, wb_workfn, shop.service)"), "{page}");
    }

    /// Promise (Tracing: why): Commands and incidents show a critical path alike, also in 40 columns and on a
    /// telephone.
    #[test]
    fn it_fits_forty_columns() {
        for colour in [false, true] {
            let layout = TextLayout { width: 40, colour, ..TextLayout::default() };
            let page = anstream_stripped(&critical_path(&proxied(), layout));
            let widest = page.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= 40, "{widest}: {page}");
        }
    }

    /// Without colours: ESC, `[`, numbers, `m`.
    fn anstream_stripped(page: &str) -> String {
        let mut parts = page.split('\u{1b}');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
    }

    #[test]
    fn a_task_does_not_steer_the_terminal() {
        let mut path = proxied();
        path.parts[0].task.name = "\u{1b}[2J\nforged".to_owned();
        path.chain[1].other.name = "\u{1b}[2J\nforged".to_owned();
        let page = critical_path(&path, TextLayout { colour: true, ..TextLayout::default() });
        assert!(!page.contains("\u{1b}[2J") && !page.contains("\nforged"), "{page}");
    }
}
