//! The picture of a report: a browser's, of the page that the program makes of a stored incident. It is as old as that
//! page: CI compares its digest with the one that was drawn.

use crate::workspace::{self, built, cargo, read, root};
use crate::{ages, packages};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PICTURE: &str = "docs/report.png";
/// Page that shows the picture, with the digest of what it shows.
const PAGE: &str = "eval/results/report.md";
const INCIDENT: &str = "eval/results/report/incident.json.gz";
const DIGEST: [&str; 2] = ["<!-- the picture shows a page of digest ", " -->"];

/// The width and height of the window.
const WINDOW: &str = "--window-size=1100,1500";
/// A browser without a window that waits for nobody.
const BROWSER: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-extensions",
];
/// Seconds after which it hangs.
const LONGEST_S: &str = "180";

/// Draws the picture, or only checks it.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    cargo(&["build", "--locked", "--package", "docgen"])?;
    if check { self::check() } else { draw() }
}

fn draw() -> anyhow::Result<()> {
    packages::install(&[("chromium", "/usr/bin/chromium")])?;
    let dir = tempfile::tempdir()?;
    let html = html(dir.path())?;
    let mut browser = Command::new("timeout");
    browser.args(["--kill-after=5", LONGEST_S, "/usr/bin/chromium"]).args(BROWSER).arg(WINDOW);
    browser.arg(format!("--user-data-dir={}", dir.path().join("user").display()));
    browser.arg(format!("--screenshot={}", std::path::absolute(root().join(PICTURE))?.display()));
    workspace::run(browser.arg(format!("file://{}", html.display())))?;
    let page = root().join(PAGE);
    let text = read(&page)?;
    let old = drawn(&text)?.to_owned();
    std::fs::write(&page, text.replace(&old, &digest(&html)?))?;
    ages::stamp(&page)?;
    println!("wrote {PICTURE}");
    Ok(())
}

/// Fails where the program, as it was built last, shows another page now.
pub(crate) fn check() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let now = digest(&html(dir.path())?)?;
    let is_current = now == drawn(&read(&root().join(PAGE))?)?;
    anyhow::ensure!(is_current, "{PICTURE} is out of date: run 'cargo xtask pictures'");
    Ok(())
}

/// The report of the incident.
fn html(dir: &Path) -> anyhow::Result<PathBuf> {
    let page = dir.join("report.html");
    let mut json = Command::new("gzip");
    json.arg("-dc").arg(root().join(INCIDENT)).stdout(Stdio::piped());
    let mut json = json.spawn().context("gzip")?;
    let mut docgen = Command::new(built("docgen"));
    docgen.arg("--report").arg(&page).env("TZ", "UTC");
    workspace::run(docgen.stdin(json.stdout.take().context("gzip has no output")?))?;
    anyhow::ensure!(json.wait()?.success(), "gzip -dc {INCIDENT} failed");
    Ok(page)
}

fn digest(html: &Path) -> anyhow::Result<String> {
    ages::digest(Path::new("/"), &[html.to_str().context("a path that is not UTF-8")?])
}

/// The digest of the page that the picture shows.
fn drawn(page: &str) -> anyhow::Result<&str> {
    let found = page.split_once(DIGEST[0]).and_then(|(_, rest)| rest.split_once(DIGEST[1]));
    found.map(|(digest, _)| digest).with_context(|| format!("{PAGE} has no {:?}", DIGEST[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_digest_of_its_picture() {
        let page = read(&root().join(PAGE)).unwrap();
        assert_eq!(drawn(&page).unwrap().len(), 16);
        assert!(drawn("# A\n").is_err());
    }
}
