//! What a client sends to a server of a test.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;

/// The lines before the body, and the body; `None` if the client ends before, or sends something else.
#[must_use]
pub fn read_request(client: &TcpStream) -> Option<(String, String)> {
    let (head, body) = read_request_bytes(client)?;
    Some((head, String::from_utf8(body).ok()?))
}

/// The same, with a body that need not be text.
#[must_use]
pub fn read_request_bytes(client: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(client);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}
