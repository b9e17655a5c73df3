//! The report of an incident in a real browser: drawn in full, without an error and without a
//! network, whatever the incident says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may stop at what they did not expect")]

mod browser;
mod sample;

use browser::{Page, Picture, Scheme};
use mw_model::{Column, Incident};
use mw_render::html::{FleetEvent, FleetFix, FleetForecast, FleetPage, FleetRow, fleet, incident};

/// Bytes that a report may have.
const LARGEST: usize = 3_000_000;

/// What every report is in a browser: ready, and with nothing to complain about.
#[track_caller]
fn check(elements: &str) {
    assert!(elements.contains("data-ready=\"true\""), "the scripts did not come to their end");
    let errors = between(elements, "id=\"errors\"", "</p>");
    assert!(errors.contains("hidden") && errors.ends_with('>'), "{errors}");
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}"));
    let rest = &text[start..];
    &rest[..rest.find(to).unwrap_or(rest.len())]
}

fn count(elements: &str, what: &str) -> usize {
    elements.matches(what).count()
}

/// Promise (The recorder): A report opens without a network and draws everything without an error, in light and dark,
/// in print and on a phone, in less than 3 MB.
#[test]
fn everything_is_drawn_without_an_error_or_a_network() {
    let html = incident(&sample::compaction()).unwrap();
    assert!(html.len() < LARGEST, "{} bytes", html.len());
    let Some(page) = Page::from_html(&html) else { return };
    let (elements, network) = page.elements();
    check(&elements);
    assert_eq!(count(&elements, "<canvas"), 10 + 3, "charts and maps");
    assert!(count(&elements, "class=\"branch ") > 60, "the flame graph");
    let path = between(&elements, "id=\"path\"", "</section>");
    assert_eq!(count(path, "<rect "), 3, "the critical path: two parts and the rest");
    assert!(
        path.contains("memwright (811, postgresql.service) probably waited for postgres"),
        "{path}"
    );
    for word in ["memwright fix thp-compaction", "compact_fail", "khugepaged", "delayacct"] {
        assert!(elements.contains(word), "{word}");
    }
    assert!(elements.contains("Zero throughout:</b> Swap."), "what has nothing to show is said");
    assert_eq!(asked_by_page(&network), 0);
}

/// Requests of a page in a browser's log; it makes some of its own, which no page began.
fn asked_by_page(network: &str) -> usize {
    count(network, "\"initiator\":\"") - count(network, "\"initiator\":\"not an origin\"")
}

#[test]
fn what_a_page_asks_of_the_network_would_be_seen() {
    let Some(page) = Page::from_html("<img src='http://127.0.0.1:9/picture.png'>") else { return };
    assert_eq!(asked_by_page(&page.elements().1), 1);
}

#[test]
fn it_is_drawn_in_light_and_in_dark() {
    let html = incident(&sample::compaction()).unwrap();
    let Some(page) = Page::from_html(&html) else { return };
    let light = page.picture(Scheme::Light, 1000, 5300);
    let dark = page.picture(Scheme::Dark, 1000, 5300);
    assert!(light.brightness() > 200.0, "{}", light.brightness());
    assert!(dark.brightness() < 80.0, "{}", dark.brightness());
    // The lines of the charts, the shaded stall, the map's full and empty cells, the flame graph.
    in_order(&light, ["#0b5cad", "#f8e9e8", "#124e86", "#f6c7a4", "#d85a36"]);
    in_order(&dark, ["#6fb1ff", "#39292a", "#b4dbff", "#7d4321", "#cf6239"]);
}

/// Charts come before maps, and maps before the flame graph.
#[track_caller]
fn in_order(picture: &Picture, [line, stall, full, none, more]: [&str; 5]) {
    let of = |colour: &str, at_least| {
        let lines = picture.lines_with(colour, at_least);
        assert!(lines.len() > 5, "{} lines of {colour}", lines.len());
        (lines[0], lines[lines.len() - 1])
    };
    let ((lines, _), (_, stall_end)) = (of(line, 12), of(stall, 60));
    let ((full, full_end), (none, _)) = (of(full, 400), of(none, 400));
    let (more, _) = of(more, 400);
    assert!(lines < stall_end && stall_end < full.min(none), "charts, then maps");
    assert!(full_end < more, "maps, then the flame graph");
}

