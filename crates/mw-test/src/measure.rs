//! What benches are asked, and where what they measured goes.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A number that an option of the command line has, or what it is without it.
#[must_use]
pub fn number(name: &str, default: usize) -> usize {
    option(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// What an option of the command line has.
#[must_use]
pub fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1)
}

/// Whether something is asked for on the command line.
#[must_use]
pub fn is_asked(name: &str) -> bool {
    std::env::args().any(|arg| arg == name)
}

/// How many processors others keep busy now, which takes a second.
///
/// # Panics
/// Without /proc/stat.
#[must_use]
pub fn others() -> String {
    let ticks = || {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let first = stat.lines().next().unwrap();
        let fields: Vec<f64> = first.split_whitespace().skip(1).flat_map(str::parse).collect();
        (fields.iter().sum::<f64>(), fields[3] + fields[4])
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(1));
    let after = ticks();
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let busy = cpus * (1.0 - (after.1 - before.1) / (after.0 - before.0).max(1.0));
    format!("{busy:.1} of {cpus} processors")
}

/// The middle one, of an even number the upper of the two; not a number of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Puts a page where docs/benchmarks.md has what `command` made.
///
/// # Panics
/// Where that has no place for it.
pub fn replace(command: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
    let begin = format!("<!-- made by `{command} -- --write` -->\n");
    let end = format!("<!-- end of `{command}` -->\n");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&begin).unwrap();
    let (_, after) = rest.split_once(&end).unwrap();
    fs::write(&path, format!("{before}{begin}\n{page}\n{end}{after}")).unwrap();
}
