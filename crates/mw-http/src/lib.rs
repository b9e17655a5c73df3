//! What an HTTP client of memwright has in common: which URLs it asks, secrets from files, and an agent that follows no
//! redirect, verifies the certificate and reads little.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod client;
mod secret;
mod url;

pub use client::{agent, failure, said};
pub use secret::{Secret, SecretFile};
pub use ureq::http::{Response, Uri};
pub use ureq::{Agent, Body, Error};
pub use url::{UrlError, checked};
