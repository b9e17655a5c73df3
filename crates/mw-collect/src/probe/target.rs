//! What a probe asks, as people write it.

use super::exec::Exec;
use super::http::Http;
use super::kept::Kept;
use super::link::Endpoint;
use super::login::Login;
#[cfg(feature = "mysql")]
use super::mysql::Mysql;
#[cfg(feature = "postgres")]
use super::postgres::Postgres;
use super::redis::Redis;
use super::service::Ask;
use super::tcp::Tcp;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

/// A target of a probe. Its text shows no password, and of a command the program alone, since its
/// arguments may hold one.
///
/// | text | asks |
/// |---|---|
/// | `tcp://HOST:PORT` | whether the connection is taken |
/// | `unix:/PATH` | the same of a Unix socket |
/// | `http://HOST[:PORT][/PATH]` | `GET`, for a status below 400 |
/// | `postgres://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | `SELECT 1` |
/// | `mysql://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` | `SELECT 1` |
/// | `redis://[[USER]:PASSWORD@]HOST[:PORT]` | `PING` |
/// | `exec:COMMAND` | the program's exit code |
///
/// None of them speaks TLS: `exec:curl` or `exec:psql` asks what does.
///
/// The three that log in also take a Unix socket: `postgres://USER@/DATABASE?socket=/PATH`, for
/// PostgreSQL its folder as well. What is not letters or digits in a name or password is written as
/// `%` and two hexadecimal digits. A command is split into words as a shell would, but no shell
/// runs it: `exec:sh -c 'a | b'` asks for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Tcp(Endpoint),
    Unix(Endpoint),
    Http(Endpoint, String),
    Login(Service, Login),
    Exec(Vec<String>),
}

/// The services that log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "mysql")]
    Mysql,
    Redis,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => "postgres",
            #[cfg(feature = "mysql")]
            Self::Mysql => "mysql",
            Self::Redis => "redis",
        }
    }

    fn port(self) -> u16 {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => 5432,
            #[cfg(feature = "mysql")]
            Self::Mysql => 3306,
            Self::Redis => 6379,
        }
    }

    fn asker(self, login: Login) -> Box<dyn Ask> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres => Box::new(Kept::new(Postgres::new(login))),
            #[cfg(feature = "mysql")]
            Self::Mysql => Box::new(Kept::new(Mysql::new(login))),
            Self::Redis => Box::new(Kept::new(Redis::new(login))),
        }
    }

    fn target(self, text: &str) -> Result<Target, TargetError> {
        let login = Login::parse(self.name(), text, self.port())?;
        #[cfg(feature = "postgres")]
        let login = if self == Self::Postgres { in_folder(login) } else { login };
        Ok(Target(Kind::Login(self, login)))
    }
}

/// PostgreSQL's people name the folder of its socket.
#[cfg(feature = "postgres")]
fn in_folder(mut login: Login) -> Login {
    const SOCKET: &str = ".s.PGSQL.";
    if let Endpoint::Unix(path) = &mut login.endpoint {
        let is_socket =
            path.file_name().is_some_and(|name| name.to_string_lossy().contains(SOCKET));
        if !is_socket {
            path.push(format!("{SOCKET}5432"));
        }
    }
    login
}

/// Why a text is no target. It never repeats the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It begins with none of the known words.
    #[error(
        "not a target: it begins with tcp://, unix:/, http://, postgres://, mysql://, redis:// or \
         exec:"
    )]
    Unknown,
    /// The kind is known, but nothing here speaks it.
    #[error("{kind} is not built in: {remedy}")]
    NotBuiltIn {
        /// The kind.
        kind: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A part of it is missing or malformed.
    #[error("{kind}: {what}")]
    Malformed {
        /// The kind.
        kind: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Longer texts are no targets.
const MAX_TARGET_BYTES: usize = 4096;

impl Target {
    /// A short name without blanks or dots, such as `postgres-5432`.
    pub fn default_name(&self) -> String {
        match &self.0 {
            Kind::Tcp(endpoint) => name("tcp", endpoint),
            Kind::Unix(endpoint) => name("unix", endpoint),
            Kind::Http(endpoint, _) => name("http", endpoint),
            Kind::Login(service, login) => name(service.name(), &login.endpoint),
            Kind::Exec(words) => {
                let program = words.first().map(String::as_str).unwrap_or_default();
                format!("exec-{}", stem(program.as_ref()))
            }
        }
    }

    /// What asks it.
    pub(super) fn asker(&self) -> Box<dyn Ask> {
        match &self.0 {
            Kind::Tcp(endpoint) | Kind::Unix(endpoint) => Box::new(Tcp::new(endpoint.clone())),
            Kind::Http(endpoint, path) => Box::new(Kept::new(Http::new(endpoint.clone(), path))),
            Kind::Login(service, login) => service.asker(login.clone()),
            Kind::Exec(words) => Box::new(Exec::new(words.clone())),
        }
    }

    /// The text without the target's password.
    pub(super) fn conceal(&self, text: &str) -> String {
        match &self.0 {
            Kind::Login(_, login) => login.conceal(text),
            Kind::Tcp(_) | Kind::Unix(_) | Kind::Http(..) | Kind::Exec(_) => text.to_owned(),
        }
    }
}

fn name(kind: &str, endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(_, port) => format!("{kind}-{port}"),
        Endpoint::Unix(path) => format!("{kind}-{}", stem(path)),
    }
}

/// The file's name without its extension, or the port that PostgreSQL's sockets have as theirs, in
/// characters that a name may have.
fn stem(path: &std::path::Path) -> String {
    const MAX_CHARS: usize = 32;
    let port = path.extension().filter(|end| end.as_bytes().iter().all(u8::is_ascii_digit));
    let stem = port.or(path.file_stem()).unwrap_or_default().to_string_lossy();
    let plain = stem.trim_matches('.').chars().take(MAX_CHARS);
    plain.map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Tcp(endpoint) => write!(f, "tcp://{endpoint}"),
            Kind::Unix(endpoint) => write!(f, "unix:{endpoint}"),
            Kind::Http(endpoint, path) => write!(f, "http://{endpoint}{path}"),
            Kind::Login(service, login) => login.show(service.name(), f),
            Kind::Exec(words) => {
                let rest = if words.len() > 1 { " …" } else { "" };
                write!(f, "exec:{}{rest}", words.first().map(String::as_str).unwrap_or_default())
            }
        }
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.len() > MAX_TARGET_BYTES || text.contains('\0') {
            return Err(TargetError::Unknown);
        }
        if let Some(rest) = text.strip_prefix("exec:") {
            return Ok(Self(Kind::Exec(words(rest)?)));
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            return Ok(Self(Kind::Tcp(endpoint("tcp", rest, None)?)));
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return Ok(Self(Kind::Unix(socket("unix", rest)?)));
        }
        if let Some(rest) = text.strip_prefix("http://") {
            return http(rest).map(Self);
        }
        if let Some(rest) = text.strip_prefix("redis://") {
            return Service::Redis.target(rest);
        }
        let postgres = text.strip_prefix("postgres://").or(text.strip_prefix("postgresql://"));
        if let Some(rest) = postgres {
            return of_postgres(rest);
        }
        if let Some(rest) = text.strip_prefix("mysql://") {
            return of_mysql(rest);
        }
        Err(TargetError::Unknown)
    }
}

