//! Pure parsers of the kernel's memory files.
//!
//! The contract of every parser here:
//! - **Bytes in, values out.** No file is opened, nothing is read or written; the caller brings the
//!   text, live, captured or recorded.
//! - **One kernel file, one module**, named after the file.
//! - **Absent is `None`.** A line or column that this kernel lacks is no error.
//! - **Malformed is [`ParseError`]**, which names the line (from 1). Text that stops in the middle
//!   of a line or of a zone is [`Problem::Truncated`]; it never yields half a value.
//! - **No input makes a parser panic**, loop without end or take memory out of proportion to the
//!   input: whatever is counted has a limit with a name.
//! - **What follows from several files** is mw-memory's.
//! - **Units are converted once, here.** The kernel's kB become bytes (saturating), and the unit
//!   comes last in every name. The units of text whose number has none are the kernel's own.
//! - **What is sampled allocates nothing**: [`meminfo`], [`vmstat`], [`zoneinfo`], [`buddyinfo`],
//!   [`extfrag`], [`pressure`] and the counters of [`cgroup`], from the second call on.
//!   `parse_into` reuses what it fills and leaves it empty when it returns an error.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unreachable
    )
)]

pub mod arcstats;
pub mod bdi;
pub mod buddyinfo;
pub mod cgroup;
pub mod cgroups;
pub mod choice;
pub mod cmdline;
pub mod cpulist;
pub mod dentry_state;
pub mod df;
pub mod diskstats;
pub mod error;
pub mod extfrag;
pub mod inode_state;
pub mod key_users;
pub mod kmsg;
pub mod limits;
pub mod loadavg;
pub mod maps;
pub mod meminfo;
pub mod mm_stat;
pub mod mountinfo;
pub mod mounts;
pub mod net_tcp;
pub mod numa_maps;
pub mod number;
pub mod oom_lines;
pub mod orders;
pub mod pid_stat;
pub mod pressure;
mod scan;
pub mod slabinfo;
pub mod sockstat;
pub mod stat;
pub mod status;
pub mod swaps;
pub mod sysctl;
pub mod sysvipc_msg;
pub mod sysvipc_sem;
pub mod sysvipc_shm;
pub mod uptime;
pub mod user_beancounters;
pub mod version;
pub mod vmstat;
pub mod zoneinfo;

pub use error::{ParseError, Problem};
