//! The pool that the arguments describe.

use crate::args::PoolCreateArgs;
use mw_pool::spec::MAX_OWNERS;
use mw_pool::{Owners, PageSize, PoolSpec};
use mw_sys::guarded;
use std::path::Path;

/// The longest file of users or groups.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The requested pool, with names of users and groups as numbers.
pub(super) fn spec(args: &PoolCreateArgs) -> Result<PoolSpec, String> {
    let numbers = |names: &[String], file: &str| -> Result<Vec<u32>, String> {
        if names.len() > MAX_OWNERS {
            return Err(format!("too many names: {} (at most {MAX_OWNERS})", names.len()));
        }
        names.iter().map(|name| number(name, Path::new(file))).collect()
    };
    let groups = numbers(&args.group, "/etc/group")?;
    let users = match args.owner.is_empty() && groups.is_empty() {
        true => vec![rustix::process::geteuid().as_raw()],
        false => numbers(&args.owner, "/etc/passwd")?,
    };
    Ok(PoolSpec {
        name: args.name.clone(),
        bytes: args.size,
        pages: args.huge.unwrap_or(PageSize::Base),
        nodes: args.node.clone().unwrap_or_default(),
        owners: Owners { users, groups },
        trusting: args.trusting,
    })
}

/// A user's or group's number, if need be from a file of lines `name:password:number:…`.
fn number(name: &str, file: &Path) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = guarded::read_to_string(file, MAX_FILE_BYTES)
        .map_err(|error| format!("{}: {error}; use the numeric id of '{name}'", file.display()))?;
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    let found = text.lines().find_map(of_line);
    found.ok_or_else(|| format!("{} has no '{name}'; use the numeric id", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_are_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passwd");
        let text = "root:x:0:0:root:/root:/bin/sh\npostgres:x:105:113::/:/bin/sh\nbad\n";
        std::fs::write(&file, text).unwrap();
        assert_eq!(number("postgres", &file), Ok(105));
        assert_eq!(number("7", Path::new("/nowhere")), Ok(7));
        for bad in ["nobody", "bad"] {
            let error = number(bad, &file).unwrap_err();
            assert!(error.ends_with(&format!("has no '{bad}'; use the numeric id")), "{error}");
        }
        assert!(number("nobody", Path::new("/nowhere")).is_err());
    }
}
