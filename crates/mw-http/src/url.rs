//! Which URLs are asked.

use std::net::IpAddr;
use ureq::http::Uri;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    #[error("must begin with https:// or http:// and name a host")]
    Malformed,
    #[error("must not have credentials; write them to a file, and name that with token-file")]
    Credentials,
    #[error(
        "with a token, or in a file, is a secret and must begin with https://, except for this machine"
    )]
    Unencrypted,
}

/// A URL that may be asked, with a token where it has one.
///
/// # Errors
/// [`UrlError`]
pub fn checked(url: &str, has_token: bool) -> Result<Uri, UrlError> {
    let uri: Uri = url.parse().map_err(|_| UrlError::Malformed)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(UrlError::Malformed);
    };
    if authority.as_str().contains('@') {
        return Err(UrlError::Credentials);
    }
    let host = authority.host();
    match scheme {
        _ if host.is_empty() => Err(UrlError::Malformed),
        "https" => Ok(uri),
        "http" if !has_token || is_this_machine(host) => Ok(uri),
        "http" => Err(UrlError::Unencrypted),
        _ => Err(UrlError::Malformed),
    }
}

pub(crate) fn is_this_machine(host: &str) -> bool {
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_no_credentials_and_a_token_is_encrypted() {
        let check =
            |url, has_token, error| assert_eq!(checked(url, has_token).err(), error, "{url}");
        check("https://hooks.example/x", true, None);
        check("http://hooks.example/x", false, None);
        check("http://127.0.0.1:9093/x", true, None);
        check("http://[::1]:9093/x", true, None);
        check("http://hooks.example/x", true, Some(UrlError::Unencrypted));
        check("http://localhost.example/x", true, Some(UrlError::Unencrypted));
        check("https://user:secret@hooks.example/x", false, Some(UrlError::Credentials));
        for wrong in ["hooks.example", "ftp://hooks.example", "https://", "/x", ""] {
            check(wrong, false, Some(UrlError::Malformed));
        }
    }
}
