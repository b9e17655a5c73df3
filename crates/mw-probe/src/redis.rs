//! `redis://HOST[:PORT]`: `PING`, answered by `PONG`.

use crate::address::ParseResult;
use crate::link::{Connector, Deadline, Link, LinkError, MAX_ANSWER_BYTES};
use crate::login::{Login, LoginAddress};
use crate::persistent::PersistentProbe;
use crate::protocol::Protocol;
use crate::view::{SessionQuery, ViewConnection, plain};
use mw_model::{FailureKind, ServiceEvent, ServiceValue, ServiceView};
use std::sync::Arc;

pub(crate) fn parse(rest: &str) -> ParseResult {
    let probe = |login| Box::new(PersistentProbe::new(Redis::new(login))) as _;
    let view = |login| Box::new(ViewConnection::new(Redis::new(login))) as _;
    let login = Login::parse("redis", rest, 6379)?;
    Ok(Arc::new(LoginAddress { scheme: "redis", login, probe, view }))
}

/// The longest line that is shown of a server that answers something else.
const MAX_SHOWN_CHARS: usize = 80;

/// Entries of the slow log that are asked for.
const SLOW_ENTRIES: &str = "5";
/// The most values in one of an answer, and how deep they are.
const MAX_ITEMS: usize = 256;
const MAX_DEPTH: usize = 4;

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
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, LinkError> {
        let mut link = self.connector.connect(deadline)?;
        let Some(password) = &self.login.password else { return Ok(link) };
        let mut words = vec!["AUTH"];
        words.extend(self.login.user.as_deref());
        words.push(password.reveal());
        link.set_phase("logging in");
        command(&mut link, &words, "+OK", deadline)?;
        Ok(link)
    }

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, LinkError> {
        link.set_phase("waiting for the answer to PING");
        command(link, &["PING"], "+PONG", deadline).map(|()| true)
    }
}

impl SessionQuery for Redis {
    fn view(
        &mut self,
        link: &mut Link,
        queries: bool,
        deadline: &Deadline<'_>,
    ) -> Result<ServiceView, LinkError> {
        link.write(&encoded(&["INFO"]), deadline)?;
        let info = answer(link, deadline)?;
        link.write(&encoded(&["SLOWLOG", "GET", SLOW_ENTRIES]), deadline)?;
        let slow = answer(link, deadline)?;
        link.write(&encoded(&["LATENCY", "LATEST"]), deadline)?;
        let latency = answer(link, deadline)?;
        Ok(ServiceView {
            source: "INFO, SLOWLOG and LATENCY".to_owned(),
            values: values(info.text().unwrap_or_default()),
            events: slow
                .items()
                .iter()
                .filter_map(|entry| slow_entry(entry, queries))
                .chain(latency.items().iter().filter_map(latency_entry))
                .collect(),
            ..ServiceView::default()
        })
    }
}

/// Lines of INFO that tell of a stall.
const VALUES: &[&str] = &[
    "blocked_clients",
    "loading",
    "async_loading",
    "rdb_bgsave_in_progress",
    "aof_rewrite_in_progress",
    "aof_delayed_fsync",
    "latest_fork_usec",
    "mem_fragmentation_ratio",
    "used_memory",
    "maxmemory",
    "maxmemory_policy",
    "evicted_keys",
    "connected_clients",
    "master_link_status",
];

fn values(info: &str) -> Vec<ServiceValue> {
    let line = |line: &str| {
        let (name, value) = line.trim_end().split_once(':')?;
        let (name, value) = (name.to_owned(), plain(value));
        VALUES.contains(&name.as_str()).then_some(ServiceValue { name, value })
    };
    info.lines().filter_map(line).collect()
}

