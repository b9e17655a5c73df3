//! `redis://HOST[:PORT]`: `PING`, answered by `PONG`.

use crate::address::Parsed;
use crate::link::{Connector, Deadline, Failure, Link};
use crate::login::{Login, LoginAddress};
use crate::persistent::{Persistent, Protocol};
use std::sync::Arc;

pub(crate) fn parse(rest: &str) -> Parsed {
    let probe = |login| Box::new(Persistent::new(Redis::new(login))) as _;
    Ok(Arc::new(LoginAddress { scheme: "redis", login: Login::parse("redis", rest, 6379)?, probe }))
}

/// The longest line that is shown of a server that answers something else.
const MAX_SHOWN_CHARS: usize = 80;

/// Pings, having logged in where there is a password.
struct Redis {
    connector: Connector,
    login: Login,
}

impl Redis {
    fn new(login: Login) -> Self {
        Self { connector: Connector::new(login.endpoint.clone()), login }
    }
}

impl Protocol for Redis {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, Failure> {
        let mut link = self.connector.connect(deadline)?;
        let Some(password) = &self.login.password else { return Ok(link) };
        let mut words = vec!["AUTH"];
        words.extend(self.login.user.as_deref());
        words.push(password.reveal());
        command(&mut link, &words, "+OK", deadline)?;
        Ok(link)
    }

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, Failure> {
        command(link, &["PING"], "+PONG", deadline).map(|()| true)
    }
}

/// Sends one command (RESP: an array of strings with their lengths) and expects one line.
fn command(
    link: &mut Link,
    words: &[&str],
    expected: &str,
    deadline: &Deadline<'_>,
) -> Result<(), Failure> {
    let strings = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    let text = format!("*{}\r\n{}", words.len(), strings.collect::<String>());
    link.write(text.as_bytes(), deadline)?;
    let answer = link.take_until(b"\r\n", deadline)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.trim_end() {
        line if line == expected => Ok(()),
        line if line.starts_with('-') => {
            Err(Failure::wrong(format!("the server refused: {}", line.trim_start_matches('-'))))
        }
        line => {
            let shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
            Err(Failure::wrong(format!("not a Redis server: {shown}")))
        }
    }
}
