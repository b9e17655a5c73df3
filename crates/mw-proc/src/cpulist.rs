//! Lists of CPUs or nodes as in `/sys/devices/system/{cpu,node}/*`, `cpuset.cpus` and
//! `Cpus_allowed_list`: `0-3,5,8-10:1/2`. Any kernel.

use crate::error::{ParseError, Problem};
use crate::scan::{parse_u32, split_once};

/// The most members of a list: the most CPUs that a kernel can be built for.
pub const MAX_MEMBERS: usize = 8192;

/// The members of a list, in its order; an empty text is the empty list.
///
/// In `8-10:1/2` the range is cut into groups of 2 and the first 1 of each counts.
///
/// # Errors
/// When a member is no number or range, or there are more than [`MAX_MEMBERS`].
pub fn parse(text: &[u8]) -> Result<Vec<u32>, ParseError> {
    let mut members = Vec::new();
    let text = text.trim_ascii();
    if text.is_empty() {
        return Ok(members);
    }
    for item in text.split(|&byte| byte == b',') {
        add(&mut members, item.trim_ascii()).map_err(|problem| ParseError::new(1, problem))?;
    }
    Ok(members)
}

fn add(members: &mut Vec<u32>, item: &[u8]) -> Result<(), Problem> {
    let (range, pattern) = split_once(item, b':').map_or((item, None), |(r, p)| (r, Some(p)));
    let (first, last) = match split_once(range, b'-') {
        Some((first, last)) => (parse_u32(first)?, parse_u32(last)?),
        None => (parse_u32(range)?, parse_u32(range)?),
    };
    let (used, group) = match pattern {
        Some(pattern) => {
            let (used, group) = split_once(pattern, b'/').ok_or(Problem::Expected("used/group"))?;
            (parse_u32(used)?, parse_u32(group)?)
        }
        None => (1, 1),
    };
    if first > last {
        return Err(Problem::Expected("an ascending range"));
    }
    // Every group yields a member, so that MAX_MEMBERS bounds the loops as well as the list.
    if used == 0 || used > group {
        return Err(Problem::Expected("used/group"));
    }
    let step = usize::try_from(group).map_err(|_| Problem::Overflow)?;
    for start in (first..=last).step_by(step) {
        let end = start.saturating_add(used.saturating_sub(1)).min(last);
        for member in start..=end {
            if members.len() >= MAX_MEMBERS {
                return Err(Problem::TooMany("members"));
            }
            members.push(member);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[u32]) {
        assert_eq!(parse(text.as_bytes()).as_deref(), Ok(expected), "{text}");
    }

    fn refuse(text: &str, problem: Problem) {
        assert_eq!(parse(text.as_bytes()), Err(ParseError::new(1, problem)), "{text}");
    }

    #[test]
    fn members() {
        check("", &[]);
        check("\n", &[]);
        check("0\n", &[0]);
        check("0-3,5,8-10:1/2\n", &[0, 1, 2, 3, 5, 8, 10]);
        check("0-9:2/4", &[0, 1, 4, 5, 8, 9]);
        check("4294967295", &[u32::MAX]);
        check("0-4294967295:1/4294967295", &[0, u32::MAX]);
    }

    #[test]
    fn wrong_members() {
        refuse("0-4294967295", Problem::TooMany("members"));
        refuse("4294967296", Problem::Overflow);
        refuse("3-1", Problem::Expected("an ascending range"));
        refuse("0-3:0/2", Problem::Expected("used/group"));
        refuse("0-3:1/0", Problem::Expected("used/group"));
        refuse("0-3:1", Problem::Expected("used/group"));
        refuse("0,,1", Problem::Empty);
        refuse("0-", Problem::Empty);
        refuse("a", Problem::NotANumber);
    }
}
