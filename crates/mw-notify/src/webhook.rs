//! Posts a message to a URL. No redirect is followed, the certificate is verified, and little of an answer is read.

use crate::delivery_error::DeliveryError;
use crate::receiver_config::{Webhook, WebhookFormat, WebhookUrl};
use crate::{Notice, templates};
use mw_http::{Body, Response, Uri, checked};
use std::time::Duration;

/// Bytes that are read of a reply that is an error.
const MAX_ANSWER_BYTES: u64 = 256;

/// So many letters and digits in a row that are a secret's, too, are a part of it.
const PART: usize = 5;

/// The longest wait that a receiver may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

pub(crate) fn post(to: &Webhook, notice: &Notice, limit: Duration) -> Result<(), DeliveryError> {
    let token = to.token.as_ref().map(mw_http::SecretFile::read).transpose();
    let token = token.map_err(DeliveryError::for_now)?;
    let uri = uri(&to.address)?;
    let key = token.as_ref().map(mw_http::Secret::text);
    let body = templates::body(to.format, notice, key, mw_sys::unix_ms()).to_string();
    let path = uri.path_and_query().map_or("", |path| path.as_str()).to_owned();
    let agent =
        mw_http::agent(&uri, to.ca_file.as_deref(), limit).map_err(DeliveryError::for_now)?;
    let mut request = agent.post(uri).header("content-type", "application/json");
    // PagerDuty's is in the body.
    if let Some(key) = key.filter(|_| to.format != WebhookFormat::PagerDuty) {
        let scheme = if key.contains(' ') { "" } else { "Bearer " };
        request = request.header("authorization", format!("{scheme}{key}"));
    }
    let answer = request.send(body);
    let secret_path = matches!(to.address, WebhookUrl::File(_)).then(|| path.as_str());
    let answer = answer.map_err(|error| DeliveryError::for_now(mw_http::failure(&error, limit)))?;
    judge(answer, [key, secret_path])
}

fn uri(address: &WebhookUrl) -> Result<Uri, DeliveryError> {
    match address {
        WebhookUrl::Url(uri) => Ok(uri.clone()),
        WebhookUrl::File(file) => {
            let url = file.read().map_err(DeliveryError::for_now)?;
            let wrong = |error| DeliveryError::for_good(format!("{}: the URL {error}", file.0));
            // The URL is a secret as well.
            checked(url.text(), true).map_err(wrong)
        }
    }
}

/// Text of a reply; one that repeats a part of a secret is not shown.
fn judge(answer: Response<Body>, secrets: [Option<&str>; 2]) -> Result<(), DeliveryError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    if status.is_redirection() {
        let text = format!("HTTP {}: a redirect is not followed; set its target", status.as_u16());
        return Err(DeliveryError::for_good(text));
    }
    let after =
        answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    let after = after.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
    let again = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
    let said = mw_http::said(answer, MAX_ANSWER_BYTES);
    let said = String::from_utf8_lossy(&said);
    let is_told = |line: &&str| !secrets.iter().flatten().any(|secret| has_part(line, secret));
    let said = said
        .lines()
        .next()
        .filter(is_told)
        .map_or(String::new(), |line| format!(": {}", mw_model::visible::line(line.trim())));
    Err(DeliveryError { text: format!("HTTP {}{said}", status.as_u16()), again, after })
}

/// True if a line repeats a part of a secret, whatever the case and the punctuation.
fn has_part(line: &str, secret: &str) -> bool {
    let plain = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|c| c.is_alphanumeric());
        letters.flat_map(char::to_lowercase).collect()
    };
    let (line, secret) = (plain(line), plain(secret));
    let part = PART.min(secret.len());
    part > 1 && secret.windows(part).any(|part| line.windows(part.len()).any(|run| run == part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_secret_are_found() {
        const SECRET: &str = "/services/T00000/B12345/XxYyZz";
        for line in ["bad xxyyzz", "no such hook B1-23-45", "SERVICES?", "t00000/b"] {
            assert!(has_part(line, SECRET), "{line}");
        }
        assert!(!has_part("invalid_payload", SECRET));
        assert!(has_part("no such key: abc", "abc") && !has_part("x", ""));
    }
}
