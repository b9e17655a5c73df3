//! Memory in the kernel's terms, computed from its files: how much is available, page sizes, memory
//! policies. Pure, and without weight: mw-sys and mw-segment use it as well as the model.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod account;
mod available;
mod contradiction;
mod deferred_init;
mod folio_switch;
mod free_blocks;
mod group_limit;
mod huge_pool;
mod numa_policy;
mod own_limits;
mod page_size;
mod reclaimable;
mod units;
mod unreclaimable_slab;

pub use account::{Account, AccountCounters, MemoryPart};
pub use available::{
    Commit, MachineMemory, cgroup_available_bytes, cgroup_ready_bytes, nodes_available_bytes,
    tightest,
};
pub use contradiction::{Contradiction, contradictions, exceeds, sound};
pub use deferred_init::DeferredInit;
pub use folio_switch::{
    SwitchState, WHY_ONLY_THE_LARGEST, folio_switch, folio_switch_file, thp_is_allowed,
    thp_is_enabled, thp_switch_file,
};
pub use free_blocks::{FOLIO_CHUNK_BYTES, FreeBlocks, MAX_WORKERS, folio_reserve_bytes};
pub use group_limit::{GroupCounters, GroupEffect, GroupLimit};
pub use huge_pool::{HugePool, huge_pool_dir};
pub use numa_policy::NumaPolicy;
pub use own_limits::{
    CommitReserve, RAISE_COMMIT_LIMIT, RAISE_SHMALL, RAISE_SHMMAX, ResourceLimit,
    enforced_data_bytes, resource_left_bytes, shm_left_bytes,
};
pub use page_size::{InvalidPageSize, PageSize};
pub use reclaimable::{file_cache_bytes, kernel_reclaimable_bytes, unwritten_bytes};
pub use units::{SIZE_SUFFIXES, format_bytes, format_count};
pub use unreclaimable_slab::{KernelObjects, UnreclaimableSlab, is_reclaimable_cache};
