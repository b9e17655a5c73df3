//! One try to deliver a message.

use crate::delivery_error::DeliveryError;
use crate::receiver_config::{ReceiverConfig, ReceiverTarget};
use crate::{Notice, journal, mail, program, webhook};

/// Delivers one message, within the timeout of the table.
///
/// # Errors
/// [`DeliveryError`]
pub fn deliver(table: &ReceiverConfig, notice: &Notice) -> Result<(), DeliveryError> {
    match &table.target {
        ReceiverTarget::Command(words) => {
            let json =
                serde_json::to_vec(notice).map_err(|e| DeliveryError::for_good(e.to_string()))?;
            program::run(words, &json, table.timeout)
        }
        ReceiverTarget::Webhook(to) => webhook::post(to, notice, table.timeout),
        ReceiverTarget::Mail { to, sendmail } => {
            let words = mail::command(sendmail, to);
            program::run(&words, mail::message(notice, to).as_bytes(), table.timeout)
        }
        ReceiverTarget::Journal(socket) => journal::send(socket, notice, table.timeout),
    }
}
