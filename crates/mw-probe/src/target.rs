//! Targets of probes, and the table of their schemes.

use crate::address::{ParseResult, TargetAddress, TargetError};
#[cfg(feature = "mysql")]
use crate::mysql;
#[cfg(feature = "postgres")]
use crate::postgres;
use crate::protocol::Probe;
use crate::view::ViewSource;
use crate::{exec, http, redis, tcp};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Prefixes of the texts of a protocol, and the parser of the rest.
struct Scheme {
    prefixes: &'static [&'static str],
    parse: fn(&str) -> ParseResult,
}

const SCHEMES: &[Scheme] = &[
    Scheme { prefixes: &["tcp://"], parse: tcp::parse },
    Scheme { prefixes: &["unix:"], parse: tcp::parse_unix },
    Scheme { prefixes: &["http://"], parse: http::parse },
    Scheme { prefixes: &["postgres://", "postgresql://"], parse: postgres::parse },
    Scheme { prefixes: &["mysql://"], parse: mysql::parse },
    Scheme { prefixes: &["redis://"], parse: redis::parse },
    Scheme { prefixes: &["exec:"], parse: exec::parse },
];

#[cfg(not(feature = "postgres"))]
mod postgres {
    pub(super) fn parse(_rest: &str) -> super::ParseResult {
        let remedy = "build with --features postgres, or use exec:psql or tcp://HOST:5432";
        Err(super::TargetError::NotBuiltIn { scheme: "postgres", remedy })
    }
}

#[cfg(not(feature = "mysql"))]
mod mysql {
    pub(super) fn parse(_rest: &str) -> super::ParseResult {
        let remedy =
            "build with --features mysql, or use exec:mysqladmin or its Unix socket, unix:/PATH";
        Err(super::TargetError::NotBuiltIn { scheme: "mysql", remedy })
    }
}

/// A target of a probe. Its text shows no password, and of a command the program alone, since its
/// arguments may hold one.
///
/// | text | request |
/// |---|---|
/// | `tcp://HOST:PORT` | a connection |
/// | `unix:/PATH` | a connection to a Unix socket |
/// | `http://HOST[:PORT][/PATH]` | `GET`, for a status below 400 |
/// | `postgres://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | `SELECT 1` |
/// | `mysql://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | `SELECT 1` |
/// | `redis://[[USER]:PASSWORD@]HOST[:PORT]` | `PING` |
/// | `exec:COMMAND` | exit code 0 of the program |
///
/// None of them speaks TLS: use `exec:curl` or `exec:psql`.
///
/// The three that log in also take a Unix socket: `postgres://USER@/DATABASE?socket=/PATH`, for
/// PostgreSQL its directory as well. What is not letters or digits in a name or password is written as
/// `%` and two hexadecimal digits. A command is split into words as a shell would, but no shell
/// runs it: `exec:sh -c 'a | b'` runs one.
#[derive(Debug, Clone)]
pub struct Target(Arc<dyn TargetAddress>);

/// Longer texts are refused.
const MAX_TARGET_BYTES: usize = 4096;

impl Target {
    /// A short name without blanks or dots, such as `postgres-5432`.
    pub fn default_name(&self) -> String {
        self.0.default_name()
    }

    /// True if the text that it came from holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.0.has_password()
    }

    pub(crate) fn probe(&self) -> Box<dyn Probe> {
        self.0.probe()
    }

    /// True if each request starts a program.
    pub(crate) fn starts_programs(&self) -> bool {
        self.0.starts_programs()
    }

    /// Protocol by which the service is asked about itself, where it can.
    pub(crate) fn view(&self) -> Option<Box<dyn ViewSource>> {
        self.0.view()
    }

    /// The Unix socket that it connects to, where it is one.
    pub(crate) fn socket_path(&self) -> Option<&Path> {
        self.0.socket_path()
    }

    /// The text without the target's password.
    pub(crate) fn conceal(&self, text: &str) -> String {
        self.0.conceal(text)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.len() > MAX_TARGET_BYTES || text.contains('\0') {
            return Err(TargetError::UnknownScheme);
        }
        let rest =
            |scheme: &Scheme| scheme.prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
        let mut schemes = SCHEMES.iter().filter_map(|scheme| Some((scheme, rest(scheme)?)));
        let (scheme, rest) = schemes.next().ok_or(TargetError::UnknownScheme)?;
        (scheme.parse)(rest).map(Self)
    }
}
