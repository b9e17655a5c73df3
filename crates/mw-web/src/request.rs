//! Requests and responses.

use crate::MAX_HEAD_BYTES;
use std::io::{self, Read, Write};
use std::sync::Arc;

const MAX_HEADERS: usize = 64;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Without the query.
    pub path: String,
    /// Without the content: HEAD.
    pub head_only: bool,
    pub accept: String,
    pub(crate) authorization: Option<String>,
}

/// What it gets.
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

    pub(crate) fn write(&self, head_only: bool, to: &mut dyn Write) -> io::Result<()> {
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
        let mut bytes = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {}\r\nContent-Length: {length}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n{more}\r\n",
            self.content_type
        );
        if !head_only {
            bytes.push_str(&self.body);
        }
        to.write_all(bytes.as_bytes())?;
        to.flush()
    }
}

/// Reads the head of a request. The inner error is the response to one that is wrong.
pub(crate) fn read(from: &mut dyn Read) -> io::Result<Result<Request, Response>> {
    let mut bytes = vec![0; MAX_HEAD_BYTES];
    let mut length = 0;
    loop {
        let Some(free) = bytes.get_mut(length..).filter(|free| !free.is_empty()) else {
            let why = format!("the request exceeds {MAX_HEAD_BYTES} bytes\n");
            return Ok(Err(Response::plain(431, &why)));
        };
        let count = from.read(free)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        length += count;
        if let Some(request) = parse(bytes.get(..length).unwrap_or_default()) {
            return Ok(request);
        }
    }
}

/// None while the head is incomplete.
fn parse(bytes: &[u8]) -> Option<Result<Request, Response>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
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
    Some(Ok(Request { path, head_only, accept, authorization: header("authorization") }))
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
        let request = read(&mut whole.as_bytes()).unwrap().unwrap();
        assert_eq!((&*request.path, &*request.accept), ("/metrics", "text/plain"));
        let status = |text: &str| read(&mut text.as_bytes()).unwrap().unwrap_err().status;
        assert_eq!(status("POST / HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(status("\0\r\n\r\n"), 400);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(9000))), 431);
        assert_eq!(status(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65))), 431);
        assert!(read(&mut "GET / HTTP/1.1\r\n".as_bytes()).is_err());
    }
}