#[test]
fn it_answers_to_mouse_and_keys() {
    let driver = format!("<script>{}</script></body>", include_str!("driver.js"));
    let html = incident(&sample::compaction()).unwrap();
    let html = html.replacen("Content-Security-Policy", "none", 1).replacen("</body>", &driver, 1);
    let Some(page) = Page::from_html(&html) else { return };
    let (elements, _) = page.elements();
    check(&elements);
    assert_eq!(
        between(&elements, "<title>", "</title>"),
        "<title>1 | 24% of the samples | swapper: 7.5% of total CPU time during the stall, \
         56% before | 100% | all: 73% of total CPU time during the stall, 66% before | \
         10:19:05.0 UTC, 1.6 s into the stall | 1.6 s"
    );
}

#[test]
fn it_fits_a_telephone() {
    let html = incident(&sample::compaction()).unwrap();
    let Some(page) = Page::from_html(&html) else { return };
    let picture = page.picture(Scheme::Light, 500, 6200);
    assert_eq!(picture.width, 500);
    // The critical path: 84% of the bar is its first part, and the page is no wider than the screen.
    assert!(!picture.lines_with("#d45500", 350).is_empty(), "the bar");
    for colour in ["#124e86", "#f6c7a4", "#d85a36"] {
        assert!(picture.lines_with(colour, 100).len() > 5, "{colour}");
    }
}

#[test]
fn it_prints() {
    let html = incident(&sample::compaction()).unwrap();
    let Some(page) = Page::from_html(&html) else { return };
    let paper = page.print();
    let text = String::from_utf8_lossy(&paper);
    let pages = count(&text, "/Type /Page") - count(&text, "/Type /Pages");
    assert!((2..12).contains(&pages), "{pages} pages");
    assert!(count(&text, "/Subtype /Form") >= 13, "charts and maps are on it");
}

/// Promise (The recorder): No name of a task or file runs as a script or controls a terminal.
#[test]
fn hostile_names_are_text() {
    let html = incident(&sample::hostile()).unwrap();
    assert!(html.len() < LARGEST, "{} bytes", html.len());
    assert!(!html.contains(sample::HOSTILE) && !html.contains("<img"));
    assert!(!html.contains(['\u{202e}', '\u{2028}']), "writing keeps its direction");
    let Some(page) = Page::from_html(&html) else { return };
    let (elements, _) = page.elements();
    check(&elements);
    assert!(!elements.contains("<img") && elements.contains("&lt;img src=x onerror="));
    assert!(elements.contains("<title>Incident 17 on &lt;/script&gt;"), "no script changed it");
    assert!(elements.contains("{{ 7*7 }}"), "names are no templates");
    assert!(!elements.contains("memwright fix"), "no rule is called so");
}

#[test]
fn a_script_that_got_into_it_does_not_run() {
    let html = incident(&Incident::default()).unwrap();
    let spoilt = html.replacen("<main>", "<main><script>document.title = 'owned'</script>", 1);
    let Some(page) = Page::from_html(&spoilt) else { return };
    let (elements, _) = page.elements();
    assert!(elements.contains("<title>Incident 0 on unknown host</title>"));
    let errors = between(&elements, "id=\"errors\"", "</p>");
    assert!(errors.contains("script-src-elem refused inline"), "and the page says so: {errors}");
}

#[test]
fn an_empty_incident_says_what_is_not_there() {
    let html = incident(&Incident::default()).unwrap();
    let Some(page) = Page::from_html(&html) else { return };
    let (elements, _) = page.elements();
    check(&elements);
    for text in [
        "An unexplained stall",
        "No rule explained this stall.",
        "No time series was recorded.",
        "Not recorded:</b> Probes (probe.*.worst_us);",
        "Free blocks were not recorded",
        "No stack was sampled during the stall.",
        "No waits for memory in the kernel.",
        "Everything was recorded.",
    ] {
        assert!(elements.contains(text), "{text}");
    }
    assert_eq!(count(&elements, "<canvas"), 0);
}

