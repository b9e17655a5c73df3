//! Commands to copy: quoted for the shell, with the options that this command was started with.

use mw_model::visible::shell_word;
use std::fmt::Display;
use std::path::Path;

/// An error with the command that would have the privilege, where it is privilege that was missing.
pub(crate) fn with_sudo(error: &dyn Display, is_privilege: bool) -> String {
    let words = std::env::args_os().skip(1).map(|word| word.into_string().ok());
    let again = words.map(|word| shell_word(&word?)).collect::<Option<Vec<_>>>();
    match again {
        Some(words) if is_privilege && !rustix::process::geteuid().is_root() => {
            format!("{error}; run: sudo memwright {}", words.join(" "))
        }
        _ => error.to_string(),
    }
}

/// `memwright undo` of these changes, or of all, in this state directory.
pub(crate) fn undo(changes: &[u64], state_dir: &Path) -> String {
    let mut command = "memwright undo".to_owned();
    for id in changes {
        command += &format!(" {id}");
    }
    let default = Path::new(mw_remedy::STATE_DIR);
    match shell_word(&state_dir.display().to_string()) {
        Some(dir) if state_dir != default => command + " --state-dir " + &dir,
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undo_names_another_state_directory_quoted() {
        assert_eq!(undo(&[], Path::new(mw_remedy::STATE_DIR)), "memwright undo");
        assert_eq!(undo(&[3, 1], Path::new("/a b")), "memwright undo 3 1 --state-dir '/a b'");
    }
}
