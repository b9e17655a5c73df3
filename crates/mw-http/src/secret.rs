//! Secrets are read when a message is sent: a new one needs no restart.

use mw_sys::guarded::read_to_string;
use std::fmt;
use std::path::PathBuf;

/// Directories in which systemd finds credentials, too: a command that is no unit finds them there.
const STORES: [&str; 2] = ["/etc/credstore", "/run/credstore"];

const MAX_SECRET_BYTES: u64 = 8192;

/// Source of a secret: an absolute path, or the name of a credential of the systemd unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile(pub String);

/// One line that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl SecretFile {
    /// # Errors
    /// There is no credential of this name, and where it is looked for.
    pub fn path(&self) -> Result<PathBuf, String> {
        let Self(name) = self;
        if name.starts_with('/') {
            return Ok(name.into());
        }
        let own = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let dirs = own.into_iter().chain(STORES.map(PathBuf::from));
        dirs.map(|dir| dir.join(name)).find(|path| path.exists()).ok_or_else(|| {
            let [store, _] = STORES;
            format!(
                "credential '{name}' not found; write it to {store}/{name}, pass it by LoadCredential={name}:FILE, or \
                 name a file by its absolute path"
            )
        })
    }

    /// # Errors
    /// Why there is no line of text.
    pub fn read(&self) -> Result<Secret, String> {
        let path = self.path()?;
        let text = read_to_string(&path, MAX_SECRET_BYTES)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        match text.trim() {
            line if line.is_empty() || line.chars().any(char::is_control) => {
                Err(format!("{}: not one line of text", path.display()))
            }
            line => Ok(Secret(line.to_owned())),
        }
    }
}

impl Secret {
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_whole_or_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let secret = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            SecretFile(file.path().display().to_string()).read()
        };
        let longest = "x".repeat(8192);
        assert_eq!(secret(&longest).unwrap().text(), longest);
        assert!(secret(&format!("{longest}x")).unwrap_err().contains("longer than 8192 bytes"));
        assert!(secret("a\nb").unwrap_err().contains("not one line"));
        assert!(secret(" \n").is_err());
    }
}
