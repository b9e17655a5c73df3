//! Basic authentication with bcrypt hashes.

use crate::config::{ConnectionPolicy, PasswordHash};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::crypto::SecureRandom;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Passwords that were right once.
const MAX_REMEMBERED: usize = 128;

/// The end of a hash that no password has: the salt and the sum.
const NOBODY: &str = "abcdefghijklmnopqrstuuIuTLUz3ZtPp0OYZWEJZgjSM7NK7oGsO";

/// A digest of a user, a hash and a password, with a key of this process: the digests of one that was read from memory
/// are of no use without the key.
type Credential = [u8; 32];

/// Credentials that were right once, so that a client that comes again takes no time to verify. Never locked while a
/// password is verified.
pub(crate) struct CredentialCache {
    key: [u8; 32],
    right: Mutex<BTreeSet<Credential>>,
}

/// Result for a request without verifying a password.
pub(crate) enum AuthOutcome {
    Right,
    /// No credentials, or none that can be read.
    Wrong,
    Unverified(PasswordQuestion),
}

/// A password to verify, which takes milliseconds to seconds of a CPU.
#[derive(Default)]
pub(crate) struct PasswordQuestion {
    password: String,
    /// None for a user that does not exist.
    hash: Option<PasswordHash>,
    /// The largest cost of all users.
    max_cost: u32,
    credential: Credential,
}

impl CredentialCache {
    pub(crate) fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        let random: &dyn SecureRandom = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut key).map_err(|_| io::Error::other("no random numbers"))?;
        Ok(Self { key, right: Mutex::default() })
    }

    pub(crate) fn verdict(&self, policy: &ConnectionPolicy, header: Option<&str>) -> AuthOutcome {
        let Some((user, password)) = header.and_then(credentials) else {
            return AuthOutcome::Wrong;
        };
        let hash = policy.users.get(&user).cloned();
        let text = hash.as_ref().map_or("", |hash| &hash.text);
        let credential = self.digest([&user, text, &password]);
        if self.right().contains(&credential) {
            return AuthOutcome::Right;
        }
        AuthOutcome::Unverified(PasswordQuestion {
            password,
            hash,
            max_cost: policy.max_cost,
            credential,
        })
    }

    /// Verifies a password. A wrong one takes as long for each user, also for those that do not exist.
    pub(crate) fn is_right(&self, question: &PasswordQuestion) -> bool {
        if self.right().contains(&question.credential) {
            return true;
        }
        let is_right = question.is_right();
        if is_right {
            let mut right = self.right();
            if right.len() >= MAX_REMEMBERED {
                right.clear();
            }
            right.insert(question.credential);
        }
        is_right
    }

    fn right(&self) -> MutexGuard<'_, BTreeSet<Credential>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn digest(&self, parts: [&str; 3]) -> Credential {
        let mut digest = Sha256::new();
        digest.update(self.key);
        for part in parts {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

impl PasswordQuestion {
    /// A cost is the exponent of the work. What is missing to the largest is made up for with each cost from the hash's
    /// own on: their sum is the work of the largest.
    fn is_right(&self) -> bool {
        let verify = |hash: &str| bcrypt::verify(&self.password, hash).unwrap_or(false);
        let nobody = |cost: u32| format!("$2b${cost:02}${NOBODY}");
        let Some(hash) = &self.hash else {
            verify(&nobody(self.max_cost));
            return false;
        };
        if verify(&hash.text) {
            return true;
        }
        for cost in hash.cost..self.max_cost {
            verify(&nobody(cost));
        }
        false
    }
}

fn credentials(header: &str) -> Option<(String, String)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
#[path = "auth/tests.rs"]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
