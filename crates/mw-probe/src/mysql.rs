//! `mysql://…`: `SELECT 1`, on a connection that stays logged in, to MySQL and MariaDB.
//!
//! The little of the protocol that this takes is spoken here: the client libraries bound each read
//! and not the whole answer, and do arithmetic on what a server says without looking. Layouts are
//! those of the MySQL and MariaDB manuals, "Client/Server Protocol".

use crate::address::Parsed;
use crate::link::{Connector, Deadline, Endpoint, Failure, Link, MAX_ANSWER_BYTES};
use crate::login::{Login, LoginAddress};
use crate::persistent::{Persistent, Protocol};
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
/// `caching_sha2_password`: the hash was known to the server.
const HASH_KNOWN: u8 = 3;
/// `caching_sha2_password`: it was not; the password itself is wanted.
const HASH_UNKNOWN: u8 = 4;

const NATIVE: &[u8] = b"mysql_native_password";
const CACHING: &[u8] = b"caching_sha2_password";

pub(crate) fn parse(rest: &str) -> Parsed {
    let probe = |login| Box::new(Persistent::new(Mysql::new(login))) as _;
    Ok(Arc::new(LoginAddress { scheme: "mysql", login: Login::parse("mysql", rest, 3306)?, probe }))
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
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, Failure> {
        let mut link = self.connector.connect(deadline)?;
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

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, Failure> {
        let mut question = vec![COM_QUERY];
        question.extend_from_slice(b"SELECT 1");
        send(link, 0, &question, deadline)?;
        match packet(link, deadline)?.1.split_first() {
            Some((&ERROR, rest)) => return Err(refusal(rest)),
            // One column, whose description follows.
            Some((1, [])) => {}
            _ => return Err(no_mysql()),
        }
        packet(link, deadline)?;
        let mut one = false;
        for ends in 0..2 {
            loop {
                let (_, row) = packet(link, deadline)?;
                match row.split_first() {
                    Some((&ERROR, rest)) => return Err(refusal(rest)),
                    Some((&END, _)) => break,
                    _ if ends == 0 => return Err(no_mysql()),
                    _ => one = row == [1, b'1'],
                }
            }
        }
        if one { Ok(true) } else { Err(Failure::wrong("SELECT 1 was not 1")) }
    }
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
    fn plain_password(&self) -> Result<Vec<u8>, Failure> {
        if let Endpoint::Unix(_) = self.login.endpoint {
            return Ok([self.password(), &[0]].concat());
        }
        Err(Failure::wrong(
            "the server wants the password itself (caching_sha2_password), which is not sent over \
             the network: use the Unix socket, mysql://USER:PASSWORD@/?socket=/PATH",
        ))
    }
}

/// What a server says first.
struct Greeting {
    nonce: Vec<u8>,
    plugin: Vec<u8>,
}

impl Greeting {
    /// Version 10: its number, the server's version up to a zero, the connection's number (4), the
    /// nonce's beginning (8), a filler, flags, collation, status and more flags (7), the nonce's
    /// length, 10 reserved, the rest of the nonce up to a zero, the plugin's name.
    fn parse(bytes: &[u8]) -> Result<Self, Failure> {
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

/// What proves the password to the server without telling it.
fn proof(plugin: &[u8], password: &[u8], nonce: &[u8]) -> Result<Vec<u8>, Failure> {
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
            Err(Failure::wrong(format!(
                "the account logs in with {name}, which the probe does not know: give it \
                 mysql_native_password or caching_sha2_password"
            )))
        }
    }
}

fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(left, right)| left ^ right).collect()
}

fn no_mysql() -> Failure {
    Failure::wrong("not a MySQL or MariaDB server")
}

/// What the server says went wrong: a number (2), where there is one `#` and a state of five
/// characters, and the text.
fn refusal(bytes: &[u8]) -> Failure {
    let text = bytes.get(2..).unwrap_or_default();
    let text = if text.starts_with(b"#") { text.get(6..).unwrap_or_default() } else { text };
    Failure::wrong(format!("the server refused: {}", String::from_utf8_lossy(text)))
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
) -> Result<(), Failure> {
    let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX).min(MAX_PACKET_BYTES);
    let [low, middle, high, _] = bytes.to_le_bytes();
    link.write(&[&[low, middle, high, number], payload].concat(), deadline)
}

/// Reads one packet whole: its number and what is in it.
fn packet(link: &mut Link, deadline: &Deadline<'_>) -> Result<(u8, Vec<u8>), Failure> {
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
