//! Posts a message to a URL. No redirect is followed, the certificate is verified, and little of an answer is read.

use crate::failed::Failed;
use crate::table::{Address, Format, Webhook, checked};
use crate::{Notice, templates};
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, Error};

/// What is read of an answer that is an error.
const MAX_ANSWER_BYTES: u64 = 256;
const MAX_HEADER_BYTES: usize = 16 << 10;

/// In what rustls says of a certificate that no trusted one has signed.
const UNKNOWN_ISSUER: &str = "UnknownIssuer";

/// The longest wait that a receiver may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

pub(crate) fn post(to: &Webhook, notice: &Notice, limit: Duration) -> Result<(), Failed> {
    let token = to.token.as_ref().map(crate::SecretFile::read).transpose();
    let token = token.map_err(Failed::for_now)?;
    let uri = uri(&to.address, token.is_some())?;
    let key = token.as_ref().map(crate::Secret::text);
    let body = templates::body(to.format, notice, key, mw_sys::unix_ms()).to_string();
    let path = uri.path().to_owned();
    let mut request = agent(&uri, to.ca_file.as_deref(), limit)?
        .post(uri)
        .header("content-type", "application/json");
    // PagerDuty's is in the body.
    if let Some(key) = key.filter(|_| to.format != Format::PagerDuty) {
        let scheme = if key.contains(' ') { "" } else { "Bearer " };
        request = request.header("authorization", format!("{scheme}{key}"));
    }
    let answer = request.send(body);
    let secret_path = matches!(to.address, Address::File(_)).then(|| path.as_str());
    judge(answer.map_err(|error| failure(&error, limit))?, [key, secret_path])
}

fn uri(address: &Address, has_token: bool) -> Result<Uri, Failed> {
    match address {
        Address::Url(uri) => Ok(uri.clone()),
        Address::File(file) => {
            let url = file.read().map_err(Failed::for_now)?;
            let wrong = |error| Failed::for_good(format!("{}: the URL {error}", file.0));
            checked(url.text(), has_token).map_err(wrong)
        }
    }
}

fn agent(uri: &Uri, ca_file: Option<&Path>, limit: Duration) -> Result<Agent, Failed> {
    let mut config = Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_response_header_size(MAX_HEADER_BYTES)
        .max_idle_connections(0)
        .user_agent(concat!("memwright/", env!("CARGO_PKG_VERSION")));
    if uri.scheme_str() == Some("https") {
        let roots = RootCerts::from(roots(ca_file)?);
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    Ok(config.build().new_agent())
}

/// The certificates that are trusted: those of the file, or the system's.
fn roots(ca_file: Option<&Path>) -> Result<Vec<Certificate<'static>>, Failed> {
    let Some(path) = ca_file else {
        let found = rustls_native_certs::load_native_certs().certs;
        if found.is_empty() {
            let text = "the system has no certificates; install ca-certificates, or set ca-file";
            return Err(Failed::for_now(text));
        }
        return Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect());
    };
    let failed = |why: String| Failed::for_now(format!("{}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let found = parse_pem(&pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() { Err(failed("no certificate in PEM".to_owned())) } else { Ok(found) }
}

/// What an answer says; one that repeats a secret is not told.
fn judge(answer: Response<Body>, secrets: [Option<&str>; 2]) -> Result<(), Failed> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    if status.is_redirection() {
        let text = format!("HTTP {}: a redirect is not followed; set its target", status.as_u16());
        return Err(Failed::for_good(text));
    }
    let after =
        answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = after.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    let again = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
    let mut said = Vec::new();
    let _ = answer.into_body().into_reader().take(MAX_ANSWER_BYTES).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    let is_told = |line: &&str| {
        !secrets.iter().flatten().any(|secret| secret.len() > 1 && line.contains(secret))
    };
    let said = said
        .lines()
        .next()
        .filter(is_told)
        .map_or(String::new(), |line| format!(": {}", mw_model::visible::line(line.trim())));
    Err(Failed { text: format!("HTTP {}{said}", status.as_u16()), again, after })
}

/// In words of its own: some of the library's have the URL in them.
fn failure(error: &Error, limit: Duration) -> Failed {
    match error {
        Error::Timeout(_) => Failed::for_now(format!("no answer within {limit:?}")),
        Error::HostNotFound => Failed::for_now("the name of the host could not be resolved"),
        Error::Io(error) => Failed::for_now(match error.get_ref().map(ToString::to_string) {
            Some(inner) if inner.contains(UNKNOWN_ISSUER) => {
                "TLS: the issuer of the server's certificate is not trusted; set ca-file".to_owned()
            }
            Some(inner) => format!("TLS or connection: {inner}"),
            None => error.kind().to_string(),
        }),
        Error::ConnectionFailed => Failed::for_now("connection failed"),
        Error::Rustls(error) => Failed::for_now(format!("TLS: {error}")),
        Error::LargeResponseHeader(..) => Failed::for_now("the header of the answer is too large"),
        _ => Failed::for_now("no valid HTTP answer"),
    }
}
