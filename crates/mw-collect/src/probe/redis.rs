//! `redis://HOST[:PORT]`: `PING`, answered by `PONG`.

use super::kept::Protocol;
use super::link::{Connector, Deadline, Failure, Link};
use super::login::Login;

/// The longest line that is shown of a server that answers something else.
const MAX_SHOWN_CHARS: usize = 80;

/// Pings, having logged in where there is a password.
pub(super) struct Redis {
    connector: Connector,
    login: Login,
}

impl Redis {
    pub(super) fn new(login: Login) -> Self {
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

    fn ask(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, Failure> {
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
            Err(Failure::wrong(format!("the server refuses: {}", line.trim_start_matches('-'))))
        }
        line => {
            let shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
            Err(Failure::wrong(format!("no answer of a Redis server: {shown}")))
        }
    }
}
