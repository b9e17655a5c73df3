//! The open files of a process, which `RLIMIT_NOFILE` limits.

/// The least limit that is judged: a smaller one is set on purpose, so that a program opens few files or none.
pub const LEAST_LIMIT: u64 = 512;

/// Fewer free descriptors than programs keep that close their least used files in time: PostgreSQL keeps ten
/// (fd.c, `NUM_RESERVED_FDS`), and none of its calls fails.
const FEWEST_FREE: u64 = 5;

/// True for a process that is at its limit. One with more open files has lowered its limit since, to open no more.
pub fn reaches_limit(open: u64, limit: u64) -> bool {
    limit >= LEAST_LIMIT && limit.checked_sub(open).is_some_and(|free| free < FEWEST_FREE)
}

/// True for as many open files as reach some limit that is judged.
pub fn reaches_least_limit(open: u64) -> bool {
    reaches_limit(open, open.max(LEAST_LIMIT))
}
