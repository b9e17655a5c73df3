//! Requests and responses.

use crate::MAX_HEAD_BYTES;
use std::sync::Arc;

const MAX_HEADERS: usize = 64;

/// Request of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// Without the query.
    pub path: String,
    /// Without the content: HEAD.
    pub head_only: bool,
    pub accept: String,
    pub(crate) authorization: Option<String>,
}

/// Reply to it.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Arc<str>,
}

impl Response {
    #[must_use]
    pub fn plain(status: u16, text: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: text.into() }
    }

    /// Head that is sent before the body.
    pub(crate) fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let more = match self.status {
            401 => "WWW-Authenticate: Basic\r\n",
            405 => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let (status, length) = (self.status, self.body.len());
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n{more}\r\n",
            self.content_type
        )
    }
}

/// The head of a request, or the response to one that is wrong; none while it is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Option<Result<HttpRequest, Response>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return None,
        Ok(httparse::Status::Partial) => {
            let why = format!("the request exceeds {MAX_HEAD_BYTES} bytes\n");
            return Some(Err(Response::plain(431, &why)));
        }
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Some(Err(Response::plain(431, "too many headers\n")));
        }
        Err(error) => return Some(Err(Response::plain(400, &format!("{error}\n")))),
    }
    let head_only = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Err(Response::plain(405, "use GET\n"))),
    };
    let header = |name: &str| {
        let found = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::to_owned)
    };
    let target = parsed.path.unwrap_or_default();
    let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
    let accept = header("accept").unwrap_or_default();
    Some(Ok(HttpRequest { path, head_only, accept, authorization: header("authorization") }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_in_pieces_and_within_bounds() {
        let whole = "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: text/plain\r\n\r\n";
        for end in 1..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..end]).map(|r| r.map_err(|r| r.status)), None);
        }
        let request = parse(whole.as_bytes()).unwrap().unwrap();
        assert_eq!((&*request.path, &*request.accept), ("/metrics", "text/plain"));
        let status = |text: &str| {
            let bytes = text.as_bytes();
            parse(bytes.get(..MAX_HEAD_BYTES).unwrap_or(bytes)).map(|read| read.unwrap_err().status)
        };
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), Some(405));
        assert_eq!(status("\0\r\n\r\n"), Some(400));
        assert_eq!(
            status(&format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(9000))),
            Some(431)
        );
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65))), Some(431));
        assert_eq!(status("GET / HTTP/1.1\r\n"), None);
    }
}
