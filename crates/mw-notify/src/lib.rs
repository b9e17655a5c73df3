//! Tells of incidents: a command, a webhook, mail, or the journal.
//!
//! Each `[[notify]]` table has a thread and a bounded queue of its own. Telling of an incident fills queues and waits for
//! nothing: whatever a receiver does, the recorder goes on.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod attempts;
mod budget;
mod deliver;
mod delivery_error;
mod filter;
mod grouping;
mod journal;
mod lasting;
mod mail;
mod notice;
mod notice_summary;
mod notifier;
mod program;
mod queue;
mod receiver_config;
mod schedule;
mod templates;
mod webhook;

pub use deliver::deliver;
pub use delivery_error::DeliveryError;
pub use filter::{Filter, WhileOpen};
pub use journal::MESSAGE_ID;
pub use mw_http::SecretFile;
pub use notice::{NOTICE_SCHEMA, Notice, UNKNOWN};
pub use notifier::{FINISH_LIMIT, Notifier};
pub use queue::MAX_QUEUED;
pub use receiver_config::{
    ReceiverConfig, ReceiverError, ReceiverTarget, Webhook, WebhookFormat, WebhookUrl,
};
