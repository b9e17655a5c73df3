//! `mysql://…`: `SELECT 1`, on a connection that stays logged in, to MySQL and MariaDB.
//!
//! The little of the protocol that this takes is spoken here: the client libraries bound each read
//! and not the whole answer, and do arithmetic on what a server says without looking. Layouts are
//! those of the MySQL and MariaDB manuals, "Client/Server Protocol".

use crate::address::ParseResult;
use crate::link::{Connector, Deadline, Endpoint, Link, LinkError, MAX_ANSWER_BYTES};
use crate::login::{Login, LoginAddress};
use crate::persistent::PersistentProbe;
use crate::protocol::Protocol;
use crate::view::{MAX_SESSIONS, SessionQuery, ViewConnection, plain};
use mw_model::{FailureKind, ServiceSession, ServiceView};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use std::sync::Arc;

/// The user where none is named.
const USER: &str = "root";
/// Packets that a login may take.
const MAX_LOGIN_PACKETS: usize = 8;
/// Length and number of a packet.
const HEADER_BYTES: usize = 4;
/// The most that is sent or expected in one packet.
const MAX_PACKET_BYTES: u32 = 1 << 20;

const CLIENT_LONG_PASSWORD: u32 = 1;
const CLIENT_CONNECT_WITH_DB: u32 = 1 << 3;
const CLIENT_PROTOCOL_41: u32 = 1 << 9;
const CLIENT_TRANSACTIONS: u32 = 1 << 13;
const CLIENT_SECURE_CONNECTION: u32 = 1 << 15;
const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
/// utf8mb4_general_ci.
const COLLATION: u8 = 45;

const COM_QUERY: u8 = 3;
const OK: u8 = 0;
const MORE: u8 = 1;
/// In the place of a packet's kind: the end of rows, or of a login that goes on another way.
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// In the place of a text's length.
const NULL: u8 = 0xfb;
/// The most columns of an answer: from here on their number has another form.
const MAX_COLUMNS: u8 = 250;
/// A longer packet that begins as an end does is a row.
const MAX_END_BYTES: usize = 9;
/// `caching_sha2_password`: the hash was known to the server.
const HASH_KNOWN: u8 = 3;
/// `caching_sha2_password`: it was not; the password itself is wanted.
const HASH_UNKNOWN: u8 = 4;

/// Errors of a login: no access to the database, for the user, without a password, with this plugin; the
/// account is locked or its password has expired.
const AUTHENTICATION_ERRORS: &[u16] = &[1044, 1045, 1227, 1698, 1862, 3118, 4151];
const SECURE_TRANSPORT_REQUIRED: u16 = 3159;
/// `ER_OUTOFMEMORY` and `ER_OUT_OF_RESOURCES`.
const MEMORY_ERRORS: &[u16] = &[1037, 1041];
/// `ER_DISK_FULL`.
const DISK_FULL: u16 = 1021;

const NATIVE: &[u8] = b"mysql_native_password";
const CACHING: &[u8] = b"caching_sha2_password";

pub(crate) fn parse(rest: &str) -> ParseResult {
    let probe = |login| Box::new(PersistentProbe::new(Mysql::new(login))) as _;
    let view = |login| Box::new(ViewConnection::new(Mysql::new(login))) as _;
    let login = Login::parse("mysql", rest, 3306)?;
    Ok(Arc::new(LoginAddress { scheme: "mysql", login, probe, view }))
}

struct Mysql {
    connector: Connector,
    login: Login,
}

impl Mysql {
    fn new(login: Login) -> Self {
        Self { connector: Connector::new(login.endpoint.clone()), login }
    }

    fn password(&self) -> &[u8] {
        self.login.password.as_ref().map_or(b"", |password| password.reveal().as_bytes())
    }
}

