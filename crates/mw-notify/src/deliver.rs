//! One try to deliver a message.

use crate::failed::Failed;
use crate::table::{Table, Target};
use crate::{Notice, journal, mail, program, webhook};

/// Delivers one message, within the timeout of the table.
///
/// # Errors
/// [`Failed`]
pub fn deliver(table: &Table, notice: &Notice) -> Result<(), Failed> {
    match &table.target {
        Target::Command(words) => {
            let json = serde_json::to_vec(notice).map_err(|e| Failed::for_good(e.to_string()))?;
            program::run(words, &json, table.timeout)
        }
        Target::Webhook(to) => webhook::post(to, notice, table.timeout),
        Target::Mail { to, sendmail } => {
            let words = mail::command(sendmail, to);
            program::run(&words, mail::message(notice, to).as_bytes(), table.timeout)
        }
        Target::Journal(socket) => journal::send(socket, notice, table.timeout),
    }
}
