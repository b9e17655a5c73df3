//! The interface of the targets of all protocols, and their common syntax.

use crate::link::Endpoint;
use crate::protocol::Probe;
use crate::view::ViewSource;
use std::fmt::{Debug, Display};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A target. Its text shows no password.
pub(crate) trait TargetAddress: Debug + Display + Send + Sync {
    /// A short name without blanks or dots, such as `postgres-5432`.
    fn default_name(&self) -> String;

    fn probe(&self) -> Box<dyn Probe>;

    /// Protocol by which the service is asked about itself, where it can.
    fn view(&self) -> Option<Box<dyn ViewSource>> {
        None
    }

    /// The Unix socket that it connects to, where it is one.
    fn socket_path(&self) -> Option<&Path> {
        None
    }

    /// True if each request starts a program.
    fn starts_programs(&self) -> bool {
        false
    }

    fn has_password(&self) -> bool {
        false
    }

    /// The text without the target's password.
    fn conceal(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// A target from the rest of its text, without the scheme.
pub(crate) type ParseResult = Result<Arc<dyn TargetAddress>, TargetError>;

/// The reason why a text is not a target. It never repeats the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It begins with none of the schemes.
    #[error(
        "invalid target (use tcp://HOST:PORT, unix:/PATH, http://HOST, postgres://HOST, \
         mysql://HOST, redis://HOST or exec:COMMAND)"
    )]
    UnknownScheme,
    /// The scheme's protocol is not built in.
    #[error("{scheme} is not built in: {remedy}")]
    NotBuiltIn { scheme: &'static str, remedy: &'static str },
    /// A part of it is missing or malformed.
    #[error("{scheme}: {what}")]
    Malformed {
        scheme: &'static str,
        /// Its error.
        what: &'static str,
    },
}

pub(crate) fn socket(scheme: &'static str, path: &str) -> Result<Endpoint, TargetError> {
    // unix(7): sun_path has 108 bytes with the zero.
    const MAX_PATH_BYTES: usize = 107;
    let malformed = |what| TargetError::Malformed { scheme, what };
    match path {
        path if !path.starts_with('/') => Err(malformed("the socket's path must begin with /")),
        path if path.len() > MAX_PATH_BYTES => Err(malformed("the socket's path is too long")),
        path => Ok(Endpoint::Unix(PathBuf::from(path))),
    }
}

/// `HOST:PORT`, `[ADDRESS]:PORT`, or without the port where the protocol has a usual one.
pub(crate) fn endpoint(
    scheme: &'static str,
    text: &str,
    usual_port: Option<u16>,
) -> Result<Endpoint, TargetError> {
    let malformed = |what| TargetError::Malformed { scheme, what };
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(malformed("the address's ] is missing"))?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || ".:-_%".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err(malformed("the host is missing or contains an invalid character"));
    }
    let port = match (rest.strip_prefix(':'), usual_port) {
        (Some(port), _) => port.parse().ok().filter(|port| *port > 0),
        (None, Some(port)) if rest.is_empty() => Some(port),
        _ => None,
    };
    let port = port.ok_or(malformed("the port is missing or not a number from 1 to 65535"))?;
    Ok(Endpoint::Tcp(host.to_owned(), port))
}

/// A name from the scheme and the port or socket.
pub(crate) fn name(scheme: &str, endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(_, port) => format!("{scheme}-{port}"),
        Endpoint::Unix(path) => format!("{scheme}-{}", stem(path)),
    }
}

/// The file's name without its extension, or the port that PostgreSQL's sockets have as theirs, in
/// characters that a name may have.
pub(crate) fn stem(path: &Path) -> String {
    const MAX_CHARS: usize = 32;
    let port = path.extension().filter(|end| end.as_bytes().iter().all(u8::is_ascii_digit));
    let stem = port.or(path.file_stem()).unwrap_or_default().to_string_lossy();
    let plain = stem.trim_matches('.').chars().take(MAX_CHARS);
    plain.map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}