impl Protocol for Mysql {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, LinkError> {
        let mut link = self.connector.connect(deadline)?;
        link.set_phase("logging in");
        let (mut number, greeting) = packet(&mut link, deadline)?;
        let greeting = Greeting::parse(&greeting)?;
        let mut nonce = greeting.nonce;
        let plugin = if greeting.plugin == CACHING { CACHING } else { NATIVE };
        let mut answer = self.response(plugin, &proof(plugin, self.password(), &nonce)?);
        for _ in 0..MAX_LOGIN_PACKETS {
            send(&mut link, number.wrapping_add(1), &answer, deadline)?;
            let mut said;
            (number, said) = packet(&mut link, deadline)?;
            if said == [MORE, HASH_KNOWN] {
                (number, said) = packet(&mut link, deadline)?;
            }
            answer = match said.split_first() {
                Some((&OK, _)) => return Ok(link),
                Some((&ERROR, rest)) => return Err(refusal(rest)),
                Some((&END, rest)) => {
                    let (plugin, rest) = until_zero(rest).ok_or_else(no_mysql)?;
                    nonce = rest.strip_suffix(&[0]).unwrap_or(rest).to_vec();
                    proof(plugin, self.password(), &nonce)?
                }
                Some((&MORE, [HASH_UNKNOWN])) => self.plain_password()?,
                _ => return Err(no_mysql()),
            };
        }
        Err(no_mysql())
    }

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, LinkError> {
        link.set_phase("waiting for the answer to SELECT 1");
        let mut one = false;
        query(link, deadline, "SELECT 1", |row| one = row == [1, b'1'])?;
        if one { Ok(true) } else { Err(LinkError::malformed("SELECT 1 was not 1")) }
    }
}

/// Runs one statement and gives its rows to `each`.
fn query(
    link: &mut Link,
    deadline: &Deadline<'_>,
    statement: &str,
    mut each: impl FnMut(&[u8]),
) -> Result<(), LinkError> {
    let question = [&[COM_QUERY], statement.as_bytes()].concat();
    send(link, 0, &question, deadline)?;
    let columns = match packet(link, deadline)?.1.split_first() {
        Some((&ERROR, rest)) => return Err(refusal(rest)),
        Some((&columns @ 1..=MAX_COLUMNS, [])) => columns,
        _ => return Err(no_mysql()),
    };
    // Descriptions, of which the last is followed by an end.
    for column in 0..=columns {
        let (_, description) = packet(link, deadline)?;
        let is_end = description.first() == Some(&END);
        if is_end != (column == columns) {
            return Err(no_mysql());
        }
    }
    loop {
        let (_, row) = packet(link, deadline)?;
        match row.split_first() {
            Some((&ERROR, rest)) => return Err(refusal(rest)),
            Some((&END, _)) if row.len() < MAX_END_BYTES => return Ok(()),
            _ => each(&row),
        }
    }
}

/// The fields of a row: texts with their lengths; no text is `NULL`.
fn fields(mut row: &[u8]) -> Option<Vec<Option<String>>> {
    let mut fields = Vec::new();
    while let Some((&first, rest)) = row.split_first() {
        let (bytes, rest) = match first {
            NULL => {
                fields.push(None);
                row = rest;
                continue;
            }
            0xfc => length(rest, 2)?,
            0xfd => length(rest, 3)?,
            0xfe => length(rest, 8)?,
            short => (usize::from(short), rest),
        };
        let (text, rest) = rest.split_at_checked(bytes)?;
        fields.push(Some(String::from_utf8_lossy(text).into_owned()));
        row = rest;
    }
    Some(fields)
}

/// A length of so many bytes, the lowest first.
fn length(bytes: &[u8], width: usize) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length.iter().rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    Some((usize::try_from(length).ok()?, rest))
}

/// Waiting sessions and their blockers: of MariaDB, and of MySQL from 5.7 on.
const LOCK_WAITS: [&str; 2] = [
    "SELECT r.trx_mysql_thread_id, b.trx_mysql_thread_id \
     FROM information_schema.innodb_lock_waits w \
     JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id \
     JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id LIMIT 64",
    "SELECT waiting_pid, blocking_pid FROM sys.innodb_lock_waits LIMIT 64",
];

impl SessionQuery for Mysql {
    fn view(
        &mut self,
        link: &mut Link,
        queries: bool,
        deadline: &Deadline<'_>,
    ) -> Result<ServiceView, LinkError> {
        let mut sessions = Vec::new();
        query(link, deadline, "SHOW PROCESSLIST", |row| sessions.extend(session(row, queries)))?;
        let mut source = "SHOW PROCESSLIST".to_owned();
        let mut waits: Vec<(u64, u64)> = Vec::new();
        for statement in LOCK_WAITS {
            let wait = |row: &[u8]| {
                let fields = fields(row)?;
                let number = |at: usize| fields.get(at)?.as_ref()?.parse().ok();
                Some((number(0)?, number(1)?))
            };
            match query(link, deadline, statement, |row| waits.extend(wait(row))) {
                Ok(()) => {
                    source.push_str(" and innodb_lock_waits");
                    break;
                }
                // It has no such table, or this user may not read it.
                Err(LinkError::Answer { .. }) => {}
                Err(failure) => return Err(failure),
            }
        }
        for session in &mut sessions {
            let of_it = waits.iter().filter(|(waiting, _)| *waiting == session.session);
            session.blocked_by = of_it.map(|(_, blocking)| *blocking).collect();
        }
        let blocks = |session: &ServiceSession| waits.iter().any(|wait| wait.1 == session.session);
        sessions.retain(|session| session.state != "Sleep" || blocks(session));
        sessions.sort_by_key(|session| std::cmp::Reverse(session.for_ms));
        sessions.truncate(MAX_SESSIONS);
        Ok(ServiceView { source, sessions, ..ServiceView::default() })
    }
}