#[cfg(feature = "postgres")]
fn of_postgres(rest: &str) -> Result<Target, TargetError> {
    Service::Postgres.target(rest)
}

#[cfg(not(feature = "postgres"))]
fn of_postgres(_rest: &str) -> Result<Target, TargetError> {
    let remedy = "build with --features postgres, or use exec:psql or tcp://HOST:5432";
    Err(TargetError::NotBuiltIn { kind: "postgres", remedy })
}

#[cfg(feature = "mysql")]
fn of_mysql(rest: &str) -> Result<Target, TargetError> {
    Service::Mysql.target(rest)
}

#[cfg(not(feature = "mysql"))]
fn of_mysql(_rest: &str) -> Result<Target, TargetError> {
    let remedy =
        "build with --features mysql, or use exec:mysqladmin or its Unix socket, unix:/PATH";
    Err(TargetError::NotBuiltIn { kind: "mysql", remedy })
}

fn words(command: &str) -> Result<Vec<String>, TargetError> {
    let malformed = |what| TargetError::Malformed { kind: "exec", what };
    let words = shlex::split(command).ok_or(malformed("a quote is not closed"))?;
    if words.first().is_none_or(String::is_empty) {
        return Err(malformed("there is no command: exec:./ping.sh"));
    }
    Ok(words)
}

fn http(text: &str) -> Result<Kind, TargetError> {
    let malformed = |what| TargetError::Malformed { kind: "http", what };
    let (place, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    if place.contains('@') {
        return Err(malformed("no user can be given: use exec:curl"));
    }
    if !path.chars().all(|c| c.is_ascii_graphic()) {
        return Err(malformed(
            "the path has blanks or other characters that must be written as %XX",
        ));
    }
    let path = if path.is_empty() { "/" } else { path };
    Ok(Kind::Http(endpoint("http", place, Some(80))?, path.to_owned()))
}

pub(super) fn socket(kind: &'static str, path: &str) -> Result<Endpoint, TargetError> {
    // unix(7): sun_path has 108 bytes with the zero.
    const MAX_PATH_BYTES: usize = 107;
    let malformed = |what| TargetError::Malformed { kind, what };
    match path {
        path if !path.starts_with('/') => Err(malformed("the socket's path begins with /")),
        path if path.len() > MAX_PATH_BYTES => Err(malformed("the socket's path is too long")),
        path => Ok(Endpoint::Unix(PathBuf::from(path))),
    }
}

/// `HOST:PORT`, `[ADDRESS]:PORT`, or without the port where the protocol has a usual one.
pub(super) fn endpoint(
    kind: &'static str,
    text: &str,
    usual_port: Option<u16>,
) -> Result<Endpoint, TargetError> {
    let malformed = |what| TargetError::Malformed { kind, what };
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or(malformed("the address's ] is missing"))?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || ".:-_%".contains(c);
    if host.is_empty() || !host.chars().all(plain) {
        return Err(malformed("the host is missing or has characters that no host has"));
    }
    let port = match (rest.strip_prefix(':'), usual_port) {
        (Some(port), _) => port.parse().ok().filter(|port| *port > 0),
        (None, Some(port)) if rest.is_empty() => Some(port),
        _ => None,
    };
    let port = port.ok_or(malformed("the port is missing or no number from 1 to 65535"))?;
    Ok(Endpoint::Tcp(host.to_owned(), port))
}
