//! Basic authentication with bcrypt hashes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// Passwords that were right once, as digests of user, hash and password.
const MAX_REMEMBERED: usize = 128;

/// A hash that no password has, so that an unknown user takes as long as a wrong password.
const NOBODY: &str = "$2b$10$abcdefghijklmnopqrstuuIuTLUz3ZtPp0OYZWEJZgjSM7NK7oGsO";

/// Verifies one password at a time, since each takes tens of milliseconds of a CPU.
#[derive(Debug, Default)]
pub(crate) struct Authentication {
    right: Mutex<BTreeSet<[u8; 32]>>,
}

impl Authentication {
    /// Whether an Authorization header names one of the users with the right password.
    pub(crate) fn is_right(&self, users: &BTreeMap<String, String>, header: Option<&str>) -> bool {
        let Some((user, password)) = header.and_then(credentials) else { return false };
        let hash = users.get(&user).map_or(NOBODY, String::as_str);
        let digest = digest([&user, hash, &password]);
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.contains(&digest) {
            return true;
        }
        let is_right =
            bcrypt::verify(&password, hash).unwrap_or(false) && users.contains_key(&user);
        if is_right {
            if right.len() >= MAX_REMEMBERED {
                right.clear();
            }
            right.insert(digest);
        }
        is_right
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

fn digest(parts: [&str; 3]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_compared_with_its_hash() {
        let users = BTreeMap::from([("prom".to_owned(), bcrypt::hash("secret", 4).unwrap())]);
        let header = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let auth = Authentication::default();
        for _ in 0..2 {
            assert!(auth.is_right(&users, Some(&header("prom:secret"))));
            for wrong in ["prom:Secret", "prom:", "nobody:secret", "prom"] {
                assert!(!auth.is_right(&users, Some(&header(wrong))), "{wrong}");
            }
        }
        assert!(!auth.is_right(&users, None));
        assert!(!auth.is_right(&users, Some("Bearer x")));
        let changed = BTreeMap::from([("prom".to_owned(), bcrypt::hash("other", 4).unwrap())]);
        assert!(!auth.is_right(&changed, Some(&header("prom:secret"))));
    }
}
