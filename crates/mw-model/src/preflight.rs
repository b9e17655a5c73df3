//! Preflight: whether a request for memory would succeed on this machine, from which nodes, and how
//! fast.

use crate::{Missing, SizeError, format_bytes, parse_size};
use mw_memory::{InvalidPageSize, PageSize};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A request for memory: `32G,lock,huge=2M,node=0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Request {
    /// Size, in bytes.
    pub size_bytes: u64,
    /// True if it is locked (mlock).
    pub lock: bool,
    /// The kind of pages.
    pub page: PageSize,
    /// The only node to allocate from, if one is given.
    pub node: Option<u32>,
}

/// A request that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The size is malformed or out of range.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The text is empty.
    #[error(
        "missing size (use SIZE[,lock][,huge=2M|1G|thp][,page=16k..1M|best][,node=N], for example \
         32G,lock,huge=2M)"
    )]
    NoSize,
    /// An unknown option.
    #[error("unknown option '{0}' (use SIZE[,lock][,huge=2M|1G|thp][,page=16k..1M|best][,node=N])")]
    Unknown(String),
    /// An option is given twice.
    #[error("duplicate option '{0}'")]
    Duplicate(String),
    /// The node is not a number.
    #[error("invalid node '{0}' (use the node's number, for example node=0)")]
    Node(String),
    /// The page size is not a power of two, or below 64 KiB.
    #[error("invalid page size '{0}' (use huge=2M, huge=1G or huge=thp)")]
    Huge(String),
    /// No page size.
    #[error(transparent)]
    Page(#[from] InvalidPageSize),
    /// Two options for the page size.
    #[error("'{0}' contradicts an option before it: a request has one size of pages")]
    TwoPages(String),
}

impl FromStr for Request {
    type Err = RequestError;

    fn from_str(text: &str) -> Result<Self, RequestError> {
        let mut words = text.split(',').map(str::trim);
        let size = words.next().filter(|s| !s.is_empty()).ok_or(RequestError::NoSize)?;
        let mut request =
            Self { size_bytes: parse_size(size)?, lock: false, page: PageSize::Base, node: None };
        let mut pages = None;
        for word in words {
            let duplicate = || RequestError::Duplicate(word.to_owned());
            match word.split_once('=') {
                None if word == "lock" && !request.lock => request.lock = true,
                None if word == "lock" => return Err(duplicate()),
                Some((name @ ("huge" | "page"), _)) if pages == Some(name) => {
                    return Err(duplicate());
                }
                Some(("huge" | "page", _)) if pages.is_some() => {
                    return Err(RequestError::TwoPages(word.to_owned()));
                }
                Some((name @ "huge", page)) => {
                    (request.page, pages) = (parse_huge_page(page)?, Some(name));
                }
                Some((name @ "page", page)) => (request.page, pages) = (page.parse()?, Some(name)),
                Some(("node", _)) if request.node.is_some() => return Err(duplicate()),
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

impl Request {
    /// The request as `check --for` and `make-room` take it.
    #[must_use]
    pub fn argument(&self) -> String {
        let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
        let whole = |bytes: u64| {
            let of = |unit: u64| {
                bytes.checked_div(unit).filter(|count| count.checked_mul(unit) == Some(bytes))
            };
            let unit = units.iter().find_map(|(unit, name)| Some(format!("{}{name}", of(*unit)?)));
            unit.unwrap_or_else(|| bytes.to_string())
        };
        let mut text = whole(self.size_bytes);
        if self.lock {
            text.push_str(",lock");
        }
        match self.page {
            PageSize::Base => {}
            PageSize::Thp => text.push_str(",huge=thp"),
            page @ (PageSize::Folio(_) | PageSize::Best) => text.push_str(&format!(",page={page}")),
            PageSize::Hugetlb(bytes) => text.push_str(&format!(",huge={}", whole(bytes))),
        }
        if let Some(node) = self.node {
            text.push_str(&format!(",node={node}"));
        }
        text
    }
}

fn parse_huge_page(text: &str) -> Result<PageSize, RequestError> {
    if text == "thp" {
        return Ok(PageSize::Thp);
    }
    match parse_size(text) {
        Ok(bytes) if bytes.is_power_of_two() && bytes >= 1 << 16 => Ok(PageSize::Hugetlb(bytes)),
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
            PageSize::Base => {}
            PageSize::Thp => f.write_str(" on transparent huge pages")?,
            PageSize::Folio(bytes) => write!(f, " on folios of {}", format_bytes(bytes))?,
            PageSize::Best => f.write_str(" on the largest pages that are free")?,
            PageSize::Hugetlb(bytes) => write!(f, " on {} huge pages", format_bytes(bytes))?,
        }
        self.node.map_or(Ok(()), |node| write!(f, " from node {node}"))
    }
}

/// A memwright pool that may serve a request. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRoom {
    /// Its name.
    pub name: String,
    /// Its pages.
    pub page: PageSize,
    /// All of it.
    pub size_bytes: u64,
    /// Ready to be leased.
    pub ready_bytes: u64,
    /// Being populated, zeroed or returned.
    pub coming_bytes: u64,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Preflight {
    /// The request.
    pub request: Request,
    /// Yes, slowly, no or unknown.
    pub answer: Answer,
    /// The answer in one line.
    pub summary: String,
    /// Contribution of each node.
    pub nodes: Vec<NodeAccount>,
    /// Time that one thread takes to populate (and lock) it; absent if the answer is no, or nothing was
    /// measured.
    pub time: Option<TimeEstimate>,
    /// Obstacles, which refuse the request or slow it down, the worst first.
    pub obstacles: Vec<Obstacle>,
    /// Possible growth of the hugetlb pool, if it is too small for the request.
    pub pool_growth: Option<PoolGrowth>,
    /// For a request for folios: what is free for each size, the largest first; empty otherwise.
    pub folios: Vec<FolioSupply>,
    /// Evidence that could not be read, and so is not part of the result.
    pub unseen: Vec<Missing>,
    /// Free space of /dev/shm in bytes, where that is less than the request: a program that allocates it as shared memory
    /// there is refused.
    pub dev_shm_bytes: Option<u64>,
}

/// Possible growth of a hugetlb pool. All sizes in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PoolGrowth {
    /// By free blocks above the high watermarks, without reclaim or compaction.
    pub now_bytes: u64,
    /// The least after clean page cache is reclaimed and memory compacted; absent if the flags of pages could
    /// not be read.
    pub least_bytes: Option<u64>,
    /// The most after that.
    pub most_bytes: Option<u64>,
}

/// Free memory for folios of one size, without reclaim and compaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FolioSupply {
    /// The size in bytes.
    pub page_bytes: u64,
    /// Free in blocks of at least this size above the watermarks, in bytes.
    pub free_bytes: u64,
    /// Share of the request that private memory has in it.
    pub private: FolioShare,
    /// Share of the request that a memfd has in it.
    pub shared: FolioShare,
}

/// Share of a request that consists of folios of one size.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FolioShare {
    /// In bytes.
    pub bytes: u64,
    /// Reason that there are none: the kernel's switch, or a feature that this kernel lacks; absent if they are allowed.
    pub why_none: Option<String>,
}

/// Yes, slowly, no or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// From free memory and clean page cache.
    Yes,
    /// Only with writeback, swap, compaction or memory of another node.
    Slowly,
    /// The kernel will refuse it, or kill the process.
    No,
    /// The machine has enough memory, but a limit on the calling process that could not be determined, or that
    /// counts what else the program maps, may refuse it.
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

/// One node's memory and what a request takes of it. All sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct NodeAccount {
    /// The node's number.
    pub node: u32,
    /// All of its memory.
    pub total_bytes: u64,
    /// Free above the watermarks, or free pages of the pool.
    pub free_bytes: u64,
    /// Clean page cache and slab, which reclaim frees without writeback.
    pub clean_bytes: u64,
    /// Dirty or under writeback: reclaimable once written.
    pub dirty_bytes: u64,
    /// Anonymous memory that fits into free swap.
    pub swappable_bytes: u64,
    /// Kept free by the watermarks.
    pub watermark_bytes: u64,
    /// Unreclaimable memory, by holder: a mount, shared segments, locked memory.
    pub unreclaimable: Vec<Share>,
    /// Size that the request would take from here.
    pub taken_bytes: u64,
}

/// A part of a node's unreclaimable memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Share {
    /// The mount, segment or kind of memory.
    pub holder: String,
    /// Its size.
    pub bytes: u64,
}

/// Time that it will take.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TimeEstimate {
    /// The expected time in milliseconds.
    pub likely_ms: f64,
    /// The shortest time to expect.
    pub low_ms: f64,
    /// The longest time to expect.
    pub high_ms: f64,
    /// Confidence of the estimate.
    pub confidence: Confidence,
    /// Basis of the measurement, and its uncertainties.
    pub basis: String,
}

/// Confidence of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The longest time is at most twice the shortest.
    High,
    /// The longest time is at most four times the shortest.
    Medium,
    /// The range is wider than that.
    Low,
}

/// A limit or condition that refuses a request or slows it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Obstacle {
    /// True if it refuses the request; otherwise it slows the request down.
    pub blocks: bool,
    /// The limit or condition: `RLIMIT_MEMLOCK`, `hugetlb pool of 2 MiB pages`.
    pub what: String,
    /// Size of it that the request needs, in bytes.
    pub needed_bytes: Option<u64>,
    /// Available size, in bytes.
    #[serde(rename = "had_bytes")]
    pub available_bytes: Option<u64>,
    /// Remedy.
    pub lift: String,
}

/// The speed of this machine with one thread, measured in at most 50 ms. What was not measured is
/// absent. All speeds are for memory that is not short and that, in a virtual machine, the host has
/// backed; [`Backing`] has the additional cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Calibration {
    /// Duration of the measurement in milliseconds.
    pub took_ms: f64,
    /// Memory that it was made with, in bytes.
    pub measured_bytes: u64,
    /// Populating anonymous base pages, in nanoseconds a byte.
    pub base_ns_per_byte: Option<f64>,
    /// Populating transparent huge pages, in nanoseconds a byte.
    pub thp_ns_per_byte: Option<f64>,
    /// Populating folios of the requested size, in nanoseconds a byte.
    pub folio_ns_per_byte: Option<f64>,
    /// Populating pages of a hugetlb pool, in nanoseconds a byte.
    pub hugetlb_ns_per_byte: Option<f64>,
    /// Locking base pages that are populated, in nanoseconds a byte.
    pub base_lock_ns_per_byte: Option<f64>,
    /// Locking transparent huge pages that are populated, in nanoseconds a byte.
    pub thp_lock_ns_per_byte: Option<f64>,
    /// Spread of the repetitions: the ninth decile over the first, at least 1.
    pub spread: f64,
    /// Elapsed time of a thread relative to its CPU time, as far as the measurement tells: at least 1. The speeds above are of CPU time.
    pub crowding: f64,
    /// The additional cost in a virtual machine.
    pub backing: Backing,
}

/// The assumed cost of touching memory that the host has not backed, in nanoseconds a byte: that of
/// nested virtual machines with base pages on the host.
pub const UNBACKED_NS_PER_BYTE: f64 = 2.7;

/// Whether the host of a virtual machine has backed its memory: it may do so only on first touch, and
/// reclaim free memory. Touching unbacked memory costs up to ten times as much.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Backing {
    /// True if this is a virtual machine.
    pub virtual_machine: bool,
    /// True if the host reclaims free memory (free page reporting of the balloon).
    pub gives_back: bool,
    /// The cost of a byte of unbacked memory, in nanoseconds; absent if the measurement met none.
    pub unbacked_ns_per_byte: Option<f64>,
    /// Size of the large free blocks that was backed before the first unbacked one, in bytes. The kernel
    /// allocates free blocks last in, first out, so these were in use most recently, for example by an
    /// earlier measurement.
    pub backed_first_bytes: u64,
    /// The share of memory that was not backed among what was taken from large free blocks after
    /// that, 0 to 1; absent when none was taken.
    pub unbacked_share: Option<f64>,
    /// Free memory in the order in which it is allocated, by whether the host has reclaimed it; empty
    /// where the kernel does not say.
    pub layers: Vec<FreeLayer>,
}

/// Free memory of one node that is allocated after the layers before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FreeLayer {
    /// The node's number.
    pub node: u32,
    /// Size, in bytes.
    pub bytes: u64,
    /// Error of `bytes`, because a part of the blocks was sampled: two standard deviations.
    pub uncertain_bytes: u64,
    /// True if it is in blocks smaller than a huge page.
    pub small: bool,
    /// True if the host has reclaimed it.
    pub reclaimed: bool,
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
                page: PageSize::Hugetlb(2 << 20),
                node: Some(1)
            }
        );
        assert_eq!(request.to_string(), "32 GiB locked on 2 MiB huge pages from node 1");
        assert_eq!("1G,huge=thp".parse::<Request>().unwrap().page, PageSize::Thp);
        for (text, page) in [
            ("1G,page=64k", PageSize::Folio(64 << 10)),
            ("1G,page=1M", PageSize::Folio(1 << 20)),
            ("1G,page=best", PageSize::Best),
            ("1G,page=4k", PageSize::Base),
            ("1G,page=2M", PageSize::HUGE_2M),
        ] {
            assert_eq!(text.parse::<Request>().unwrap().page, page, "{text}");
        }
        for text in [
            "32G,lock,huge=2M,node=1",
            "1500M,huge=thp",
            "4097",
            "8G,huge=1G",
            "1G,page=16k,node=0",
            "1G,lock,page=best",
        ] {
            assert_eq!(text.parse::<Request>().unwrap().argument(), text);
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_what_to_write() {
        for (text, error) in [
            ("", "missing size (use SIZE"),
            ("12X", "invalid size '12X'"),
            ("1G,locked", "unknown option 'locked'"),
            ("1G,lock,lock", "duplicate option 'lock'"),
            ("1G,huge=3M", "invalid page size '3M' (use huge=2M"),
            ("1G,page=8k", "invalid page size '8k' (use 4k, 16k to 1M"),
            ("1G,page=64k,page=64k", "duplicate option 'page=64k'"),
            ("1G,page=64k,huge=2M", "'huge=2M' contradicts an option before it"),
            ("1G,node=x", "invalid node 'x' (use the node's number"),
            ("1G,", "unknown option ''"),
        ] {
            let got = text.parse::<Request>().unwrap_err().to_string();
            assert!(got.starts_with(error), "{text}: {got}");
        }
    }
}
