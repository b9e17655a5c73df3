//! Tells of incidents: a command, a webhook, mail, or the journal.
//!
//! Each `[[notify]]` table has a thread and a bounded queue of its own. Telling of an incident fills queues and waits for
//! nothing: whatever a receiver does, the recorder goes on.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod attempts;
mod budget;
mod deliver;
mod failed;
mod filter;
mod grouping;
mod journal;
mod lasting;
mod mail;
mod notice;
mod notifier;
mod program;
mod queue;
mod schedule;
mod table;
mod templates;
mod told;
mod webhook;

pub use deliver::deliver;
pub use failed::Failed;
pub use filter::{Filter, WhileOpen};
pub use journal::MESSAGE_ID;
pub use mw_http::SecretFile;
pub use notice::{NOTICE_SCHEMA, Notice, UNKNOWN};
pub use notifier::{FINISH_LIMIT, Notifier};
pub use queue::MAX_QUEUED;
pub use table::{Address, Format, Table, TableError, Target, Webhook};
