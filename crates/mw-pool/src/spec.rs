//! The specification of a pool: its name, size, pages, NUMA nodes and owners.

use crate::wire::{WireReader, WireWriter};
use mw_memory::{NumaPolicy, PageSize};
use std::fmt;
use std::str::FromStr;

/// The longest name of a pool, and of contents that are kept.
pub const MAX_NAME_BYTES: usize = 32;
/// The most users and groups of a pool, each.
pub const MAX_OWNERS: usize = 16;
/// The most nodes of a placement.
pub const MAX_NODES: usize = 64;

/// The page sizes of pools; the index of each is its number in a message, and any other is malformed.
const PAGES: [PageSize; 12] = [
    PageSize::Base,
    PageSize::Thp,
    PageSize::HUGE_2M,
    PageSize::HUGE_1G,
    PageSize::Best,
    PageSize::Folio(PageSize::FOLIO_BYTES[0]),
    PageSize::Folio(PageSize::FOLIO_BYTES[1]),
    PageSize::Folio(PageSize::FOLIO_BYTES[2]),
    PageSize::Folio(PageSize::FOLIO_BYTES[3]),
    PageSize::Folio(PageSize::FOLIO_BYTES[4]),
    PageSize::Folio(PageSize::FOLIO_BYTES[5]),
    PageSize::Folio(PageSize::FOLIO_BYTES[6]),
];

/// A name of letters, digits, `-`, `_` and `.`, at most 32 of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolName(String);

/// An invalid [`PoolName`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid name '{0}' (use at most 32 letters, digits, '-', '_' and '.')")]
pub struct BadName(String);

impl FromStr for PoolName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.bytes().all(known) {
            true => Ok(Self(text.to_owned())),
            false => Err(BadName(text.chars().take(MAX_NAME_BYTES + 1).collect())),
        }
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for PoolName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The users and groups that may use a pool; root always may.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owners {
    /// User ids.
    pub users: Vec<u32>,
    /// Groups, by number: a process's own and its supplementary ones count.
    pub groups: Vec<u32>,
}

/// The specification of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSpec {
    /// The name, unique in a server.
    pub name: PoolName,
    /// Its size in bytes; a whole number of stripes.
    pub bytes: u64,
    /// The size of its pages.
    pub pages: PageSize,
    /// The NUMA nodes of its pages.
    pub nodes: NumaPolicy,
    /// The users and groups that may use it.
    pub owners: Owners,
    /// True if its owners trust each other not to hold pages by other means than mappings and
    /// descriptors (vmsplice(2), direct I/O, RDMA), which no kernel interface shows. Memory that goes
    /// from one user to another is then zeroed in place; otherwise it is exchanged.
    pub trusting: bool,
}

fn write_policy(policy: &NumaPolicy, to: &mut WireWriter) {
    match policy {
        NumaPolicy::Default | NumaPolicy::Local => to.u8(0),
        NumaPolicy::Bind(nodes) => to.u8(1).numbers(nodes),
        NumaPolicy::Interleave(nodes) => to.u8(2).numbers(nodes),
    };
}

fn read_policy(from: &mut WireReader<'_>) -> Option<NumaPolicy> {
    Some(match from.u8()? {
        0 => NumaPolicy::Default,
        1 => NumaPolicy::Bind(from.numbers(MAX_NODES)?),
        2 => NumaPolicy::Interleave(from.numbers(MAX_NODES)?),
        _ => return None,
    })
}

impl PoolSpec {
    pub(crate) fn write(&self, to: &mut WireWriter) {
        let pages = PAGES.iter().position(|pages| *pages == self.pages);
        let pages = pages.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX);
        to.text(self.name.as_ref()).u64(self.bytes).u8(pages);
        write_policy(&self.nodes, to);
        to.numbers(&self.owners.users).numbers(&self.owners.groups).u8(u8::from(self.trusting));
    }

    pub(crate) fn read(from: &mut WireReader<'_>) -> Option<Self> {
        Some(Self {
            name: read_name(from)?,
            bytes: from.u64()?,
            pages: *PAGES.get(usize::from(from.u8()?))?,
            nodes: read_policy(from)?,
            owners: Owners { users: from.numbers(MAX_OWNERS)?, groups: from.numbers(MAX_OWNERS)? },
            trusting: from.flag()?,
        })
    }
}

pub(crate) fn read_name(from: &mut WireReader<'_>) -> Option<PoolName> {
    from.text(MAX_NAME_BYTES)?.parse().ok()
}

pub(crate) fn read_optional_name(from: &mut WireReader<'_>) -> Option<Option<PoolName>> {
    let text = from.text(MAX_NAME_BYTES)?;
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_size_has_a_number() {
        let folios = PageSize::FOLIO_BYTES.map(PageSize::Folio);
        for pages in PageSize::ALL.into_iter().chain(folios).chain([PageSize::Best]) {
            assert!(PAGES.contains(&pages), "{pages}");
        }
    }

    #[test]
    fn names_are_short_and_restricted() {
        for good in ["db", "A-1_b.c", &"x".repeat(32)] {
            assert_eq!(good.parse::<PoolName>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a/b", "ä", "a:b", &"x".repeat(33)] {
            assert!(bad.parse::<PoolName>().is_err(), "{bad}");
        }
    }
}
