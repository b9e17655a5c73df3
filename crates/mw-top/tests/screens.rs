//! What `memwright top` shows of captured machines, in terminals of several sizes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use jiff::tz::TimeZone;
use mw_collect::input;
use mw_model::{Incident, Role, Sample, Trigger, Window};
use mw_top::{Face, IncidentMark, Key, KeyEffect, Moment, Screen, Timeline, Top, Trail, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};
use std::path::Path;

const NOON_MS: u64 = 1_700_000_000_000;

fn window(fixture: &str) -> Window {
    mw_collect::window(&input::open(&mw_test::fixture(fixture)).unwrap())
}

/// The screen of a captured machine, with its two looks at the end of two quiet minutes.
fn screen(fixture: &str) -> Screen {
    let mut window = window(fixture);
    window.now.origin.taken_unix_ms = Some(NOON_MS);
    let first = window.earlier.first().unwrap().clone();
    let mut samples: Vec<(u64, Sample)> = Vec::new();
    for second in (1..120).rev() {
        let sample = Sample { at_ms: first.at_ms - second as f64 * 1000.0, ..first.clone() };
        samples.push((NOON_MS - 1000 - second * 1000, sample));
    }
    samples.push((NOON_MS - 1000, first));
    samples.push((NOON_MS, window.now.sample.clone()));
    let trail = Trail::from_samples(samples.iter().map(|(at, sample)| (*at, sample)));
    let report = mw_rules::check(&window, None);
    let timeline =
        Timeline { first_ms: NOON_MS - 120_000, last_ms: NOON_MS, ..Timeline::default() };
    Screen { moment: Moment::new(&window, report), trail, timeline, ..Screen::default() }
}

fn top() -> Top {
    Top::live(1000, TimeZone::UTC)
}

