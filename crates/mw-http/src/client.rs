//! The agent, and what went wrong in words without a secret.

use crate::url::is_this_machine;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Error};

/// More than all certificates of a system.
const MAX_CERTIFICATES_BYTES: u64 = 8 << 20;

const MAX_HEADER_BYTES: usize = 16 << 10;

/// In what rustls says of a certificate that no trusted one has signed.
const UNKNOWN_ISSUER: &str = "UnknownIssuer";

/// An agent for requests to `uri`, each within `limit`. `ca_file` has the certificates that are trusted, in PEM; without
/// it they are the system's. An HTTP status is not an error. The environment's proxy (`HTTPS_PROXY`, `NO_PROXY`) carries
/// TLS alone: another machine would read the rest, and what is meant for this one does not leave it.
///
/// # Errors
/// No certificate is trusted, and why.
pub fn agent(uri: &Uri, ca_file: Option<&Path>, limit: Duration) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_response_header_size(MAX_HEADER_BYTES)
        .max_idle_connections(0)
        .user_agent(concat!("memwright/", env!("CARGO_PKG_VERSION")));
    let is_encrypted = uri.scheme_str() == Some("https");
    if !is_encrypted || uri.host().is_none_or(is_this_machine) {
        config = config.proxy(None);
    }
    if is_encrypted {
        let roots = RootCerts::from(roots(ca_file)?);
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    Ok(config.build().new_agent())
}

/// The certificates that are trusted: those of the file, or the system's.
fn roots(ca_file: Option<&Path>) -> Result<Vec<Certificate<'static>>, String> {
    let Some(path) = ca_file else {
        let found = rustls_native_certs::load_native_certs().certs;
        if found.is_empty() {
            let text = "the system has no certificates; install ca-certificates, or set ca-file";
            return Err(text.to_owned());
        }
        return Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect());
    };
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let pem =
        mw_sys::guarded::read(path, MAX_CERTIFICATES_BYTES).map_err(|error| failed(&error))?;
    let found = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(failed(&"no certificate in PEM")) } else { Ok(found) }
}

/// The reason why there is no answer. In words of its own: some of the library's have the URL in them.
#[must_use]
pub fn failure(error: &Error, limit: Duration) -> String {
    match error {
        Error::Timeout(_) => format!("no answer within {limit:?}"),
        Error::HostNotFound => "the name of the host could not be resolved".to_owned(),
        Error::Io(error) => match error.get_ref().map(ToString::to_string) {
            Some(inner) if inner.contains(UNKNOWN_ISSUER) => {
                "TLS: the issuer of the server's certificate is not trusted; set ca-file".to_owned()
            }
            Some(inner) => format!("TLS or connection: {inner}"),
            None => error.kind().to_string(),
        },
        Error::ConnectionFailed => "connection failed".to_owned(),
        Error::Rustls(error) => format!("TLS: {error}"),
        Error::LargeResponseHeader(..) => "the header of the answer is too large".to_owned(),
        _ => "no valid HTTP answer".to_owned(),
    }
}

/// The beginning of the body of an answer, at most `max_bytes`. A body that breaks off ends there.
#[must_use]
pub fn said(answer: Response<Body>, max_bytes: u64) -> Vec<u8> {
    let mut said = Vec::new();
    let _ = answer.into_body().into_reader().take(max_bytes).read_to_end(&mut said);
    said
}
