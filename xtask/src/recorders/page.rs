//! The table, for the terminal and for docs/benchmarks.md.

use super::measure::Measured;
use super::peers::PEERS;
use super::recording::{Kept, PERCENTILES};
use crate::root;
use anyhow::Context;
use std::fmt::Write as _;

const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- made by `cargo xtask recorders --write` -->";
const END: &str = "<!-- end of `cargo xtask recorders` -->";

const MIB: f64 = (1 << 20) as f64;

const ABOUT: &str = "\
All of them ran at once, each looked once a second, each in a control group of its own, which counts the
processor time of everything that it forks. Resident is the sum over its processes, at its largest.
Output is how much its files grew by. Of a recording it is its packed rows; the file also holds up to
300 rows that are not packed yet, and a log beside it, and neither grows. Written is what its processes
had the kernel write to disks. The others are Debian's, unpacked and not installed: `atop -w FILE 1`
without process accounting; `sadc -S ALL 1 FILE`; pmcd with Debian's agents and `pmlogger -t 1` with what
pmlogconf finds to log; pt-stalk asking a function that reads one line (and, before it starts, a
stand-in for MySQL), never triggered, so that it records nothing. The last line is what a loop costs.
";

/// The figures, as markdown.
pub(super) fn table(measured: &[Measured], seconds: u64) -> String {
    let mut text = format!("\n{ABOUT}\n{seconds} s:\n\n");
    text +=
        "| | processor, % of a core | resident, MiB | processes | output, MB/h | written, MB/h |\n";
    text += "|---|---|---|---|---|---|\n";
    for (peer, measured) in PEERS.iter().zip(measured) {
        text += &row(peer.name, measured);
    }
    let kept =
        PEERS.iter().zip(measured).filter_map(|(p, m)| Some((p.name, m.recording.as_ref()?)));
    text += "\nHow late the latest of each second's ten looks was, in ms, and rows that are missing:\n\n";
    text += &format!(
        "| |{} rows | missing |\n",
        PERCENTILES.map(|(name, _)| format!(" {name} |")).concat()
    );
    text += "|---|---|---|---|---|---|---|\n";
    for (name, kept) in kept {
        text += &punctual(name, kept);
    }
    text
}

fn row(name: &str, measured: &Measured) -> String {
    let per_hour = |bytes: u64| bytes as f64 * 3600.0 / measured.took_s;
    let output = match &measured.recording {
        Some(kept) => kept.packed_bytes_an_hour,
        None => Some(per_hour(measured.grown_bytes)),
    };
    let output = output.map_or("not known: too short".to_owned(), megabytes);
    format!(
        "| {name} | {:.2} | {:.1} | {} | {output} | {} |\n",
        measured.cpu_us as f64 / 1e4 / measured.took_s,
        measured.resident_bytes as f64 / MIB,
        measured.processes,
        megabytes(per_hour(measured.written_bytes)),
    )
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1e6)
}

fn punctual(name: &str, kept: &Kept) -> String {
    let mut text = format!("| {name} |");
    for late_ms in kept.late_ms {
        let _ = write!(text, " {late_ms:.1} |");
    }
    let share = kept.missing as f64 * 100.0 / (kept.rows + kept.missing) as f64;
    text + &format!(" {} | {} ({share:.2}%) |\n", kept.rows, kept.missing)
}

/// Puts the table between its marks.
pub(super) fn write(table: &str) -> anyhow::Result<()> {
    let path = root().join(PAGE);
    let page = crate::read(&path)?;
    let page =
        replaced(&page, table).with_context(|| format!("{PAGE}: no {BEGIN:?} and {END:?}"))?;
    std::fs::write(&path, page).context(PAGE)?;
    println!("wrote {PAGE}");
    Ok(())
}

fn replaced(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_its_marks_once() {
        let page = crate::read(&root().join(PAGE)).unwrap();
        assert_eq!((page.matches(BEGIN).count(), page.matches(END).count()), (1, 1));
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = replaced(&page, "new").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&once, "new").unwrap(), once);
        assert_eq!(replaced("nothing", "new"), None);
    }
}
