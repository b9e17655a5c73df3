//! A message as sendmail(8) takes it. Pure.

use crate::Notice;
use std::path::Path;

/// Longer subjects are cut: a line may have 998 bytes (RFC 5322).
const MAX_SUBJECT: usize = 160;

pub(crate) fn command(sendmail: &Path, to: &[String]) -> Vec<String> {
    let options = [sendmail.display().to_string(), "-i".to_owned(), "--".to_owned()];
    options.into_iter().chain(to.iter().cloned()).collect()
}

pub(crate) fn message(notice: &Notice, to: &[String]) -> String {
    // Foreign text has no line's end here, and the subject nothing but ASCII.
    let subject = format!("memwright: {}", notice.line());
    let ascii = |c: char| if c.is_ascii() && !c.is_control() { c } else { '?' };
    let subject: String = subject.chars().map(ascii).take(MAX_SUBJECT).collect();
    let mut text = format!(
        "To: {}\nSubject: {subject}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{}\n",
        to.join(", "),
        notice.line()
    );
    for cause in &notice.causes {
        let headline = mw_model::visible::line(&cause.finding.headline);
        text += &format!("\n- {headline} ({}, {}%)", cause.finding.rule, cause.confidence_percent);
    }
    text += &format!("\n\nOn {}: {}\n", notice.host, notice.report);
    text
}
