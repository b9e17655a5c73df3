use super::{
    Bar, BarOutcome, Bars, LARGEST, Lines, MOST_ROWS, MOST_SERIES, Mark, Panel, PlotError,
    PlotSpan, Series, Spread, Tone, bars, lines,
};

fn row(name: &str, parts: [f64; 3]) -> Bar {
    let total = parts.iter().sum::<f64>();
    let total = Spread { median: total, min: total * 0.9, max: total * 1.2 };
    Bar {
        name: name.to_owned(),
        outcome: BarOutcome::Measured { parts: parts.to_vec(), total, ratio: Some(total.median) },
    }
}

fn benchmark(rows: Vec<Bar>) -> Bars {
    Bars {
        title: "a title".to_owned(),
        axis: "ms/GiB".to_owned(),
        parts: ["create", "lock", "destroy"].map(str::to_owned).to_vec(),
        rows,
        marks: vec![Mark { name: "ceiling".to_owned(), at: 30.0 }],
        footnote: vec!["kernel 6.18".to_owned()],
    }
}

fn panel(points: &[(f64, f64)]) -> Panel {
    let series = Series { name: "service".to_owned(), points: points.to_vec() };
    Panel { heading: "GiB/s".to_owned(), series: vec![series] }
}

fn tale(panels: Vec<Panel>) -> Lines {
    let span =
        |name: &str, from_s, to_s, tone| PlotSpan { name: name.to_owned(), from_s, to_s, tone };
    let spans = vec![span("during", 0.0, 1.0, Tone::Bad), span("fix", 1.0, 1.0, Tone::Plain)];
    Lines { title: "a tale".to_owned(), panels, spans, footnote: vec![] }
}

/// Requirements of every plot: one document of finite numbers.
#[track_caller]
fn check(plot: Result<String, PlotError>) -> String {
    let svg = plot.unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for attribute in ["x", "y", "x1", "x2", "y1", "y2", "width", "height"] {
        for value in svg.split(&format!(" {attribute}=\"")).skip(1) {
            let value: f64 = value.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..10_000.0).contains(&value), "{attribute}={value} in {svg}");
        }
    }
    svg
}

