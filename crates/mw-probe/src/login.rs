//! Targets that log in: the part of a URL after its scheme.

use crate::address::{TargetAddress, TargetError, endpoint, name, socket};
use crate::link::Endpoint;
use crate::protocol::Probe;
use crate::view::ViewSource;
use std::fmt;
use std::path::Path;

/// The address of a service, and who logs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) endpoint: Endpoint,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<LoginSecret>,
    pub(crate) database: Option<String>,
}

/// A target that logs in.
pub(crate) struct LoginAddress {
    pub(crate) scheme: &'static str,
    pub(crate) login: Login,
    pub(crate) probe: fn(Login) -> Box<dyn Probe>,
    pub(crate) view: fn(Login) -> Box<dyn ViewSource>,
}

impl fmt::Display for LoginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.login.show(self.scheme, f)
    }
}

impl fmt::Debug for LoginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TargetAddress for LoginAddress {
    fn default_name(&self) -> String {
        name(self.scheme, &self.login.endpoint)
    }

    fn probe(&self) -> Box<dyn Probe> {
        (self.probe)(self.login.clone())
    }

    fn view(&self) -> Option<Box<dyn ViewSource>> {
        Some((self.view)(self.login.clone()))
    }

    fn socket_path(&self) -> Option<&Path> {
        self.login.endpoint.socket_path()
    }

    fn has_password(&self) -> bool {
        self.login.password.is_some()
    }

    fn conceal(&self, text: &str) -> String {
        self.login.conceal(text)
    }
}

/// A text that is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct LoginSecret(String);

impl LoginSecret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LoginSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Login {
    /// Reads `[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?socket=/PATH]`.
    pub(crate) fn parse(scheme: &'static str, text: &str, port: u16) -> Result<Self, TargetError> {
        let malformed = |what| TargetError::Malformed { scheme, what };
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (who, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(LoginSecret(decoded(scheme, password)?))),
            None => (who, None),
        };
        let filled = |text: &str| -> Result<Option<String>, TargetError> {
            Ok(Some(decoded(scheme, text)?).filter(|text| !text.is_empty()))
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
            Some(path) => login.endpoint = socket(scheme, &decoded(scheme, path)?)?,
            None if !query.is_empty() => {
                return Err(malformed("the only option is ?socket=/PATH"));
            }
            None => login.endpoint = endpoint(scheme, place, Some(port))?,
        }
        Ok(login)
    }

    /// As people may see it.
    fn show(&self, scheme: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{scheme}://")?;
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
    fn conceal(&self, text: &str) -> String {
        match &self.password {
            Some(LoginSecret(password)) if !password.is_empty() => text.replace(password, "…"),
            _ => text.to_owned(),
        }
    }
}

/// Undoes the percent-encoding of a part of a URL (RFC 3986, 2.1).
fn decoded(scheme: &'static str, text: &str) -> Result<String, TargetError> {
    let malformed = || TargetError::Malformed {
        scheme,
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
