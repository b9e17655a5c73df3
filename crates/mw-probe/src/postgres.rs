//! `postgres://…`: `SELECT 1`, on a connection that stays logged in.
//!
//! The messages are those of the crate that the PostgreSQL client of Rust is made of; the client
//! itself waits without limit for a server that has taken the connection, and brings a runtime.

use crate::address::ParseResult;
use crate::link::{Connector, Deadline, Endpoint, Link, LinkError, MAX_ANSWER_BYTES};
use crate::login::{Login, LoginAddress};
use crate::persistent::PersistentProbe;
use crate::protocol::Protocol;
use crate::view::{MAX_SESSIONS, SessionQuery, ViewConnection, plain};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use mw_model::{FailureKind, ServiceSession, ServiceView};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{DataRowBody, ErrorResponseBody, Header, Message};
use postgres_protocol::message::frontend;
use std::sync::Arc;

/// The user where none is named; the database is then named like the user, as libpq has it.
const USER: &str = "postgres";
/// A message's type and length.
const HEADER_BYTES: usize = 5;

pub(crate) fn parse(rest: &str) -> ParseResult {
    let login = in_folder(Login::parse("postgres", rest, 5432)?);
    let probe = |login| Box::new(PersistentProbe::new(Postgres::new(login))) as _;
    let view = |login| Box::new(ViewConnection::new(Postgres::new(login))) as _;
    Ok(Arc::new(LoginAddress { scheme: "postgres", login, probe, view }))
}

/// PostgreSQL's users name the directory of its socket.
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

    fn password(&self) -> Result<&[u8], LinkError> {
        let password = self.login.password.as_ref().map(|password| password.reveal().as_bytes());
        password.ok_or_else(|| {
            LinkError::answer(
                FailureKind::Authentication,
                "the server asks for a password: postgres://USER:PASSWORD@HOST",
            )
        })
    }
}

