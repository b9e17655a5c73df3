//! `http://HOST[:PORT][/PATH]`: `GET`, answered by a status below 400.
//!
//! A short body whose length is told is read, and the connection kept; otherwise it is closed
//! after the head, and nothing waits for a body without end.

use crate::address::{ParseResult, TargetAddress, TargetError, endpoint, name};
use crate::link::{Connector, Deadline, Endpoint, Link, LinkError, MAX_ANSWER_BYTES};
use crate::persistent::PersistentProbe;
use crate::protocol::Probe;
use crate::protocol::Protocol;
use mw_model::FailureKind;
use std::fmt;
use std::sync::Arc;

/// Longer bodies are not worth a connection.
const MAX_BODY_BYTES: usize = MAX_ANSWER_BYTES / 2;
/// Statuses from here on are failures (RFC 9110, 15).
const FIRST_ERROR: u16 = 400;
const FIRST_FINAL: u16 = 200;
/// Longer reasons are cut.
const MAX_REASON_CHARS: usize = 80;
/// Reply of a TLS server to what is not TLS (RFC 8446, 5.1): an alert of version 3.
const TLS_ALERT: &[u8] = &[21, 3];

pub(crate) fn parse(rest: &str) -> ParseResult {
    let malformed = |what| TargetError::Malformed { scheme: "http", what };
    let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if place.contains('@') {
        return Err(malformed("a user is not supported: use exec:curl"));
    }
    if !path.chars().all(|c| c.is_ascii_graphic()) {
        return Err(malformed(
            "the path has blanks or other characters that must be written as %XX",
        ));
    }
    let path = if path.is_empty() { "/" } else { path }.to_owned();
    Ok(Arc::new(HttpAddress { endpoint: endpoint("http", place, Some(80))?, path }))
}

#[derive(Debug)]
struct HttpAddress {
    endpoint: Endpoint,
    path: String,
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.endpoint, self.path)
    }
}

impl TargetAddress for HttpAddress {
    fn default_name(&self) -> String {
        name("http", &self.endpoint)
    }

    fn probe(&self) -> Box<dyn Probe> {
        Box::new(PersistentProbe::new(HttpProbe::new(self.endpoint.clone(), &self.path)))
    }
}

struct HttpProbe {
    connector: Connector,
    request: String,
}

impl HttpProbe {
    fn new(endpoint: Endpoint, path: &str) -> Self {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {endpoint}\r\nUser-Agent: memwright\r\nAccept: */*\r\n\r\n"
        );
        Self { connector: Connector::new(endpoint), request }
    }
}

impl Protocol for HttpProbe {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, LinkError> {
        self.connector.connect(deadline)
    }

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, LinkError> {
        link.write(self.request.as_bytes(), deadline)?;
        // What is no HTTP is seen before the end of a head is waited for.
        let first = link.fill(5, deadline)?;
        if first.starts_with(TLS_ALERT) {
            return Err(LinkError::answer(
                FailureKind::Tls,
                "the server speaks TLS: use exec:curl",
            ));
        }
        if !first.starts_with(b"HTTP/") {
            return Err(LinkError::malformed("not an HTTP server"));
        }
        let head = link.take_until(b"\r\n\r\n", deadline)?;
        let head = HttpHead::parse(&String::from_utf8_lossy(&head));
        match head.status {
            Some(FIRST_FINAL..FIRST_ERROR) => {}
            Some(status) => {
                let text = format!("status {status} {}", head.reason);
                return Err(LinkError::answer(FailureKind::HttpStatus, text.trim_end()));
            }
            None => return Err(LinkError::malformed("not an HTTP server")),
        }
        match head.body_bytes.filter(|bytes| head.stays_open && *bytes <= MAX_BODY_BYTES) {
            Some(bytes) => link.take(bytes, deadline).map(|_| true),
            None => Ok(false),
        }
    }
}

/// Fields that are needed of the head of a reply.
#[derive(Debug, Default, PartialEq)]
struct HttpHead {
    status: Option<u16>,
    /// The server's word for it: `Service Unavailable`.
    reason: String,
    body_bytes: Option<usize>,
    stays_open: bool,
}

impl HttpHead {
    fn parse(text: &str) -> Self {
        let (first, fields) = text.split_once("\r\n").unwrap_or((text, ""));
        let mut words = first.trim_end().splitn(3, ' ');
        let stays_open = words.next() == Some("HTTP/1.1");
        let status = words.next().and_then(|status| status.parse().ok());
        let reason: String =
            words.next().unwrap_or_default().chars().take(MAX_REASON_CHARS).collect();
        // RFC 9110, 6.4.1: these have no body, whatever their fields say.
        let bodiless = matches!(status, Some(204 | 304));
        let mut head = Self { status, reason, stays_open, body_bytes: bodiless.then_some(0) };
        for (name, value) in fields.lines().filter_map(|field| field.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") && !bodiless {
                head.body_bytes = value.parse().ok();
            }
            if name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close") {
                head.stays_open = false;
            }
            if name.eq_ignore_ascii_case("transfer-encoding") {
                head.stays_open = false;
            }
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read() {
        let head = |status, reason: &str, body_bytes, stays_open| HttpHead {
            status,
            reason: reason.to_owned(),
            body_bytes,
            stays_open,
        };
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", head(Some(200), "OK", Some(7), true)),
            ("HTTP/1.0 200 OK\r\ncontent-length: 7\r\n\r\n", head(Some(200), "OK", Some(7), false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", head(Some(204), "No Content", Some(0), true)),
            (
                "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n",
                head(Some(200), "", None, false),
            ),
            ("HTTP/1.1 200\r\nConnection: Close\r\n\r\n", head(Some(200), "", None, false)),
            ("HTTP/1.1 x\r\nContent-Length: -1\r\n\r\n", head(None, "", None, true)),
            ("", head(None, "", None, false)),
        ] {
            assert_eq!(HttpHead::parse(text), expected, "{text}");
        }
    }
}
