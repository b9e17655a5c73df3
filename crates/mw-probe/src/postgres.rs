//! `postgres://…`: `SELECT 1`, on a connection that stays logged in.
//!
//! The messages are those of the crate that the PostgreSQL client of Rust is made of; the client
//! itself waits without limit for a server that has taken the connection, and brings a runtime.

use crate::address::Parsed;
use crate::link::{Connector, Deadline, Endpoint, Failure, Link, MAX_ANSWER_BYTES};
use crate::login::{Login, LoginAddress};
use crate::persistent::{Persistent, Protocol};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;
use std::sync::Arc;

/// The user where none is named; the database is then named like the user, as libpq has it.
const USER: &str = "postgres";
/// A message's type and length.
const HEADER_BYTES: usize = 5;

pub(crate) fn parse(rest: &str) -> Parsed {
    let login = in_folder(Login::parse("postgres", rest, 5432)?);
    let probe = |login| Box::new(Persistent::new(Postgres::new(login))) as _;
    Ok(Arc::new(LoginAddress { scheme: "postgres", login, probe }))
}

/// PostgreSQL's users name the folder of its socket.
fn in_folder(mut login: Login) -> Login {
    const SOCKET: &str = ".s.PGSQL.";
    if let Endpoint::Unix(path) = &mut login.endpoint {
        let is_socket =
            path.file_name().is_some_and(|name| name.to_string_lossy().contains(SOCKET));
        if !is_socket {
            path.push(format!("{SOCKET}5432"));
        }
    }
    login
}

struct Postgres {
    connector: Connector,
    login: Login,
}

impl Postgres {
    fn new(login: Login) -> Self {
        Self { connector: Connector::new(login.endpoint.clone()), login }
    }

    fn user(&self) -> &str {
        self.login.user.as_deref().unwrap_or(USER)
    }

    fn password(&self) -> Result<&[u8], Failure> {
        let password = self.login.password.as_ref().map(|password| password.reveal().as_bytes());
        password.ok_or_else(|| {
            Failure::wrong("the server asks for a password: postgres://USER:PASSWORD@HOST")
        })
    }
}

impl Protocol for Postgres {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, Failure> {
        let mut link = self.connector.connect(deadline)?;
        let user = self.user();
        let database = self.login.database.as_deref().unwrap_or(user);
        let start = [("user", user), ("database", database), ("application_name", "memwright")];
        send(&mut link, deadline, |buffer| frontend::startup_message(start, buffer))?;
        let mut scram = None;
        loop {
            match message(&mut link, deadline)? {
                Message::ReadyForQuery(_) => return Ok(link),
                Message::ErrorResponse(body) => return Err(refusal(&body)),
                Message::AuthenticationOk
                | Message::ParameterStatus(_)
                | Message::BackendKeyData(_)
                | Message::NoticeResponse(_) => {}
                asked => self.answer(&mut link, deadline, &asked, &mut scram)?,
            }
        }
    }

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, Failure> {
        send(link, deadline, |buffer| frontend::query("SELECT 1", buffer))?;
        let mut one = false;
        loop {
            match message(link, deadline)? {
                // Its text follows the four bytes of its length.
                Message::DataRow(row) => one = row.buffer().get(4..) == Some(b"1"),
                Message::ReadyForQuery(_) if one => return Ok(true),
                Message::ReadyForQuery(_) => return Err(Failure::wrong("SELECT 1 was not 1")),
                Message::ErrorResponse(body) => return Err(refusal(&body)),
                Message::RowDescription(_)
                | Message::CommandComplete(_)
                | Message::ParameterStatus(_)
                | Message::NotificationResponse(_)
                | Message::NoticeResponse(_) => {}
                _ => return Err(no_postgres()),
            }
        }
    }
}

impl Postgres {
    /// Proves who asks.
    fn answer(
        &self,
        link: &mut Link,
        deadline: &Deadline<'_>,
        asked: &Message,
        scram: &mut Option<ScramSha256>,
    ) -> Result<(), Failure> {
        let refused = |_| Failure::wrong("the server did not prove that it knows the password");
        match asked {
            Message::AuthenticationCleartextPassword => {
                let password = self.password()?;
                send(link, deadline, |buffer| frontend::password_message(password, buffer))
            }
            Message::AuthenticationMd5Password(body) => {
                let hash = md5_hash(self.user().as_bytes(), self.password()?, body.salt());
                send(link, deadline, |buffer| frontend::password_message(hash.as_bytes(), buffer))
            }
            Message::AuthenticationSasl(body) => {
                let mut known = body.mechanisms().filter(|name| Ok(*name == SCRAM_SHA_256));
                if !matches!(known.next(), Ok(Some(_))) {
                    return Err(unknown_login());
                }
                let new = ScramSha256::new(self.password()?, ChannelBinding::unsupported());
                let first = new.message().to_vec();
                *scram = Some(new);
                send(link, deadline, |buffer| {
                    frontend::sasl_initial_response(SCRAM_SHA_256, &first, buffer)
                })
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = scram.as_mut().ok_or_else(no_postgres)?;
                scram.update(body.data()).map_err(refused)?;
                send(link, deadline, |buffer| frontend::sasl_response(scram.message(), buffer))
            }
            Message::AuthenticationSaslFinal(body) => {
                scram.as_mut().ok_or_else(no_postgres)?.finish(body.data()).map_err(refused)
            }
            Message::AuthenticationGss
            | Message::AuthenticationKerberosV5
            | Message::AuthenticationScmCredential
            | Message::AuthenticationSspi => Err(unknown_login()),
            _ => Err(no_postgres()),
        }
    }
}

fn no_postgres() -> Failure {
    Failure::wrong("not a PostgreSQL server")
}

fn unknown_login() -> Failure {
    Failure::wrong(
        "the server asks for a login that the probe does not know: let its user in with \
         scram-sha-256, md5 or trust (pg_hba.conf)",
    )
}

/// What the server says went wrong: its message (PostgreSQL, protocol error fields, `M`).
fn refusal(body: &ErrorResponseBody) -> Failure {
    let text = body.fields().find(|field| Ok(field.type_() == b'M'));
    let text = text.ok().flatten();
    let text = text.map(|field| String::from_utf8_lossy(field.value_bytes()).into_owned());
    Failure::wrong(format!("the server refused: {}", text.unwrap_or_default()))
}

fn send(
    link: &mut Link,
    deadline: &Deadline<'_>,
    write: impl FnOnce(&mut BytesMut) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut buffer = BytesMut::new();
    write(&mut buffer).map_err(|error| Failure::io("asking", error))?;
    link.write(&buffer, deadline)
}

fn message(link: &mut Link, deadline: &Deadline<'_>) -> Result<Message, Failure> {
    let header = Header::parse(link.fill(HEADER_BYTES, deadline)?);
    let header = header.ok().flatten().ok_or_else(no_postgres)?;
    let bytes = usize::try_from(header.len()).unwrap_or(usize::MAX);
    if bytes > MAX_ANSWER_BYTES {
        return Err(no_postgres());
    }
    let whole = link.take(bytes + 1, deadline)?;
    let message = Message::parse(&mut BytesMut::from(whole.as_slice()));
    message.ok().flatten().ok_or_else(no_postgres)
}
