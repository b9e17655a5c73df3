//! System V shared memory segments (shmget(2), shmctl(2)), and how many semaphores and message queues there are.

use std::io;

/// linux/shm.h
const SHM_STAT_ANY: i32 = 15;

/// A System V segment. Dropping it does nothing: the segment exists until it is removed and detached by
/// every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysvSegment {
    id: i32,
}

/// Public facts about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysvState {
    /// The process that created it, in this PID namespace; 0 for one outside of it.
    pub creator: u32,
    /// Its owner and its creator.
    pub users: [u32; 2],
    pub groups: [u32; 2],
    /// Its permissions: the low nine bits are those of a file's mode.
    pub mode: u32,
}

impl SysvSegment {
    /// The segment with this id, which need not exist.
    pub fn from_id(id: i32) -> Self {
        Self { id }
    }

    /// Creates a segment that only this user may attach. `key` 0 is `IPC_PRIVATE`; another key must not
    /// exist. `huge_page_bytes` is the size of its hugetlb pages, which are reserved here.
    ///
    /// # Errors
    /// shmget(2)'s: `EINVAL` beyond SHMMAX, `ENOSPC` beyond SHMMNI or SHMALL, `ENOMEM` without
    /// memory, commit or huge pages, `EPERM` for huge pages without the privilege, `EEXIST`.
    pub fn create(key: i32, bytes: usize, huge_page_bytes: Option<usize>) -> io::Result<Self> {
        let huge = match huge_page_bytes {
            None => 0,
            // The base-2 logarithm of the size, in the six bits from SHM_HUGE_SHIFT (26) on.
            Some(size) => libc::SHM_HUGETLB | ((size.trailing_zeros() as i32) << 26),
        };
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | huge | 0o600;
        // SAFETY: makes a segment and touches no memory of ours (shmget(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of shmget(2)")]
        let id = unsafe { libc::shmget(key, bytes, flags) };
        if id < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { id }) }
    }

    pub fn id(self) -> i32 {
        self.id
    }

    /// Marks the segment for removal when no process has it attached any more (`IPC_RMID`).
    ///
    /// # Errors
    /// shmctl(2)'s: `EINVAL`, `EIDRM` when it is gone, `EPERM`.
    pub fn remove(self) -> io::Result<()> {
        self.control(libc::IPC_RMID)
    }

    /// Locks the segment in memory for every process (`SHM_LOCK`). Does not populate it; pages are
    /// locked when they are populated.
    ///
    /// # Errors
    /// shmctl(2)'s: `EPERM` without privilege and limit, `ENOMEM` beyond `RLIMIT_MEMLOCK`.
    pub fn lock(self) -> io::Result<()> {
        self.control(libc::SHM_LOCK)
    }

    /// The number of attachments in all processes.
    ///
    /// # Errors
    /// shmctl(2)'s.
    pub fn attached(self) -> io::Result<u64> {
        self.status().map(|status| status.shm_nattch)
    }

    /// Its requested size in bytes.
    ///
    /// # Errors
    /// shmctl(2)'s.
    pub fn bytes(self) -> io::Result<usize> {
        self.status().map(|status| status.shm_segsz)
    }

    /// Its public state, without permission to attach it (`SHM_STAT_ANY`, kernel 4.17).
    ///
    /// # Errors
    /// shmctl(2)'s: `EINVAL` where it is gone, `EIDRM`.
    pub fn state(self) -> io::Result<SysvState> {
        // The kernel checks only the index part of the number (ipc/util.h, `ipcid_to_idx`), and says
        // whose segment it found there.
        let (found, status) = self.ask(SHM_STAT_ANY)?;
        if found != self.id {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let about = status.shm_perm;
        Ok(SysvState {
            creator: u32::try_from(status.shm_cpid).unwrap_or(0),
            users: [about.uid, about.cuid],
            groups: [about.gid, about.cgid],
            mode: about.mode.into(),
        })
    }

    fn status(self) -> io::Result<libc::shmid_ds> {
        self.ask(libc::IPC_STAT).map(|(_, status)| status)
    }

    fn ask(self, command: i32) -> io::Result<(i32, libc::shmid_ds)> {
        // SAFETY: shmid_ds is plain numbers, for which all bits zero is a value.
        #[allow(unsafe_code, reason = "filled by the next call")]
        let mut status: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live shmid_ds, which these commands fill (shmctl(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of shmctl(2)")]
        let done = unsafe { libc::shmctl(self.id, command, &raw mut status) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok((done, status)) }
    }

    fn control(self, command: i32) -> io::Result<()> {
        // SAFETY: these commands take no buffer (shmctl(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of shmctl(2)")]
        let done = unsafe { libc::shmctl(self.id, command, std::ptr::null_mut()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Semaphores and message queues of this process's IPC namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysvCounts {
    pub semaphore_sets: u64,
    pub semaphores: u64,
    pub message_queues: u64,
}

/// `struct seminfo` of linux/sem.h, which not every C library has; with `SEM_INFO`, `semusz` and `semaem` are counts.
#[repr(C)]
#[derive(Default)]
struct SemaphoreInfo {
    limits: [libc::c_int; 7],
    semusz: libc::c_int,
    semvmx: libc::c_int,
    semaem: libc::c_int,
}

impl SysvCounts {
    /// The counts, which the kernel has at hand: /proc/sysvipc lists up to 32,768 of each.
    ///
    /// # Errors
    /// semctl(2)'s and msgctl(2)'s: `ENOSYS` where the kernel is built without them.
    pub fn count() -> io::Result<Self> {
        let mut semaphores = SemaphoreInfo::default();
        // SAFETY: the pointer is to a live struct seminfo, which this command fills (semctl(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of semctl(2)")]
        let done = unsafe { libc::semctl(0, 0, libc::SEM_INFO, &raw mut semaphores) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: msginfo is plain numbers, for which all bits zero is a value.
        #[allow(unsafe_code, reason = "filled by the next call")]
        let mut messages: libc::msginfo = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live struct msginfo, which this command fills (msgctl(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of msgctl(2)")]
        let done = unsafe { libc::msgctl(0, libc::MSG_INFO, (&raw mut messages).cast()) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        let count = |number: libc::c_int| u64::try_from(number).unwrap_or(0);
        Ok(Self {
            semaphore_sets: count(semaphores.semusz),
            semaphores: count(semaphores.semaem),
            message_queues: count(messages.msgpool),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_and_a_queue_are_counted() {
        let before = SysvCounts::count().unwrap();
        // SAFETY: makes a set and touches no memory of ours (semget(2)).
        #[allow(unsafe_code, reason = "what is counted")]
        let set = unsafe { libc::semget(0, 3, 0o600) };
        // SAFETY: makes a queue and touches no memory of ours (msgget(2)).
        #[allow(unsafe_code, reason = "what is counted")]
        let queue = unsafe { libc::msgget(0, 0o600) };
        let after = SysvCounts::count().unwrap();
        // SAFETY: this command takes no buffer (semctl(2)).
        #[allow(unsafe_code, reason = "removes it")]
        let set_removed = unsafe { libc::semctl(set, 0, libc::IPC_RMID) };
        // SAFETY: this command takes no buffer (msgctl(2)).
        #[allow(unsafe_code, reason = "removes it")]
        let queue_removed = unsafe { libc::msgctl(queue, libc::IPC_RMID, std::ptr::null_mut()) };
        assert_eq!((set_removed, queue_removed), (0, 0));
        assert!(after.semaphore_sets > before.semaphore_sets, "{before:?} {after:?}");
        assert!(after.semaphores >= before.semaphores + 3, "{before:?} {after:?}");
        assert!(after.message_queues > before.message_queues, "{before:?} {after:?}");
    }

    #[test]
    fn a_segment_is_made_and_removed() {
        let segment = SysvSegment::create(0, 1 << 20, None).unwrap();
        assert_eq!(segment.attached().unwrap(), 0);
        let seen = SysvSegment::from_id(segment.id()).state().unwrap();
        assert_eq!((seen.creator, seen.mode & 0o777), (std::process::id(), 0o600));
        segment.remove().unwrap();
        assert!(segment.attached().is_err());
        assert!(segment.remove().is_err() && segment.state().is_err());
    }
}
