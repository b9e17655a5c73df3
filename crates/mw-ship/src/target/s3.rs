//! A bucket that speaks S3. Requests are signed in their URL, which is in no message.

use mw_http::{Body, Error, Response, Uri};
use rusty_s3::{Credentials, S3Action, UrlStyle};
use std::path::PathBuf;
use std::time::Duration;

/// A request may take so long; a day of a machine has some 100 KiB.
const LIMIT: Duration = Duration::from_secs(60);

/// Validity of a signed URL.
const VALID: Duration = Duration::from_secs(300);

/// Waits before a request is tried again: a server that is busy is left alone.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];

const MAX_SAID_BYTES: u64 = 4096;

const USUAL_REGION: &str = "us-east-1";

/// Address and trust of the server, as the SDKs have it.
#[derive(Debug, Clone, Default)]
pub struct S3Options {
    /// `https://HOST[:PORT]` of another server than Amazon's.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// The certificates that may have signed the server's, in PEM.
    pub ca_file: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Bucket {
    bucket: rusty_s3::Bucket,
    credentials: Credentials,
    /// Ends with a slash, or is empty.
    prefix: String,
    ca_file: Option<PathBuf>,
}

impl Bucket {
    /// `rest` is `BUCKET[/PREFIX]`. An error is a mistake in how it is named.
    pub(super) fn new(rest: &str, options: &S3Options) -> Result<Self, String> {
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_plain = |text: &str| text.split('/').all(|part| part != ".." && part != ".");
        if name.is_empty() || !is_plain(prefix) {
            return Err(format!("invalid bucket 's3://{rest}' (use s3://BUCKET/PREFIX)"));
        }
        let credentials = Credentials::from_env().ok_or_else(|| {
            "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned()
        })?;
        let region = options.region.as_deref().unwrap_or(USUAL_REGION);
        let (endpoint, style) = match &options.endpoint {
            Some(endpoint) => (endpoint.clone(), UrlStyle::Path),
            None => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::VirtualHost),
        };
        // A signature is as good as a token.
        mw_http::checked(&endpoint, true).map_err(|error| format!("--endpoint {error}"))?;
        let url = endpoint.parse().map_err(|_| format!("invalid --endpoint '{endpoint}'"))?;
        let bucket = rusty_s3::Bucket::new(url, style, name.to_owned(), region.to_owned())
            .map_err(|error| format!("--endpoint '{endpoint}': {error}"))?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket, credentials, prefix, ca_file: options.ca_file.clone() })
    }

    pub(super) fn has(&self, key: &str) -> Result<bool, String> {
        let key = format!("{}{key}", self.prefix);
        let action = self.bucket.head_object(Some(&self.credentials), &key);
        let (status, _) = self.ask("HEAD", &key, || {
            let uri = uri(&action.sign(VALID))?;
            mw_http::agent(&uri, self.ca_file.as_deref(), LIMIT).map(|agent| agent.head(uri).call())
        })?;
        match status {
            200 => Ok(true),
            404 => Ok(false),
            // Without the right to list, a missing object is refused.
            403 => Err(self.failed(
                "HEAD",
                &key,
                "HTTP 403; s3:GetObject and s3:ListBucket are needed",
            )),
            status => Err(self.failed("HEAD", &key, &format!("HTTP {status}"))),
        }
    }

    pub(super) fn put(&self, key: &str, bytes: &[u8]) -> Result<(), String> {
        let key = format!("{}{key}", self.prefix);
        let action = self.bucket.put_object(Some(&self.credentials), &key);
        let (status, said) = self.ask("PUT", &key, || {
            let uri = uri(&action.sign(VALID))?;
            mw_http::agent(&uri, self.ca_file.as_deref(), LIMIT)
                .map(|agent| agent.put(uri).send(bytes))
        })?;
        match status {
            200 | 201 | 204 => Ok(()),
            status => Err(self.failed("PUT", &key, &format!("HTTP {status}{}", code(&said)))),
        }
    }

    /// Asks until there is an answer that another try would not change.
    fn ask(
        &self,
        method: &str,
        key: &str,
        send: impl Fn() -> Result<Result<Response<Body>, Error>, String>,
    ) -> Result<(u16, Vec<u8>), String> {
        let mut pauses = PAUSES.iter();
        loop {
            let answer = send().map_err(|why| self.failed(method, key, &why))?;
            let why = match answer {
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    let said = mw_http::said(answer, MAX_SAID_BYTES);
                    if !(status >= 500 || status == 429 || status == 408) {
                        return Ok((status, said));
                    }
                    format!("HTTP {status}{}", code(&said))
                }
                Err(error) => mw_http::failure(&error, LIMIT),
            };
            match pauses.next().filter(|_| !mw_sys::is_termination_requested()) {
                Some(pause) => std::thread::sleep(*pause),
                None => {
                    return Err(self.failed(
                        method,
                        key,
                        &format!("{why}, {} times", PAUSES.len() + 1),
                    ));
                }
            }
        }
    }

    fn failed(&self, method: &str, key: &str, why: &str) -> String {
        format!("{method} s3://{}/{key}: {why}", self.bucket.name())
    }
}

fn uri(url: &impl std::fmt::Display) -> Result<Uri, String> {
    mw_http::checked(&url.to_string(), true).map_err(|error| error.to_string())
}

/// The code of the error of an answer, which is XML.
fn code(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code: String = code.map_or("", |(code, _)| code).chars().take(80).collect();
    if code.is_empty() { code } else { format!(" {}", mw_model::visible::line(&code)) }
}
