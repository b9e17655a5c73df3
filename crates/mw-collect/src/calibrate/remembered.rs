//! The cost of unbacked memory, as an earlier calibration of this boot measured it.
//!
//! Where a large process ended just now, the next request meets backed memory first and unbacked
//! memory behind it, which a calibration cannot reach. The cost is a property of the host: what an
//! earlier calibration measured is better than an assumption. The file holds one line and is lost
//! with the boot; only root writes it, and only root's is read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const DIR: &str = "/run/memwright";
const NAME: &str = "unbacked";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const MOST_BYTES: u64 = 256;
/// Costs that a host may have, in nanoseconds a byte: between a copy from a cache and a disk.
const POSSIBLE: std::ops::RangeInclusive<f64> = 0.01..=1000.0;
/// So many measurements are kept, and their median counts: one is made of few blocks, and other
/// threads may have delayed it.
const MOST_VALUES: usize = 7;

/// Combines what was measured now with what is remembered, and remembers the outcome.
pub(super) fn combined(measured: Option<f64>) -> Option<f64> {
    combined_in(Path::new(DIR), &boot_id()?, measured)
}

fn boot_id() -> Option<String> {
    Some(fs::read_to_string(BOOT_ID).ok()?.trim().to_owned())
}

fn combined_in(dir: &Path, boot: &str, measured: Option<f64>) -> Option<f64> {
    let mut values = recall(dir, boot).unwrap_or_default();
    if let Some(new) = measured.filter(|new| POSSIBLE.contains(new)) {
        values.push(new);
        values.drain(..values.len().saturating_sub(MOST_VALUES));
        // Without the file, the next calibration starts anew.
        let _ = remember(dir, boot, &values);
    }
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn recall(dir: &Path, boot: &str) -> Option<Vec<f64>> {
    if !is_roots(&fs::symlink_metadata(dir).ok()?) {
        return None;
    }
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(dir.join(NAME))
        .ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || !is_roots(&metadata) {
        return None;
    }
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    let (of_boot, values) = text.trim().split_once(' ')?;
    let values: Vec<f64> =
        values.split(' ').map(|value| value.parse().ok()).collect::<Option<_>>()?;
    let is_good = of_boot == boot && values.iter().all(|value| POSSIBLE.contains(value));
    is_good.then_some(values)
}

/// Whether nobody but root can have written it.
fn is_roots(metadata: &fs::Metadata) -> bool {
    metadata.uid() == 0 && metadata.mode() & 0o022 == 0
}

fn remember(dir: &Path, boot: &str, values: &[f64]) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    if !dir.exists() {
        fs::create_dir(dir)?;
    }
    if !is_roots(&fs::symlink_metadata(dir)?) {
        return Ok(());
    }
    let new = dir.join(format!(".{NAME}.{}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).mode(0o644).open(&new)?;
    let values: Vec<String> = values.iter().map(|value| format!("{value:.4}")).collect();
    let line = format!("{boot} {}\n", values.join(" "));
    let written = file.write_all(line.as_bytes()).and_then(|()| fs::rename(&new, dir.join(NAME)));
    if written.is_err() {
        fs::remove_file(&new)?;
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn dir() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap()
    }

    #[test]
    fn what_was_measured_on_this_boot_is_remembered() {
        if !rustix::process::geteuid().is_root() {
            return mw_test::skip("only root remembers");
        }
        let dir = dir();
        assert_eq!(combined_in(dir.path(), "a", None), None);
        assert_eq!(combined_in(dir.path(), "a", Some(2.0)), Some(2.0));
        assert_eq!(combined_in(dir.path(), "a", None), Some(2.0));
        for _ in 0..20 {
            combined_in(dir.path(), "a", Some(3.0));
        }
        assert_eq!(combined_in(dir.path(), "a", Some(0.5)), Some(3.0), "one of many");
        assert_eq!(combined_in(dir.path(), "b", None), None, "another boot");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_may_have_written_is_not_believed() {
        if !rustix::process::geteuid().is_root() {
            return mw_test::skip("only root remembers");
        }
        let dir = dir();
        let path = dir.path().join(NAME);
        for text in ["a 1e9", "a -1", "a 2 NaN", "a", "", "a 2 x", "\u{0}"] {
            fs::write(&path, text).unwrap();
            assert_eq!(recall(dir.path(), "a"), None, "{text:?}");
        }
        fs::write(&path, "a 2").unwrap();
        assert_eq!(recall(dir.path(), "a"), Some(vec![2.0]));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(recall(dir.path(), "a"), None);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(recall(dir.path(), "a"), None);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(recall(dir.path(), "a"), None);
    }
}