#[test]
fn a_report_stays_small_however_much_was_recorded() {
    let mut incident_of_hours = sample::compaction();
    let table = &mut incident_of_hours.table;
    let rows = 40_000;
    table.at_unix_ms = (0..rows).map(|row| 1_790_072_000_000 + row * 100).collect();
    for column in &mut table.columns {
        column.values = (0..rows).map(|row| row * row * 7919 % 999_983).collect();
    }
    for zone in 0..200 {
        let name = format!("buddy.{zone}.Normal.0");
        let values = table.columns[0].values.clone();
        table.columns.push(Column { name, values });
    }
    let many = |text: &str| text.repeat(1 + 100_000 / text.len());
    for task in &mut incident_of_hours.blocked {
        task.stack = vec![many("frame"); 300];
    }
    incident_of_hours.flood = vec![incident_of_hours.flood[0].clone(); 5000];
    incident_of_hours.verdict = many("verdict ");
    let html = incident(&incident_of_hours).unwrap();
    assert!(html.len() < LARGEST, "{} bytes", html.len());
}

/// What forty nodes had in a week.
fn week() -> FleetPage {
    let row = |name: &str, about: &str, share_percent| FleetRow {
        name: name.to_owned(),
        incidents: 211,
        about: about.to_owned(),
        lost: "3 h 12 min".to_owned(),
        share_percent,
    };
    let event = FleetEvent {
        began: "2026-11-25 10:02".to_owned(),
        lasted: "39 min 19 s".to_owned(),
        cause: "thp-compaction".to_owned(),
        nodes: "n[1-40]".to_owned(),
        incidents: 211,
        worst: "4.2 s on n17".to_owned(),
        verdict: "db did not answer for 4.2 s: direct compaction for transparent huge pages"
            .to_owned(),
    };
    FleetPage {
        verdict: "3 h 20 min lost on 40 of 41 nodes, 3 h 12 min of it to thp-compaction".to_owned(),
        period: "2026-11-18 11:00 to 2026-11-25 11:00".to_owned(),
        facts: vec![("Nodes".to_owned(), "41".to_owned())],
        causes: vec![row("thp-compaction", "40 nodes", 100.0), row("unknown", "1 nodes", 4.0)],
        nodes: (1..=40).map(|node| row(&format!("n{node}"), "thp-compaction", 50.0)).collect(),
        events: vec![event; 30],
        fixes: vec![FleetFix {
            rule: "thp-compaction".to_owned(),
            settings: "/sys/kernel/mm/transparent_hugepage/defrag = madvise".to_owned(),
            nodes: "n[1-20]".to_owned(),
            applied: "2026-11-20 10:02".to_owned(),
            before: "0.131%".to_owned(),
            after: "0.002%".to_owned(),
        }],
        forecasts: vec![FleetForecast {
            node: "n7".to_owned(),
            forecast: "2 MiB pages for 23 GiB run out in 9 h (6 to 14)".to_owned(),
            decline: "1.2 GiB an hour since 2026-11-24 02:00, 34 GiB left".to_owned(),
        }],
        silent: vec![("n41".to_owned(), "ssh: no route to host".to_owned())],
        ..FleetPage::default()
    }
}

/// Promise (Fixing): `fleet report` is one page that needs no network and no script, fits a telephone, and shows
/// names of nodes as text.
#[test]
fn the_page_of_a_fleet_needs_no_network_and_fits_any_width() {
    // What is wider than the window, in the title.
    let measure = "<script>document.title = document.documentElement.scrollWidth + ' of ' + window.innerWidth</script></body>";
    let html = fleet(&week()).unwrap();
    let Some(page) = Page::from_html(&html) else { return };
    let (elements, network) = page.elements();
    assert_eq!(asked_by_page(&network), 0);
    assert_eq!(count(&elements, "<tr>"), 6 + 2 + 40 + 30 + 1 + 1 + 1);
    assert!(elements.contains("<h1>3 h 20 min lost"), "{}", between(&elements, "<h1>", "</h1>"));
    let html = html.replacen("Content-Security-Policy", "none", 1).replacen("</body>", measure, 1);
    let Some(page) = Page::from_html(&html) else { return };
    for width in [500, 1400] {
        let elements = page.elements_at(width);
        let title = between(&elements, "<title>", "</title>").trim_start_matches("<title>");
        let (needed, there) = title.split_once(" of ").unwrap();
        let number = |text: &str| text.parse::<u32>().unwrap();
        assert!(number(needed) <= number(there), "{width}: {title}");
    }
}
