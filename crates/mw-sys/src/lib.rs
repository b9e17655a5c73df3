//! The only unsafe code of memwright: system calls on memory behind safe types.
//!
//! The contract of every module here:
//! - **A safe function cannot break memory safety**, whatever it is given; what it needs to be
//!   sound it checks or owns.
//! - **No policy.** A call does one thing and returns the kernel's error; retries, fallbacks to
//!   other kinds of memory and messages for people are the caller's.
//! - **Nothing is exposed by reference.** Memory of a [`Region`] is locked, populated and discarded
//!   here but never lent out, so discarding it can break no borrow. A `Region` says where it is;
//!   whoever turns that into references answers for them.

mod anonymous;
mod bare_threads;
mod child;
mod existing;
mod lease;
mod mappings;
mod pagemap;
mod peer;
mod perf;
mod perf_ring;
mod policy;
mod populate;
mod privilege;
mod realtime;
mod region;
mod scratch;
mod service;
mod signals;
mod sysv;
#[cfg(feature = "testing")]
pub mod testing;
mod touch;
mod wakeups;
mod zero;

pub use anonymous::Pages;
pub use bare_threads::run_bare_threads;
pub use child::{Usage, wait_with_usage};
pub use existing::{Fault, can_populate, populate_existing, want_huge_pages};
pub use lease::is_only_open;
pub use mappings::{Mapping, mapping_from};
pub use peer::{PeerCredentials, peer_credentials, peer_groups, refuse_descriptors, unread_bytes};
pub use perf::{Attr, Event, Every, Source};
pub use perf_ring::Ring;
pub use policy::{
    AffinityGuard, PolicyGuard, RangePolicy, bind_thread_to_node, pin_thread_to_cpus,
};
pub use privilege::{
    Capability, drop_capability, has_capability, memlock_limit_bytes, page_bytes,
    set_memlock_limit_bytes, thread_time, under_hypervisor,
};
pub use realtime::run_before_ordinary_threads;
pub use region::{Huge, Region};
pub use scratch::{Scratch, huge_page_bytes};
pub use service::passed_descriptors;
pub use signals::{HandlersHeld, SignalsBlocked};
pub use sysv::{SysvSegment, SysvState};
pub use wakeups::Wakeups;
