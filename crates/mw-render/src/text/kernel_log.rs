//! A kernel log: the answer in one line, then a page for each cause.

use super::{MIN_WIDTH, TextLayout, TextPage};
use crate::visible::on_terminal;
use anstyle::Style;
use mw_kernel_log::{AnswerRow, KernelLogAnswer};

/// The column of labels.
const LABEL: usize = 11;
/// Causes that have a page; of the others the line.
const MAX_PAGES: usize = 3;

/// The page of a kernel log.
pub fn kernel_log(answer: &KernelLogAnswer, layout: TextLayout) -> String {
    let layout = TextLayout { width: layout.width.max(MIN_WIDTH), ..layout };
    let mut page = TextPage { layout, text: String::new() };
    let summary = page.painted(Style::new().bold(), &answer.summary);
    page.line(&summary);
    for (at, group) in answer.groups.iter().take(MAX_PAGES).enumerate() {
        if at > 0 {
            page.heading(&group.summary);
        } else {
            for other in answer.groups.iter().skip(1) {
                page.folded(LABEL, "also", &other.summary);
            }
            page.line("");
        }
        page.labelled(&group.rows);
    }
    if !answer.notes.is_empty() {
        page.line("");
    }
    for note in &answer.notes {
        page.folded(LABEL, "note", note);
    }
    on_terminal(&page.text, layout.colour)
}

impl TextPage {
    fn labelled(&mut self, rows: &[AnswerRow]) {
        for row in rows {
            self.folded(LABEL, &row.label, &row.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
        [    7.000000] app\x1b[2J invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
        [    7.000001] memory: usage 65536kB, limit 65536kB, failcnt 12\n\
        [    7.000002] Memory cgroup out of memory: Killed process 812 (app) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB\n\
        [    9.000000] usb: page allocation failure: order:5, mode:0xcc0(GFP_KERNEL), nodemask=(null)\n";

    /// Promise (Kernel logs): The first line is the answer, and the page fits 60 columns and has no control characters of
    /// the log.
    #[test]
    fn the_first_line_is_the_answer() {
        let answer = mw_kernel_log::explain(LOG.as_bytes());
        let layout = TextLayout { width: 60, verbose: false, colour: false };
        let text = kernel_log(&answer, layout);
        assert!(text.starts_with("app (812) was killed: "), "{text}");
        assert!(text.contains("\nalso       usb could not get 128 KiB"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 60), "{text}");
        assert!(!text.contains('\x1b'), "{text}");
    }
}
