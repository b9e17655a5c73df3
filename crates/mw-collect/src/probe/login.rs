//! Who logs in where: the part of a URL after its scheme.

use super::link::Endpoint;
use super::target::{TargetError, endpoint, socket};
use std::fmt;

/// The address of a service, and who asks there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) endpoint: Endpoint,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) database: Option<String>,
}

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Login {
    /// Reads `[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?socket=/PATH]`.
    pub(super) fn parse(kind: &'static str, text: &str, port: u16) -> Result<Self, TargetError> {
        let malformed = |what| TargetError::Malformed { kind, what };
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (who, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(Secret(decoded(kind, password)?))),
            None => (who, None),
        };
        let filled = |text: &str| -> Result<Option<String>, TargetError> {
            Ok(Some(decoded(kind, text)?).filter(|text| !text.is_empty()))
        };
        let mut login = Self {
            endpoint: Endpoint::Unix(std::path::PathBuf::new()),
            user: filled(user)?,
            password,
            database: filled(path)?,
        };
        match query.strip_prefix("socket=") {
            Some(_) if !place.is_empty() => {
                return Err(malformed("there is both a host and a socket"));
            }
            Some(path) => login.endpoint = socket(kind, &decoded(kind, path)?)?,
            None if !query.is_empty() => {
                return Err(malformed("the only option is ?socket=/PATH"));
            }
            None => login.endpoint = endpoint(kind, place, Some(port))?,
        }
        Ok(login)
    }

    /// As people may see it.
    pub(super) fn show(&self, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{kind}://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if let Endpoint::Tcp(..) = self.endpoint {
            write!(f, "{}", self.endpoint)?;
        }
        if let Some(database) = &self.database {
            write!(f, "/{database}")?;
        }
        if let Endpoint::Unix(path) = &self.endpoint {
            let slash = if self.database.is_some() { "" } else { "/" };
            write!(f, "{slash}?socket={}", path.display())?;
        }
        Ok(())
    }

    /// The text without the password.
    pub(super) fn conceal(&self, text: &str) -> String {
        match &self.password {
            Some(Secret(password)) if !password.is_empty() => text.replace(password, "…"),
            _ => text.to_owned(),
        }
    }
}

/// Undoes the percent-encoding of a part of a URL (RFC 3986, 2.1).
fn decoded(kind: &'static str, text: &str) -> Result<String, TargetError> {
    let malformed = || TargetError::Malformed {
        kind,
        what: "a % is followed by two hexadecimal digits, and names are of UTF-8 without controls",
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(malformed)?;
        let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| malformed())?);
        rest = after;
    }
    let text = String::from_utf8(bytes).map_err(|_| malformed())?;
    if text.chars().any(char::is_control) { Err(malformed()) } else { Ok(text) }
}