/// Number, time of day, microseconds, the command with its arguments, and who sent it.
fn slow_entry(entry: &RedisValue, queries: bool) -> Option<ServiceEvent> {
    let fields = entry.items();
    let words = fields.get(3)?.items().iter().filter_map(RedisValue::text);
    let words: Vec<&str> = words.take(if queries { usize::MAX } else { 1 }).collect();
    let seconds = u64::try_from(fields.get(1)?.number()?).ok()?;
    Some(ServiceEvent {
        source: "SLOWLOG".to_owned(),
        at_unix_ms: Some(seconds.saturating_mul(1000)),
        took_ms: Some(fields.get(2)?.number()? as f64 / 1000.0),
        text: plain(&words.join(" ")),
    })
}

/// Event, time of day, milliseconds of the latest and of the longest.
fn latency_entry(entry: &RedisValue) -> Option<ServiceEvent> {
    let fields = entry.items();
    let what = plain(fields.first()?.text()?);
    let seconds = u64::try_from(fields.get(1)?.number()?).ok()?;
    Some(ServiceEvent {
        source: format!("LATENCY {what}"),
        at_unix_ms: Some(seconds.saturating_mul(1000)),
        took_ms: Some(fields.get(2)?.number()? as f64),
        text: what,
    })
}

/// An answer (RESP 2).
#[derive(Debug, Clone, PartialEq)]
enum RedisValue {
    Text(String),
    Number(i64),
    Items(Vec<Self>),
    /// No value, or an error: that the user may not ask this, or the server does not know it.
    Nothing,
}

impl RedisValue {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn items(&self) -> &[Self] {
        match self {
            Self::Items(items) => items,
            _ => &[],
        }
    }
}

fn answer(link: &mut Link, deadline: &Deadline<'_>) -> Result<RedisValue, LinkError> {
    value(link, deadline, MAX_DEPTH)
}

fn value(link: &mut Link, deadline: &Deadline<'_>, depth: usize) -> Result<RedisValue, LinkError> {
    let malformed = || LinkError::malformed("not a Redis server");
    let line = link.take_until(b"\r\n", deadline)?;
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    let (kind, rest) = line.split_at_checked(1).ok_or_else(malformed)?;
    let number = || rest.parse::<i64>().map_err(|_| malformed());
    match kind {
        "+" => Ok(RedisValue::Text(rest.to_owned())),
        "-" => Ok(RedisValue::Nothing),
        ":" => Ok(RedisValue::Number(number()?)),
        "$" => {
            let Ok(bytes) = usize::try_from(number()?) else { return Ok(RedisValue::Nothing) };
            if bytes > MAX_ANSWER_BYTES {
                return Err(malformed());
            }
            let text = link.take(bytes + 2, deadline)?;
            let text = text.get(..bytes).unwrap_or_default();
            Ok(RedisValue::Text(String::from_utf8_lossy(text).into_owned()))
        }
        "*" => {
            let items = usize::try_from(number()?).unwrap_or(0);
            if depth == 0 || items > MAX_ITEMS {
                return Err(malformed());
            }
            (0..items)
                .map(|_| value(link, deadline, depth - 1))
                .collect::<Result<_, _>>()
                .map(RedisValue::Items)
        }
        _ => Err(malformed()),
    }
}

/// A command as an array of strings with their lengths (RESP).
fn encoded(words: &[&str]) -> Vec<u8> {
    let strings = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), strings.collect::<String>()).into_bytes()
}

/// Sends one command and expects one line.
fn command(
    link: &mut Link,
    words: &[&str],
    expected: &str,
    deadline: &Deadline<'_>,
) -> Result<(), LinkError> {
    link.write(&encoded(words), deadline)?;
    let answer = link.take_until(b"\r\n", deadline)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.trim_end() {
        line if line == expected => Ok(()),
        line if line.starts_with('-') => {
            let said = line.trim_start_matches('-');
            let word = said.split(' ').next().unwrap_or_default();
            let kind = match word {
                "NOAUTH" | "WRONGPASS" | "NOPERM" => FailureKind::Authentication,
                _ => FailureKind::ServiceError,
            };
            Err(LinkError::answer(kind, format!("the server refused: {said}")))
        }
        line => {
            let shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
            Err(LinkError::malformed(format!("not a Redis server: {shown}")))
        }
    }
}
