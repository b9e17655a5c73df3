//! Errors of the delivery of a message.

use std::time::Duration;

/// The reason why a message was not delivered; without a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DeliveryError {
    pub text: String,
    /// True if another try may succeed.
    pub again: bool,
    /// Pause that the receiver asks for.
    pub after: Option<Duration>,
}

impl DeliveryError {
    pub(crate) fn for_now(text: impl Into<String>) -> Self {
        Self { text: text.into(), again: true, after: None }
    }

    pub(crate) fn for_good(text: impl Into<String>) -> Self {
        Self { text: text.into(), again: false, after: None }
    }
}
