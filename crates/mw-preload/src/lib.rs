//! `libmemwright_preload.so`, which `memwright run` loads into unmodified programs (LD_PRELOAD). What they
//! populate, lock and free in large calls is done in parallel; if requested, large and sequential transfers
//! of files bypass the page cache (`uncached`).
//!
//! | call | from the threshold up |
//! |---|---|
//! | mlock, mlock2, mlockall | locked on fault, populated in parallel, then the system call |
//! | mmap, mmap64 with MAP_POPULATE or MAP_LOCKED | mapped without, populated in parallel, then locked |
//! | mmap, mmap64, shmat | with `--prefault=now` or `--lock`: populated in parallel; with `--prefault`: later (`background`) |
//! | mmap of shared anonymous memory | with `--pool`: maps memory of a pool, which is populated already |
//! | madvise, msync | with `--lock`: memory that only `--lock` has locked is unlocked for the call (`program_locks`) |
//! | mremap, syscall | with `--lock`: observed, to know what the program has locked itself (`program_locks`) |
//! | munmap, madvise, mremap, mmap with MAP_FIXED, shmdt, syscall | of memory that `background` has yet to populate: it is left out |
//! | setuid and similar, capset, unshare, setns | before them, the thread of `background` ends |
//! | munmap of one mapping | moved to other addresses, discarded in parallel there, then unmapped |
//! | shmget, shmat, shmdt, shmctl of a new segment | with `--pool`: the kernel's segment with memory of a pool (`sysv`) |
//! | shmdt | discarded in parallel, then the system call |
//! | madvise: POPULATE_READ, POPULATE_WRITE, DONTNEED | in parallel |
//! | prctl, syscall | observed: a program that installs a seccomp filter is left alone from then on (`seccomp`) |
//! | ioctl, syscall | observed: the memory of a program that uses userfaultfd is left alone from then on (`userfaultfd`) |
//! | fclose | of standard error, with `--stats`: reports before it is closed |
//! | read, write and similar, sendfile, copy_file_range | with `--direct-io` or a setting of `iotune` |
//!
//! Invariants:
//! - **The system call determines the result.** What is done before it is what the call would do as well, and
//!   populates no page that it would not. In unusual cases (a hole, a part without access, a file on a disk,
//!   too little memory) nothing is done before it.
//! - **Below the threshold a call costs one comparison**, and uses no allocation, lock or thread-local
//!   storage: the program's allocator may call mmap before any constructor has run.
//! - **Above it, no lock and no allocator of the program is used.** Memory comes from `heap`, threads from
//!   clone(2), unknown to the C library: the caller may be a signal handler, a vfork(2) child, or an
//!   allocator that holds its lock.
//! - **No thread remains**, except with `--prefault` the one of `background`, while there is something to
//!   populate. Threads are created for one call before its work begins, and end before it returns. One of them, the helper thread, has a file descriptor table of its own, reads /proc and
//!   directs the others; the program's descriptors do not change. They block all signals, and the
//!   handlers of the caller are delayed until the call returns, as in a system call.
//! - **What cannot be done is left to the kernel**, without a message: if no thread can be created, without
//!   /proc, before Linux 5.14, under a seccomp filter.
//!
//! Left to the kernel because of these measurements (ms/GiB of 4 KiB pages on two CPUs, with one thread
//! and with two):
//!
//! | call | one | two | |
//! |---|---|---|---|
//! | fallocate, posix_fallocate on tmpfs | 290 to 340 | 340 to 450 | one lock of the inode; populating a mapping of it in parallel first: 920 to 970 |
//! | the same on hugetlbfs | 46 to 52 | 47 to 53 | memory bandwidth is the limit |
//! | madvise(MADV_REMOVE) | 310 to 440 | 500 to 540 | one lock of the inode; discarding the addresses in parallel first: 240 to 410 |
//! | munlock | 70 | 70 to 80 | it holds the mmap lock |
//! | shmctl(IPC_RMID), or the freeing by the last shmdt | 200 | | one inode |
//! | mremap, shmget, shmctl(SHM_LOCK) | 0.1 | | they access no page |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg(target_pointer_width = "64")]

mod active_threads;
mod background;
#[cfg(all(not(test), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod builtins;
mod confinement;
mod dry_run;
mod env;
mod heap;
mod helper_thread;
pub mod interpose;
mod kernel;
mod lock;
mod locked_ranges;
mod map;
mod mapping_limit;
mod message;
mod mmap_request;
mod original;
mod pool_memory;
mod populate;
mod populate_queue;
mod program_locks;
mod range_table;
mod release;
mod seccomp;
mod seccomp_status;
mod settings;
mod shm;
mod startup;
mod stats;
mod sysv;
mod uncached;
mod userfaultfd;
mod wipe_on_fork;
