//! `libmemwright_preload.so`, which `memwright run` loads into unmodified programs (LD_PRELOAD): what
//! they populate, lock and free in large pieces is done in parallel; and where it is asked for, large
//! and sequential transfers of files stay out of the page cache (`uncached`).
//!
//! | call | from the threshold up |
//! |---|---|
//! | mlock, mlock2, mlockall | locked on fault, populated in parallel, then the kernel's own call |
//! | mmap, mmap64 with MAP_POPULATE or MAP_LOCKED | mapped without, populated in parallel, then locked |
//! | mmap, mmap64, shmat | with `--prefault` or `--lock`: populated in parallel |
//! | mmap of shared anonymous memory | with `--pool`: a mapping of a pool's memory, which is there already |
//! | madvise, msync | with `--lock`: what is locked by that alone is unlocked for it (`own_locks`) |
//! | mremap, syscall | looked at, with `--lock`: what the program has locked itself (`own_locks`) |
//! | munmap of one mapping | moved away, emptied in parallel there, then unmapped |
//! | shmget, shmat, shmdt, shmctl of a new segment | with `--pool`: the kernel's segment, a pool's memory (`sysv`) |
//! | shmdt | emptied in parallel, then the kernel's own call |
//! | madvise: POPULATE_READ, POPULATE_WRITE, DONTNEED | in parallel |
//! | prctl, syscall | looked at: whoever installs a seccomp filter is left alone from then on (`seccomp`) |
//! | ioctl, syscall | looked at: whoever makes a userfaultfd has its memory left alone from then on (`userfaultfd`) |
//! | fclose | of standard error, with `--stats`: what was done is said before it is closed |
//! | read, write and their like, sendfile, copy_file_range | with `--direct-io` or a setting of `iotune` |
//!
//! What always holds:
//! - **The kernel's own call answers.** What is done beforehand is what that call would do as well,
//!   and populates no page that it would not; where anything is unusual (a hole, a part that may
//!   not be touched, a file on a disk, too little memory) nothing is done beforehand.
//! - **Below the threshold there is one comparison**, no allocation, no lock and no thread-local
//!   storage: mmap may be called by the program's allocator, before any constructor has run.
//! - **Above it no lock and no allocator of the program's is used.** Memory comes from `heap`,
//!   threads from clone(2), which the C library knows nothing of: the caller may be a signal handler,
//!   a vfork(2) child, or an allocator that holds its lock.
//! - **No thread stays.** They are made for one call, before its work begins, and are gone when it
//!   returns. One of them, with a table of file descriptors of its own, looks into /proc and
//!   directs the others; the program sees no descriptor of ours and loses none. They block all
//!   signals, and the caller's handlers wait until the call returns, as they do for the kernel's.
//! - **What cannot be done is left to the kernel**, in silence: no thread to be had, no /proc, a
//!   kernel before 5.14, a seccomp filter.
//!
//! Left to the kernel, for what measuring gave (ms/GiB of 4 KiB pages, two processors, by one thread
//! and by two):
//!
//! | call | one | two | |
//! |---|---|---|---|
//! | fallocate, posix_fallocate on tmpfs | 290 to 340 | 340 to 450 | one lock of the inode; populating a mapping of it in parallel first: 920 to 970 |
//! | the same on huge pages of the pool | 46 to 52 | 47 to 53 | memory is the limit |
//! | madvise(MADV_REMOVE) | 310 to 440 | 500 to 540 | one lock of the inode; emptying the addresses in parallel first: 240 to 410 |
//! | munlock | 70 | 70 to 80 | it holds the lock of all addresses |
//! | shmctl(IPC_RMID), or the last shmdt's freeing | 200 | | one inode |
//! | mremap, shmget, shmctl(SHM_LOCK) | 0.1 | | they touch no page |

#![cfg(target_pointer_width = "64")]

mod anew;
#[cfg(all(not(test), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod builtins;
pub mod by_number;
mod heap;
mod helper_thread;
pub mod interpose;
mod kernel;
mod large;
mod lock;
mod map;
mod next;
mod own_locks;
mod pooled;
mod release;
mod seccomp;
mod settings;
mod stats;
mod sysv;
pub mod transfer;
mod trial;
mod uncached;
mod userfaultfd;