impl Protocol for Postgres {
    fn open(&mut self, deadline: &Deadline<'_>) -> Result<Link, LinkError> {
        let mut link = self.connector.connect(deadline)?;
        link.set_phase("logging in");
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

    fn request(&mut self, link: &mut Link, deadline: &Deadline<'_>) -> Result<bool, LinkError> {
        link.set_phase("waiting for the answer to SELECT 1");
        let mut one = false;
        // Its text follows the four bytes of its length.
        query(link, deadline, "SELECT 1", |row| one = row.buffer().get(4..) == Some(b"1"))?;
        if one { Ok(true) } else { Err(LinkError::malformed("SELECT 1 was not 1")) }
    }
}

/// Runs one statement and gives its rows to `each`.
fn query(
    link: &mut Link,
    deadline: &Deadline<'_>,
    statement: &str,
    mut each: impl FnMut(&DataRowBody),
) -> Result<(), LinkError> {
    send(link, deadline, |buffer| frontend::query(statement, buffer))?;
    loop {
        match message(link, deadline)? {
            Message::DataRow(row) => each(&row),
            Message::ReadyForQuery(_) => return Ok(()),
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

/// Sessions that do something, or wait for a lock, or hold what another waits for. Sessions of other users
/// are seen by members of pg_read_all_stats (pg_monitor); of the rest only locks are.
const SESSIONS: &str = "
WITH waiting AS (
    SELECT pid, pg_blocking_pids(pid) AS blockers, min(mode) AS mode, min(relation) AS relation
    FROM pg_locks WHERE NOT granted GROUP BY pid
), blocking AS (SELECT DISTINCT unnest(blockers) AS pid FROM waiting)
SELECT a.pid, coalesce(a.usename, '') || ' ' || coalesce(a.application_name, ''),
    coalesce(a.state, ''),
    CASE WHEN a.wait_event IS NULL OR a.wait_event_type IN ('Client', 'Activity') THEN NULL
        ELSE a.wait_event_type || ': ' || a.wait_event
            || CASE WHEN w.mode IS NULL THEN ''
                ELSE ' (' || w.mode || coalesce(' on ' || c.relname, '') || ')' END END,
    array_to_string(w.blockers, ','),
    (extract(epoch FROM clock_timestamp() - CASE WHEN a.state = 'active' THEN a.query_start
        ELSE a.state_change END) * 1000)::bigint,
    QUERY
FROM pg_stat_activity a
    LEFT JOIN waiting w ON w.pid = a.pid
    LEFT JOIN pg_class c ON c.oid = w.relation
WHERE a.pid <> pg_backend_pid()
    AND (a.state <> 'idle' OR w.pid IS NOT NULL OR a.pid IN (SELECT pid FROM blocking))
ORDER BY a.xact_start NULLS LAST LIMIT ";

impl SessionQuery for Postgres {
    fn view(
        &mut self,
        link: &mut Link,
        queries: bool,
        deadline: &Deadline<'_>,
    ) -> Result<ServiceView, LinkError> {
        let text = if queries { "a.query" } else { "NULL" };
        let statement = format!("{}{MAX_SESSIONS}", SESSIONS.replace("QUERY", text));
        let mut sessions = Vec::new();
        query(link, deadline, &statement, |row| sessions.extend(session(row)))?;
        let source = "pg_stat_activity and pg_locks".to_owned();
        Ok(ServiceView { source, sessions, ..ServiceView::default() })
    }
}

fn session(row: &DataRowBody) -> Option<ServiceSession> {
    let field = |range: Option<std::ops::Range<usize>>| {
        Ok(range.and_then(|range| row.buffer().get(range)).map(String::from_utf8_lossy))
    };
    let fields: Vec<_> = row.ranges().map(field).collect().ok()?;
    let text = |at: usize| fields.get(at)?.as_deref();
    let blockers = text(4).unwrap_or_default().split(',');
    Some(ServiceSession {
        session: text(0)?.parse().ok()?,
        who: plain(text(1)?),
        state: plain(text(2)?),
        waits_in: text(3).map(plain),
        blocked_by: blockers.filter_map(|pid| pid.parse().ok()).collect(),
        for_ms: text(5).and_then(|ms| ms.parse().ok()),
        query: text(6).map(plain),
    })
}

impl Postgres {
    /// Proves who asks.
    fn answer(
        &self,
        link: &mut Link,
        deadline: &Deadline<'_>,
        asked: &Message,
        scram: &mut Option<ScramSha256>,
    ) -> Result<(), LinkError> {
        let refused = |_| {
            let text = "the server did not prove that it knows the password";
            LinkError::answer(FailureKind::Authentication, text)
        };
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

fn no_postgres() -> LinkError {
    LinkError::malformed("not a PostgreSQL server")
}

fn unknown_login() -> LinkError {
    LinkError::answer(
        FailureKind::Authentication,
        "the server asks for a login that the probe does not know: let its user in with \
         scram-sha-256, md5 or trust (pg_hba.conf)",
    )
}

/// Error of the server: its message and SQLSTATE (PostgreSQL, protocol error fields, `M` and
/// `C`).
fn refusal(body: &ErrorResponseBody) -> LinkError {
    let field = |kind: u8| {
        let field = body.fields().find(|field| Ok(field.type_() == kind)).ok().flatten();
        field.map(|field| String::from_utf8_lossy(field.value_bytes()).into_owned())
    };
    let (text, state) = (field(b'M').unwrap_or_default(), field(b'C').unwrap_or_default());
    let kind = match state.as_str() {
        // Class 28 is invalid authorization.
        state if state.starts_with("28") => FailureKind::Authentication,
        "53100" => FailureKind::NoSpace,
        "53200" => FailureKind::OutOfMemory,
        _ => FailureKind::ServiceError,
    };
    LinkError::answer(kind, format!("the server refused: {text} (SQLSTATE {state})"))
}

fn send(
    link: &mut Link,
    deadline: &Deadline<'_>,
    write: impl FnOnce(&mut BytesMut) -> std::io::Result<()>,
) -> Result<(), LinkError> {
    let mut buffer = BytesMut::new();
    write(&mut buffer).map_err(|error| LinkError::io("asking", error))?;
    link.write(&buffer, deadline)
}

fn message(link: &mut Link, deadline: &Deadline<'_>) -> Result<Message, LinkError> {
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
