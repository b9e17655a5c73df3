//! The only unsafe code of memwright: system calls on memory behind safe types; and the only place where files are
//! opened by a path: the kernel's own (`kernel_file`), and all others (`guarded`).
//!
//! The contract of every module here:
//! - **A safe function cannot break memory safety**, whatever its arguments: it checks or owns what it
//!   needs to be sound.
//! - **No policy.** A call does one thing and returns the kernel's error; retries, fallbacks to other
//!   kinds of memory and messages are up to the caller.
//! - **No references.** Memory of a [`Region`] is locked, populated and discarded here but never lent,
//!   so discarding it breaks no borrow. A caller that turns its address into references is responsible
//!   for them.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod allocator;
mod anonymous;
mod background_thread;
mod bare_threads;
mod bounded_program;
mod cached_pages;
mod clock;
mod command;
mod direct;
mod direct_file;
mod existing;
mod file_lease;
mod folios;
pub mod guarded;
mod helper_thread;
mod huge_mappings;
mod huge_memfd;
mod input_file;
mod interrupt_timer;
pub mod kernel_file;
mod lock_file;
mod malloc;
mod mappings;
mod namespaces;
mod page_nodes;
mod pagemap;
mod peer;
mod perf;
mod perf_ring;
mod pidfd;
mod policy;
mod populate;
mod privilege;
mod realtime;
mod region;
mod resource_usage;
mod scratch;
mod service;
mod signals;
mod sysv;
mod tcp;
#[cfg(feature = "testing")]
pub mod testing;
mod touch;
mod zero;

pub use allocator::{Allocator, exit_without_memory};
pub use background_thread::BackgroundThread;
pub use bare_threads::run_bare_threads;
pub use bounded_program::{ProgramEnd, ProgramError, ProgramLimits, run_program};
pub use cached_pages::{CachedPages, cached_pages, cached_pages_before};
pub use clock::{boot_time_ms, monotonic_ns, unix_ms};
pub use command::run_command;
pub use direct::system_call;
pub use direct_file::{DirectFile, read_file, subdirectories};
pub use existing::{Fault, advise_thp_existing, can_populate, populate_existing};
pub use file_lease::is_only_open;
pub use folios::has_guard_pages;
pub use helper_thread::{HELPER_THREAD_NAME, HelperThread, join_within};
pub use huge_mappings::HugeMappings;
pub use huge_memfd::memfd_page_flags;
pub use input_file::InputFile;
pub use interrupt_timer::InterruptTimer;
pub use lock_file::{LockFileError, open_lock_file};
pub use malloc::return_freed_memory_to_kernel;
pub use mappings::{OwnMapping, mapping_from};
pub use namespaces::{PidNamespace, in_network_namespace, namespace_number};
pub use page_nodes::{move_pages_to_node, nodes_of_pages};
pub use peer::{PeerCredentials, peer_credentials, peer_groups, refuse_descriptors, unread_bytes};
pub use perf::{
    PerfAttr, PerfEvent, PerfSource, RECORDED_REGISTERS, RecordedRegister, SamplePeriod,
    UserStackCopy,
};
pub use perf_ring::PerfRing;
pub use pidfd::{exit_descriptor, exit_status_of, is_readable_within};
pub use policy::{
    AffinityGuard, PolicyGuard, bind_thread_to_node, bound_nodes, pin_thread_to_cpus,
};
pub use privilege::{
    Capability, drop_capability, has_capability, limit_data_bytes, memlock_limit_bytes, page_bytes,
    process_time, set_memlock_limit_bytes, thread_time, under_hypervisor,
};
pub use realtime::{leave_real_time, set_sched_fifo};
pub use region::{Region, ThpAdvice};
pub use resource_usage::{
    ResourceUsage, peak_resident_bytes, preemptions, thread_page_faults, wait_with_usage,
};
pub use scratch::{Scratch, huge_page_bytes};
pub use service::passed_descriptors;
pub use signals::{SignalHandlersBlocked, SignalsBlocked, is_termination_requested};
pub use sysv::{SysvCounts, SysvSegment, SysvState};
pub use tcp::{TcpSegments, tcp_segments};