/// Number, user, host, database, command, seconds, state, text.
fn session(row: &[u8], queries: bool) -> Option<ServiceSession> {
    let fields = fields(row)?;
    let text = |at: usize| fields.get(at)?.as_deref();
    let statement = text(7);
    if statement == Some("SHOW PROCESSLIST") || text(4) == Some("Daemon") {
        return None;
    }
    let seconds: Option<f64> = text(5).and_then(|seconds| seconds.parse().ok());
    Some(ServiceSession {
        session: text(0)?.parse().ok()?,
        who: plain(text(1).unwrap_or_default()),
        state: plain(text(4).unwrap_or_default()),
        waits_in: text(6).map(plain).filter(|state| !state.is_empty()),
        for_ms: seconds.map(|seconds| (seconds.max(0.0) * 1000.0) as u64),
        query: statement.filter(|_| queries).map(plain),
        ..ServiceSession::default()
    })
}

impl Mysql {
    /// The client's half of the handshake.
    fn response(&self, plugin: &[u8], proof: &[u8]) -> Vec<u8> {
        let mut flags = CLIENT_LONG_PASSWORD
            | CLIENT_PROTOCOL_41
            | CLIENT_TRANSACTIONS
            | CLIENT_SECURE_CONNECTION
            | CLIENT_PLUGIN_AUTH;
        if self.login.database.is_some() {
            flags |= CLIENT_CONNECT_WITH_DB;
        }
        let mut bytes = flags.to_le_bytes().to_vec();
        bytes.extend(MAX_PACKET_BYTES.to_le_bytes());
        bytes.push(COLLATION);
        bytes.extend([0; 23]);
        bytes.extend(self.login.user.as_deref().unwrap_or(USER).as_bytes());
        bytes.push(0);
        bytes.push(u8::try_from(proof.len()).unwrap_or(0));
        bytes.extend(proof);
        if let Some(database) = &self.login.database {
            bytes.extend(database.as_bytes());
            bytes.push(0);
        }
        bytes.extend(plugin);
        bytes.push(0);
        bytes
    }

    /// The password itself, where nobody else can read it.
    fn plain_password(&self) -> Result<Vec<u8>, LinkError> {
        if let Endpoint::Unix(_) = self.login.endpoint {
            return Ok([self.password(), &[0]].concat());
        }
        Err(LinkError::answer(
            FailureKind::Authentication,
            "the server wants the password itself (caching_sha2_password), which is not sent over \
             the network: use the Unix socket, mysql://USER:PASSWORD@/?socket=/PATH",
        ))
    }
}

/// First packet of a server.
struct Greeting {
    nonce: Vec<u8>,
    plugin: Vec<u8>,
}

impl Greeting {
    /// Version 10: its number, the server's version up to a zero, the connection's number (4), the
    /// nonce's beginning (8), a filler, flags, collation, status and more flags (7), the nonce's
    /// length, 10 reserved, the rest of the nonce up to a zero, the plugin's name.
    fn parse(bytes: &[u8]) -> Result<Self, LinkError> {
        let rest = match bytes.split_first() {
            Some((10, rest)) => rest,
            Some((&ERROR, rest)) => return Err(refusal(rest)),
            _ => return Err(no_mysql()),
        };
        let (_, rest) = until_zero(rest).ok_or_else(no_mysql)?;
        let first = rest.get(4..12).ok_or_else(no_mysql)?;
        let rest = rest.get(31..).ok_or_else(no_mysql)?;
        let (second, rest) = until_zero(rest).ok_or_else(no_mysql)?;
        let plugin = until_zero(rest).map_or(rest, |(plugin, _)| plugin);
        Ok(Self { nonce: [first, second].concat(), plugin: plugin.to_vec() })
    }
}

