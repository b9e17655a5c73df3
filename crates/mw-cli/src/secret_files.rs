//! Files with secrets: who can read them.

use mw_model::visible;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Mode bits of those who are neither a file's owner nor of its group.
const OTHERS_READ: u32 = 0o4;
const OTHERS_WRITE: u32 = 0o2;

/// A line about a file with a secret that every local user can read or change; none where it cannot be looked at, which
/// its use reports.
pub(crate) fn exposure(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o7777;
    let can = match (mode & OTHERS_READ != 0, mode & OTHERS_WRITE != 0) {
        (_, true) => "change",
        (true, false) => "read",
        _ => return None,
    };
    let name = path.display().to_string();
    let remedy = visible::shell_word(&name).map(|word| format!("; chmod o= {word}"));
    Some(format!(
        "{}: holds a secret, and every local user can {can} it (mode {mode:04o}){}",
        visible::line(&name),
        remedy.unwrap_or_default()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Promise (Metrics): Files with secrets that every local user can read or change are named by `watch` and
    /// `fleet`, and passwords without TLS.
    #[test]
    fn a_secret_that_everybody_can_read_or_change_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |mode: u32| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            exposure(file.path())
        };
        assert_eq!((line(0o600), line(0o640), line(0o660)), (None, None, None));
        let read = line(0o644).unwrap();
        let path = file.path().display();
        assert!(read.contains("can read it (mode 0644)"), "{read}");
        assert!(read.ends_with(&format!("; chmod o= {path}")), "{read}");
        assert!(line(0o602).is_some_and(|line| line.contains("can change it (mode 0602)")));
        assert_eq!(exposure(Path::new("/nowhere/at/all")), None);
    }
}