fn lines(top: &Top, screen: &Screen, face: Face, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(top, screen, face, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

/// Presses keys as a person would: a name for a key that is no character.
fn press(top: &mut Top, screen: &Screen, keys: &[&str]) {
    for key in keys {
        let code = match *key {
            "Enter" => KeyCode::Enter,
            "Down" => KeyCode::Down,
            "Left" => KeyCode::Left,
            character => KeyCode::Char(character.chars().next().unwrap()),
        };
        if let KeyEffect::Explain(rule) = top.press(Key::plain(code), screen) {
            top.show_page(mw_rules::find(&rule).unwrap().page());
        }
    }
}

/// A line with `##` for the number of rules that passed, which each new rule changes.
fn without_count(line: &str) -> String {
    match line.find(" rules pa") {
        Some(at) if at >= 2 => format!("{}##{}", &line[..at - 2], &line[at..]),
        _ => line.to_owned(),
    }
}

/// Compares a screen with the one that is kept. `MW_BLESS=1` keeps it anew; look at it before you
/// commit it.
fn check(name: &str, lines: &[String], failures: &mut Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/screens/{name}.txt"));
    let shown = lines.iter().map(|line| without_count(line) + "\n").collect::<String>();
    if std::env::var_os("MW_BLESS").is_some() {
        std::fs::write(&path, &shown).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    if shown != kept {
        failures.push(format!("{name}: kept:\n{kept}\nshown:\n{shown}"));
    }
}

#[test]
fn screens_of_captured_machines() {
    let mut failures = Vec::new();
    for (name, fixture, keys, width, height, face) in [
        ("healthy", "healthy/numa-2", &[][..], 80, 24, Face::rich()),
        ("storm", "reclaim-storm/firing", &[], 80, 24, Face::rich()),
        ("storm-ascii", "reclaim-storm/firing", &[], 80, 24, Face::plain()),
        ("storm-wide", "reclaim-storm/firing", &[], 132, 50, Face::rich()),
        ("storm-small", "reclaim-storm/firing", &[], 40, 12, Face::plain()),
        ("nodes", "fragmented-node/firing", &["2"], 80, 24, Face::rich()),
        ("nodes-wide", "healthy/numa-2", &["2"], 132, 50, Face::plain()),
        ("reclaim", "swap-thrash/firing", &["3"], 80, 24, Face::rich()),
        ("reclaim-wide", "swap-thrash/firing", &["3"], 132, 50, Face::plain()),
        ("tasks", "cgroup-limit/firing", &["4"], 80, 24, Face::rich()),
        ("hazards", "fragmented-node/firing", &["5"], 80, 24, Face::rich()),
        ("hazards-small", "reclaim-storm/firing", &["5"], 40, 12, Face::plain()),
        ("details", "reclaim-storm/firing", &["Enter"], 80, 24, Face::rich()),
        ("help", "healthy/debian-6.1", &["?"], 80, 24, Face::rich()),
        ("help-small", "healthy/debian-6.1", &["?"], 40, 12, Face::plain()),
        ("blind", "healthy/no-thp-no-psi", &[], 80, 24, Face::rich()),
        ("past", "reclaim-storm/firing", &["Left"], 80, 24, Face::rich()),
    ] {
        let screen = screen(fixture);
        let mut top = top();
        press(&mut top, &screen, keys);
        check(name, &lines(&top, &screen, face, width, height), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn any_size_is_drawn_on_and_the_verdict_comes_first() {
    let screen = screen("reclaim-storm/firing");
    for view in ["1", "2", "3", "4", "5", "?", "e", "Enter"] {
        let mut top = top();
        press(&mut top, &screen, &[view]);
        for (width, height) in [(1, 1), (2, 9), (9, 2), (20, 5), (69, 15), (70, 16), (300, 100)] {
            let lines = lines(&top, &screen, Face::rich(), width, height);
            let verdict: String = screen.moment.verdict.chars().take(8).collect();
            let first: String = lines[0].chars().take(8).collect();
            assert!(width < 9 || first == verdict, "{width}x{height}: {first}");
        }
    }
}

#[test]
fn the_page_of_a_rule_is_folded_to_the_terminal() {
    let screen = screen("reclaim-storm/firing");
    let mut top = top();
    press(&mut top, &screen, &["Down", "Down", "e"]);
    let lines = lines(&top, &screen, Face::rich(), 60, 24);
    assert_eq!(lines[2], "reclaim-storm");
    assert!(lines.contains(&"What it finds".to_owned()), "{lines:?}");
}

#[test]
fn a_screen_of_nothing_says_so() {
    let lines = lines(&top(), &Screen::default(), Face::rich(), 80, 24);
    assert_eq!(lines[0], "nothing to show yet");
    assert!(lines.iter().any(|line| line.contains("not collected")), "{lines:?}");
}

#[test]
fn a_seven_bit_terminal_gets_seven_bits_without_colour() {
    let screen = screen("reclaim-storm/firing");
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    for view in ["1", "2", "3", "4", "5", "?", "e"] {
        let mut top = top();
        press(&mut top, &screen, &[view]);
        terminal.draw(|frame| draw(&top, &screen, Face::plain(), frame)).unwrap();
        for cell in terminal.backend().buffer().content() {
            assert!(cell.symbol().is_ascii(), "view {view}: {}", cell.symbol());
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
            assert_eq!(cell.modifier, Modifier::empty());
        }
    }
}

/// A recording's screen: three incidents, and one that lies over the time that is shown.
fn recorded() -> Screen {
    let minute = |at: u64| NOON_MS - 3_600_000 + at * 60_000;
    let mark = |id: u64, started_ms: u64| IncidentMark {
        id,
        started_ms,
        ended_ms: started_ms + 12_000,
        verdict: "db waited 2.3 s: huge pages were compacted for (thp-compaction)".to_owned(),
    };
    let part = |pid, task: &str, why: &str| Role { pid, task: task.into(), why: why.into() };
    let incident = Incident {
        id: 2,
        verdict: mark(2, 0).verdict,
        trigger: Trigger {
            name: "db".to_owned(),
            limit_ms: 500.0,
            worst_ms: 2300.0,
            ..Trigger::default()
        },
        suffering: vec![part(812, "mysqld", "waited 2.3 s in compaction, 14 times")],
        causing: vec![part(4711, "backup", "brought 3.1 GiB into the page cache")],
        ..Incident::default()
    };
    let timeline = Timeline {
        first_ms: minute(0),
        last_ms: minute(60),
        incidents: vec![mark(1, minute(10)), mark(2, minute(30)), mark(3, minute(55))],
    };
    Screen { timeline, incident: Some(incident), ..screen("reclaim-storm/firing") }
}

#[test]
fn screens_of_a_recording() {
    let mut failures = Vec::new();
    let screen = recorded();
    let at_ms = screen.timeline.incidents[1].started_ms;
    for (name, keys, width, height) in [
        ("replay", &[][..], 80, 24),
        ("replay-small", &[], 40, 12),
        ("replay-tasks", &["4"], 80, 24),
        ("replay-details", &["Enter"], 80, 24),
        ("replay-incidents", &["6", "Down"], 80, 24),
    ] {
        let mut top = Top::replay(at_ms, 1000, TimeZone::UTC);
        press(&mut top, &screen, keys);
        check(name, &lines(&top, &screen, Face::rich(), width, height), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
