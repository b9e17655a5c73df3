//! Preflight: can this machine give that much memory, from where, and how fast?

use crate::{Missing, SizeError, format_bytes, parse_size};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What somebody wants: `32G,lock,huge=2M,node=0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Request {
    /// How much, in bytes.
    pub size_bytes: u64,
    /// Whether it is locked (mlock).
    pub lock: bool,
    /// Of which pages.
    pub page: PageKind,
    /// From which node alone, where one is named.
    pub node: Option<u32>,
}

/// The pages that memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PageKind {
    /// Base pages, 4 KiB on most machines.
    Base,
    /// Transparent huge pages (MADV_HUGEPAGE).
    Thp,
    /// Pages of a hugetlb pool, of this size in bytes.
    Hugetlb(u64),
}

/// A request that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The size is none.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Nothing was asked for.
    #[error("no size: write SIZE[,lock][,huge=2M|1G|thp][,node=N], such as 32G,lock,huge=2M")]
    NoSize,
    /// A word that is not known.
    #[error("'{0}' is not known: write SIZE[,lock][,huge=2M|1G|thp][,node=N]")]
    Unknown(String),
    /// A word that stands twice.
    #[error("'{0}' stands twice")]
    Twice(String),
    /// A node that is no number.
    #[error("node={0}: write the node's number, such as node=0")]
    Node(String),
    /// A page size that is no power of two, or below 64 KiB.
    #[error("huge={0}: write 2M, 1G or thp")]
    Huge(String),
}

impl FromStr for Request {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let mut words = text.split(',').map(str::trim);
        let size = words.next().filter(|s| !s.is_empty()).ok_or(RequestError::NoSize)?;
        let mut request =
            Self { size_bytes: parse_size(size)?, lock: false, page: PageKind::Base, node: None };
        for word in words {
            let twice = || RequestError::Twice(word.to_owned());
            match word.split_once('=') {
                None if word == "lock" && !request.lock => request.lock = true,
                None if word == "lock" => return Err(twice()),
                Some(("huge", _)) if request.page != PageKind::Base => return Err(twice()),
                Some(("huge", page)) => request.page = parse_page(page)?,
                Some(("node", _)) if request.node.is_some() => return Err(twice()),
                Some(("node", node)) => {
                    let id = node.parse().map_err(|_| RequestError::Node(node.to_owned()))?;
                    request.node = Some(id);
                }
                _ => return Err(RequestError::Unknown(word.to_owned())),
            }
        }
        Ok(request)
    }
}

fn parse_page(text: &str) -> Result<PageKind, RequestError> {
    if text == "thp" {
        return Ok(PageKind::Thp);
    }
    match parse_size(text) {
        Ok(bytes) if bytes.is_power_of_two() && bytes >= 1 << 16 => Ok(PageKind::Hugetlb(bytes)),
        _ => Err(RequestError::Huge(text.to_owned())),
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bytes(self.size_bytes))?;
        if self.lock {
            f.write_str(" locked")?;
        }
        match self.page {
            PageKind::Base => {}
            PageKind::Thp => f.write_str(" on transparent huge pages")?,
            PageKind::Hugetlb(bytes) => write!(f, " on {} huge pages", format_bytes(bytes))?,
        }
        self.node.map_or(Ok(()), |node| write!(f, " from node {node}"))
    }
}

/// A pool of memory that memwright keeps populated, as a request sees it. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRoom {
    /// Its name.
    pub name: String,
    /// Its pages.
    pub page: PageKind,
    /// All of it.
    pub size_bytes: u64,
    /// What could be had now.
    pub ready_bytes: u64,
    /// What is being populated, zeroed or given back.
    pub coming_bytes: u64,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Preflight {
    /// What was asked.
    pub request: Request,
    /// Yes, slowly, no or unknown.
    pub answer: Answer,
    /// The answer in one line.
    pub summary: String,
    /// Where the memory would come from, node by node.
    pub nodes: Vec<NodeAccount>,
    /// How long one thread takes to create it (and lock it); absent when the answer is no, or
    /// nothing was measured.
    pub time: Option<TimeEstimate>,
    /// What stands in the way or slows it down, worst first.
    pub obstacles: Vec<Obstacle>,
    /// What could not be looked at, and so is not part of the answer.
    pub unseen: Vec<Missing>,
}

/// Yes, slowly, no or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// From memory that is free or cleanly reclaimable.
    Yes,
    /// Only by reclaiming dirty memory, swapping, compacting or leaving the node.
    Slowly,
    /// The kernel will refuse, or kill.
    No,
    /// The machine could give it, and a limit on the process that asks that could not be determined
    /// may refuse it.
    Unknown,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Yes => "yes",
            Self::Slowly => "slowly",
            Self::No => "no",
            Self::Unknown => "unknown",
        })
    }
}

/// One node's memory, as a request sees it. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NodeAccount {
    /// The node's number.
    pub node: u32,
    /// All of its memory.
    pub total_bytes: u64,
    /// Free above the watermarks, or free pages of the pool.
    pub free_bytes: u64,
    /// Clean page cache and slab that reclaim gives back without writing.
    pub clean_bytes: u64,
    /// Dirty or under writeback: given back after it is written.
    pub dirty_bytes: u64,
    /// Anonymous memory that swap has room for.
    pub swappable_bytes: u64,
    /// Kept free by the watermarks.
    pub watermark_bytes: u64,
    /// What no reclaim gives back, by what holds it: a mount, shared segments, locked memory.
    pub unreclaimable: Vec<Share>,
    /// How much the request would take from here.
    pub taken_bytes: u64,
}

/// A part of a node's memory and what holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// What holds it.
    pub holder: String,
    /// How much.
    pub bytes: u64,
}

/// How long it will take.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeEstimate {
    /// The expected time in milliseconds.
    pub likely_ms: f64,
    /// The shortest time to expect.
    pub low_ms: f64,
    /// The longest time to expect.
    pub high_ms: f64,
    /// How sure the estimate is.
    pub confidence: Confidence,
    /// Why it is not surer, or what it was measured on.
    pub basis: String,
}

/// How sure an estimate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Within a quarter.
    High,
    /// Within a factor of two.
    Medium,
    /// An order of magnitude.
    Low,
}

/// Something that stands in the way of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Obstacle {
    /// Whether it makes the request fail; otherwise it slows it down.
    pub blocks: bool,
    /// Which limit or condition: `RLIMIT_MEMLOCK`, `hugetlb pool of 2 MiB pages`.
    pub what: String,
    /// How much of it the request needs, in bytes.
    pub needed_bytes: Option<u64>,
    /// How much there is, in bytes.
    pub had_bytes: Option<u64>,
    /// What lifts it.
    pub lift: String,
}

/// What a measurement of at most 50 ms says of this machine's speed with one thread. What was not
/// measured is absent. All speeds are of memory that is not short and that, in a virtual machine,
/// the host has backed; [`Backing`] says what comes on top.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// How long the measurement took in milliseconds.
    pub took_ms: f64,
    /// How much memory it was made with, in bytes.
    pub measured_bytes: u64,
    /// Populating anonymous base pages, in nanoseconds a byte.
    pub base_ns_per_byte: Option<f64>,
    /// Populating transparent huge pages, in nanoseconds a byte.
    pub thp_ns_per_byte: Option<f64>,
    /// Populating pages of a hugetlb pool, in nanoseconds a byte.
    pub hugetlb_ns_per_byte: Option<f64>,
    /// Locking base pages that are populated, in nanoseconds a byte.
    pub base_lock_ns_per_byte: Option<f64>,
    /// Locking transparent huge pages that are populated, in nanoseconds a byte.
    pub thp_lock_ns_per_byte: Option<f64>,
    /// Spread of the repetitions: the ninth decile over the first, at least 1.
    pub spread: f64,
    /// How many times its processor time a thread takes here, by the threads that want to run and
    /// the processors that there are: at least 1. The speeds above are of processor time.
    pub crowding: f64,
    /// What the host of a virtual machine adds.
    pub backing: Backing,
}

/// What touching memory that the host has not backed costs where it is not known, in nanoseconds a
/// byte: small pages on the host, on nested virtual machines.
pub const UNBACKED_NS_PER_BYTE: f64 = 2.7;

/// Whether the memory is there: a virtual machine's host may back it only when it is touched, and
/// take it back when it is free. Touching memory that is not backed costs up to ten times as much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backing {
    /// Whether this is a virtual machine.
    pub virtual_machine: bool,
    /// Whether free memory is given back to the host (free page reporting of the balloon).
    pub gives_back: bool,
    /// What one byte of memory that was not backed cost, in nanoseconds; absent when the
    /// measurement met none.
    pub unbacked_ns_per_byte: Option<f64>,
    /// What of the large free blocks was backed before the first that was not, in bytes. Free blocks
    /// are handed out last in, first out, so that these are the ones that were in use most recently,
    /// those of an earlier measurement among them.
    pub backed_first_bytes: u64,
    /// The share of memory that was not backed among what was taken from large free blocks after
    /// that, 0 to 1; absent when none was taken.
    pub unbacked_share: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request: Request = "32G,lock,huge=2M,node=1".parse().unwrap();
        assert_eq!(
            request,
            Request {
                size_bytes: 32 << 30,
                lock: true,
                page: PageKind::Hugetlb(2 << 20),
                node: Some(1)
            }
        );
        assert_eq!(request.to_string(), "32 GiB locked on 2 MiB huge pages from node 1");
        assert_eq!("1G,huge=thp".parse::<Request>().unwrap().page, PageKind::Thp);
    }

    #[test]
    fn what_is_no_request_is_refused_with_what_to_write() {
        for (text, error) in [
            ("", "no size: write SIZE"),
            ("12X", "'12X' is not a size"),
            ("1G,locked", "'locked' is not known"),
            ("1G,lock,lock", "'lock' stands twice"),
            ("1G,huge=3M", "huge=3M: write 2M"),
            ("1G,node=x", "node=x: write the node's number"),
            ("1G,", "'' is not known"),
        ] {
            let got = text.parse::<Request>().unwrap_err().to_string();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }
}
