//! Environment variables by which `memwright run` configures the preload library. The library reads them
//! once, when it is loaded. A variable that is not set, or whose value is invalid, has its default.
//!
//! | variable | value | default |
//! |---|---|---|
//! | `MEMWRIGHT_THRESHOLD` | bytes from which on a call is done in parallel; to free memory, four times as many | 33554432 (32 MiB) |
//! | `MEMWRIGHT_PREFAULT` | `1`: populate large memory that is mapped for writing, in the background; `now`: before the call returns | off |
//! | `MEMWRIGHT_LOCK` | `1`: lock memory as it is touched, populate large memory; `2`: as `1`, and a parent process has reported that a limit prevents it | off |
//! | `MEMWRIGHT_HUGE` | `auto` or `always`: transparent huge pages for large memory | as the program has it |
//! | `MEMWRIGHT_DIRECT_IO` | bytes from which on a file transfer is uncached, where the table of `iotune` has no setting | never |
//! | `MEMWRIGHT_DIRECT_IO_READS` | `1`: reads too | off |
//! | `MEMWRIGHT_POOL` | the pool that serves large shared memory | none |
//! | `MEMWRIGHT_POOL_SOCKET` | its server's socket | as mw-pool has it |
//! | `MEMWRIGHT_POOL_STRICT` | `1`: refuse what the pool cannot serve | the kernel serves it |
//! | `MEMWRIGHT_STATS` | `1`: report at exit what was done; the number of a process: that one reports even that it was nothing | off |
//! | `MEMWRIGHT_STATS_SEGMENT` | `STATS_SEGMENT_DIGITS` zeros, which that process replaces by the number of the shared counts | each process reports for itself |
//! | `MEMWRIGHT_SECCOMP` | how many seccomp filters were tried and let the library work | none |
//! | | `try`: do everything once and exit | |

use std::ffi::CStr;

/// `MEMWRIGHT_THRESHOLD`
pub const THRESHOLD: &CStr = c"MEMWRIGHT_THRESHOLD";
/// `MEMWRIGHT_PREFAULT`
pub const PREFAULT: &CStr = c"MEMWRIGHT_PREFAULT";
/// `MEMWRIGHT_LOCK`
pub const LOCK: &CStr = c"MEMWRIGHT_LOCK";
/// `MEMWRIGHT_HUGE`
pub const HUGE: &CStr = c"MEMWRIGHT_HUGE";
/// `MEMWRIGHT_DIRECT_IO`
pub const DIRECT_IO: &CStr = c"MEMWRIGHT_DIRECT_IO";
/// `MEMWRIGHT_DIRECT_IO_READS`
pub const DIRECT_IO_READS: &CStr = c"MEMWRIGHT_DIRECT_IO_READS";
/// `MEMWRIGHT_POOL`
pub const POOL: &CStr = c"MEMWRIGHT_POOL";
/// `MEMWRIGHT_POOL_SOCKET`
pub const POOL_SOCKET: &CStr = c"MEMWRIGHT_POOL_SOCKET";
/// `MEMWRIGHT_POOL_STRICT`
pub const POOL_STRICT: &CStr = c"MEMWRIGHT_POOL_STRICT";
/// `MEMWRIGHT_STATS`
pub const STATS: &CStr = c"MEMWRIGHT_STATS";
/// `MEMWRIGHT_STATS_SEGMENT`
pub const STATS_SEGMENT: &CStr = c"MEMWRIGHT_STATS_SEGMENT";
/// `MEMWRIGHT_SECCOMP`
pub const SECCOMP: &CStr = c"MEMWRIGHT_SECCOMP";

/// Room for the number of a System V segment, which the library writes there.
pub const STATS_SEGMENT_DIGITS: usize = 10;

/// The file name of the library.
pub const LIBRARY: &str = "libmemwright_preload.so";

/// Smaller operations gain less than the threads cost that do them.
pub const THRESHOLD_DEFAULT_BYTES: u64 = 32 << 20;

/// The smallest threshold: programs map and unmap smaller pieces all the time.
pub const THRESHOLD_MIN_BYTES: u64 = 1 << 20;

/// Freeing memory takes an eighth of the time that populating it takes, so that threads pay only from
/// larger sizes on: this many times the threshold.
pub const RELEASE_FACTOR: u64 = 4;