/// Proof of the password to the server without sending it.
fn proof(plugin: &[u8], password: &[u8], nonce: &[u8]) -> Result<Vec<u8>, LinkError> {
    match plugin {
        NATIVE | CACHING if password.is_empty() => Ok(Vec::new()),
        NATIVE => {
            let once = Sha1::digest(password);
            let twice = Sha1::digest(once);
            Ok(xor(&once, &Sha1::new().chain_update(nonce).chain_update(twice).finalize()))
        }
        CACHING => {
            let once = Sha256::digest(password);
            let twice = Sha256::digest(once);
            Ok(xor(&once, &Sha256::new().chain_update(twice).chain_update(nonce).finalize()))
        }
        other => {
            let name = String::from_utf8_lossy(other).into_owned();
            let text = format!(
                "the account logs in with {name}, which the probe does not know: give it \
                 mysql_native_password or caching_sha2_password"
            );
            Err(LinkError::answer(FailureKind::Authentication, text))
        }
    }
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(left, right)| left ^ right).collect()
}

fn no_mysql() -> LinkError {
    LinkError::malformed("not a MySQL or MariaDB server")
}

/// Error of the server: a number (2), where there is one `#` and a state of five
/// characters, and the text.
fn refusal(bytes: &[u8]) -> LinkError {
    let (number, text) = bytes.split_at_checked(2).unwrap_or_default();
    let number = number.try_into().map_or(0, u16::from_le_bytes);
    let text = if text.starts_with(b"#") { text.get(6..).unwrap_or_default() } else { text };
    let text = format!("the server refused: {} (error {number})", String::from_utf8_lossy(text));
    let kind = match number {
        number if AUTHENTICATION_ERRORS.contains(&number) => FailureKind::Authentication,
        SECURE_TRANSPORT_REQUIRED => FailureKind::Tls,
        number if MEMORY_ERRORS.contains(&number) => FailureKind::OutOfMemory,
        DISK_FULL => FailureKind::NoSpace,
        _ => FailureKind::ServiceError,
    };
    LinkError::answer(kind, text)
}

/// Splits at the first zero, which belongs to neither.
fn until_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == 0)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

fn send(
    link: &mut Link,
    number: u8,
    payload: &[u8],
    deadline: &Deadline<'_>,
) -> Result<(), LinkError> {
    let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX).min(MAX_PACKET_BYTES);
    let [low, middle, high, _] = bytes.to_le_bytes();
    link.write(&[&[low, middle, high, number], payload].concat(), deadline)
}

/// Reads one packet whole: its number and what is in it.
fn packet(link: &mut Link, deadline: &Deadline<'_>) -> Result<(u8, Vec<u8>), LinkError> {
    let header = link.take(HEADER_BYTES, deadline)?;
    let &[low, middle, high, number] = header.as_slice() else { return Err(no_mysql()) };
    let bytes = u32::from_le_bytes([low, middle, high, 0]);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > MAX_ANSWER_BYTES {
        return Err(no_mysql());
    }
    Ok((number, link.take(bytes, deadline)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_their_number() {
        use FailureKind::{Authentication, NoSpace, OutOfMemory, ServiceError};
        let kind = |number: u16| refusal(&[&number.to_le_bytes()[..], b"#HY000no"].concat()).kind();
        let kinds = [Authentication, OutOfMemory, NoSpace, ServiceError];
        assert_eq!([1045, 1041, DISK_FULL, 1064].map(kind), kinds);
    }

    /// Computed with Python's hashlib after the manuals' formulas.
    #[test]
    fn passwords_are_proved() {
        let nonce: Vec<u8> = (1..=20).collect();
        let hex = |plugin| -> String {
            let bytes = proof(plugin, b"secret", &nonce).unwrap();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        };
        assert_eq!(hex(NATIVE), "b32bb3a583e1340c0a1108d58b1be49781ad8c2f");
        assert_eq!(
            hex(CACHING),
            "746ebe205d56a0707acb3e796e834e0dd7b1d61743b26bd5202c7a623230c7c9"
        );
        assert!(proof(CACHING, b"", &nonce).unwrap().is_empty());
        assert!(proof(b"client_ed25519", b"", &nonce).is_err());
    }

    #[test]
    fn a_short_greeting_is_refused() {
        let mut greeting = vec![10, b'8', 0];
        greeting.extend([1; 31]);
        greeting.extend(b"123456789012\0caching_sha2_password\0");
        let whole = Greeting::parse(&greeting).unwrap();
        assert_eq!((whole.nonce.len(), whole.plugin.as_slice()), (20, CACHING));
        for bytes in 0..greeting.len() - 22 {
            assert!(Greeting::parse(&greeting[..bytes]).is_err(), "{bytes}");
        }
    }
}