#[test]
fn bars_show_all_that_was_measured() {
    let missing =
        Bar { name: "1G".to_owned(), outcome: BarOutcome::Missing("no pages".to_owned()) };
    let svg = check(bars(&benchmark(vec![row("plain calls 4k", [1.0, 421.0, 58.0]), missing])));
    for text in ["a title", "create", "plain calls 4k", ">480<", "480.0×", "no pages", "6.18"] {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
    assert!(svg.contains(">ceiling 30.0<") && svg.contains("stroke-dasharray"));
}

/// The length of each row's bar, from the first row on.
fn bar_lengths(svg: &str) -> Vec<f64> {
    let mut rows: Vec<(String, f64)> = Vec::new();
    for rect in svg.split("<rect ").skip(1).filter(|rect| rect.contains("height=\"17\"")) {
        let attribute = |name: &str| {
            let value = rect.split_once(&format!("{name}=\"")).unwrap().1;
            value.split('"').next().unwrap().to_owned()
        };
        let (y, width) = (attribute(" y"), attribute("width").parse::<f64>().unwrap());
        match rows.iter_mut().find(|row| row.0 == y) {
            Some(row) => row.1 += width,
            None => rows.push((y, width)),
        }
    }
    rows.into_iter().map(|row| row.1).collect()
}

#[test]
fn bars_are_as_long_as_their_labels_say() {
    // The medians of the parts add up to half of one total and to twice the other.
    let measured = |parts: [f64; 3], median| {
        let total = Spread { median, min: median * 0.9, max: median * 1.1 };
        let outcome = BarOutcome::Measured { parts: parts.to_vec(), total, ratio: None };
        Bar { name: "way".to_owned(), outcome }
    };
    let slow = measured([10.0, 10.0, 10.0], 60.0);
    let fast = measured([20.0, 20.0, 20.0], 30.0);
    let svg = check(bars(&benchmark(vec![slow, fast])));
    assert!(svg.contains(">60.0<") && svg.contains(">30.0<"), "{svg}");
    let lengths = bar_lengths(&svg);
    assert_eq!(lengths.len(), 2, "{svg}");
    assert!((lengths[0] / lengths[1] - 2.0).abs() < 0.02, "{lengths:?}");
}

#[test]
fn bars_of_any_length_are_drawn() {
    check(bars(&benchmark(vec![row("nothing", [0.0; 3])])));
    check(bars(&benchmark(vec![row("little", [1e-300; 3])])));
    check(bars(&benchmark(vec![row("much", [LARGEST / 4.0; 3]), row("little", [1.0; 3])])));
    let total = Spread { median: 3.0, min: 3.0, max: 3.0 };
    let outcome = BarOutcome::Measured { parts: vec![], total, ratio: Some(f64::NAN) };
    let rows = vec![Bar { name: String::new(), outcome }];
    check(bars(&Bars { rows, ..Bars::default() }));
    let long = "a name that nobody reads to its end ".repeat(100);
    check(bars(&benchmark((0..40).map(|_| row(&long, [1.0, 2.0, 3.0])).collect())));
}

#[test]
fn one_sample_has_no_whisker() {
    let total = Spread { median: 3.0, min: 3.0, max: 3.0 };
    let outcome = BarOutcome::Measured { parts: vec![1.0, 1.0, 1.0], total, ratio: None };
    let one = Bar { name: "one".to_owned(), outcome };
    let whiskers = |row| {
        let svg = check(bars(&Bars { marks: vec![], ..benchmark(vec![row]) }));
        svg.matches("#222222\" stroke-width=\"1.5").count()
    };
    assert_eq!((whiskers(one), whiskers(row("some", [1.0; 3]))), (0, 3));
}

#[test]
fn bars_that_cannot_be_drawn_are_errors() {
    assert_eq!(bars(&Bars::default()), Err(PlotError::Empty));
    for value in [f64::NAN, f64::INFINITY, f64::MAX, -1.0] {
        let plot = bars(&benchmark(vec![row("bad", [1.0, value, 1.0])]));
        assert!(matches!(plot, Err(PlotError::Value { name, .. }) if name == "bad"));
    }
    let other = Bars { parts: vec!["all".to_owned()], ..benchmark(vec![row("bad", [1.0; 3])]) };
    let error = bars(&other).unwrap_err();
    assert_eq!(error.to_string(), "bad has 3 parts where the plot has 1");
    let many = vec![row("way", [1.0; 3]); MOST_ROWS + 1];
    let error = bars(&benchmark(many)).unwrap_err();
    assert_eq!(error.to_string(), "201 rows are too many to plot; 200 fit");
}

#[test]
fn text_is_escaped() {
    let name = "a<b>&\"c\u{0}\u{ffff}";
    let svg = check(bars(&benchmark(vec![row(name, [1.0; 3])])));
    assert!(svg.contains(">a&lt;b&gt;&amp;\"c \u{fffd}</text>"), "{svg}");
    let mut series = panel(&[(0.0, 1.0)]);
    series.series[0].name = name.to_owned();
    let svg = check(lines(&Lines { title: name.to_owned(), ..tale(vec![series]) }));
    assert_eq!(svg.matches("a&lt;b&gt;&amp;\"c").count(), 3);
}

#[test]
fn the_same_input_makes_the_same_bytes() {
    let rows = || benchmark(vec![row("one", [1.0; 3]), row("two", [2.0; 3])]);
    assert_eq!(bars(&rows()), bars(&rows()));
    let points = || tale(vec![panel(&[(0.0, 1.0), (1.0, 2.0)])]);
    assert_eq!(lines(&points()), lines(&points()));
}

#[test]
fn lines_have_gaps_where_nothing_was_seen() {
    let points = [(4.0, 2.0), (0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, f64::INFINITY)];
    let svg = check(lines(&tale(vec![panel(&points), panel(&[(0.0, f64::NAN)])])));
    assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (1, 1));
    assert!(svg.contains("service (no data)") && svg.contains(">during<"));
}

#[test]
fn lines_of_any_size_are_drawn() {
    check(lines(&tale(vec![panel(&[(0.0, 0.0)])])));
    check(lines(&tale(vec![panel(&[(-LARGEST, -LARGEST), (LARGEST, LARGEST)])])));
    check(lines(&tale(vec![panel(&[(1e15, 1e17), (1e15, 1e17)])])));
    let mut crowd = panel(&[(0.0, 1.0), (1.0, 1.0)]);
    crowd.series = vec![crowd.series[0].clone(); MOST_SERIES];
    check(lines(&tale(vec![crowd.clone(), crowd])));
}

#[test]
fn many_points_are_thinned_without_losing_peaks() {
    let points: Vec<_> = (0..100_000)
        .map(|second| (f64::from(second), if second == 50_000 { 100.0 } else { 1.0 }))
        .collect();
    let spans = vec![];
    let svg = check(lines(&Lines { spans, ..tale(vec![panel(&points)]) }));
    assert!(svg.len() < 100_000, "{} bytes", svg.len());
    let top = svg.split("y1=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let top = top.map(|y| y.parse::<f64>().unwrap()).fold(f64::MAX, f64::min);
    assert!(svg.contains(&format!(",{top} ")), "no peak at {top}");
}

#[test]
fn lines_that_cannot_be_drawn_are_errors() {
    assert_eq!(lines(&Lines::default()), Err(PlotError::Empty));
    assert_eq!(lines(&tale(vec![panel(&[])])), Err(PlotError::Empty));
    for point in [(f64::NAN, 1.0), (0.0, f64::MAX)] {
        let plot = lines(&tale(vec![panel(&[point])]));
        assert!(matches!(plot, Err(PlotError::Value { .. })));
    }
    let crowd = Panel { series: vec![Series::default(); MOST_SERIES + 1], ..Panel::default() };
    assert!(matches!(lines(&tale(vec![crowd])), Err(PlotError::TooMany { .. })));
}
