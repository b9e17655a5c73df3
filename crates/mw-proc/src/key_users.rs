//! `/proc/key-users`: keys of each user and their quota, any kernel with keys.

use crate::error::{ParseError, Problem};
use crate::scan;

/// The most users that are read.
pub const MAX_USERS: usize = 4096;

/// Keys of one user that count towards the quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyUser {
    pub uid: u32,
    pub keys: u64,
    pub max_keys: u64,
    pub bytes: u64,
    pub max_bytes: u64,
}

/// Reads `uid: usage nkeys/nikeys qnkeys/maxkeys qnbytes/maxbytes`, one user a line.
///
/// # Errors
/// When a line is cut or is none of that form.
pub fn parse(text: &[u8]) -> Result<Vec<KeyUser>, ParseError> {
    let mut users = Vec::new();
    for line in scan::lines(text) {
        line.whole()?;
        if users.len() >= MAX_USERS {
            return Err(line.error(Problem::TooMany("users")));
        }
        users.push(line.at(user(line.text))?);
    }
    Ok(users)
}

fn user(text: &[u8]) -> Result<KeyUser, Problem> {
    let (uid, rest) = scan::split_once(text, b':').ok_or(Problem::Expected("a user"))?;
    let mut fields = scan::fields(rest).skip(2);
    let mut pair = || {
        let field = fields.next().ok_or(Problem::Truncated)?;
        let (used, most) = scan::split_once(field, b'/').ok_or(Problem::Expected("used/limit"))?;
        Ok((scan::parse_u64(used)?, scan::parse_u64(most)?))
    };
    let ((keys, max_keys), (bytes, max_bytes)) = (pair()?, pair()?);
    Ok(KeyUser { uid: scan::parse_u32(uid.trim_ascii())?, keys, max_keys, bytes, max_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads() {
        let text =
            b"    0:    86 85/85 79/1000000 1800/25000000\n 1000:     3 3/3 3/200 40/20000\n";
        let users = parse(text).unwrap();
        let second = KeyUser { uid: 1000, keys: 3, max_keys: 200, bytes: 40, max_bytes: 20_000 };
        assert_eq!((users.len(), users[1]), (2, second));
        let problem = |text: &[u8]| parse(text).unwrap_err().problem;
        assert_eq!(problem(b"x\n"), Problem::Expected("a user"));
        assert_eq!(problem(b"0: 1 1/1 3\n"), Problem::Expected("used/limit"));
        assert_eq!(problem(b"0: 1 1/1 3/4\n"), Problem::Truncated);
    }
}
