//! CPU affinity and memory policy.

use mw_memory::NumaPolicy;
use rustix::thread::CpuSet;
use std::ffi::{c_long, c_ulong, c_void};
use std::io;

/// The maximum number of nodes of any kernel (`MAX_NUMNODES`, 2^10).
const MAX_NODES: usize = 1024;
const WORD_BITS: usize = c_ulong::BITS as usize;

/// A set of nodes as the kernel takes it (set_mempolicy(2)).
struct NodeMask([c_ulong; MAX_NODES / WORD_BITS]);

impl NodeMask {
    const EMPTY: Self = Self([0; MAX_NODES / WORD_BITS]);

    /// The kernel reads one bit less than this.
    const MAXNODE: c_ulong = MAX_NODES as c_ulong + 1;

    fn from_node(node: u32) -> io::Result<Self> {
        Self::from_nodes(&[node])
    }

    fn from_nodes(nodes: &[u32]) -> io::Result<Self> {
        let mut mask = Self::EMPTY;
        for node in nodes {
            let node = *node as usize;
            let word = mask.0.get_mut(node / WORD_BITS);
            *word.ok_or(io::ErrorKind::InvalidInput)? |= 1 << (node % WORD_BITS);
        }
        Ok(mask)
    }

    fn nodes(&self) -> Vec<u32> {
        let has = |node: &usize| self.0[node / WORD_BITS] >> (node % WORD_BITS) & 1 == 1;
        (0..MAX_NODES).filter(has).filter_map(|node| u32::try_from(node).ok()).collect()
    }
}

/// Restores the thread's previous memory policy when dropped.
#[derive(Debug)]
#[must_use = "the policy ends when this is dropped"]
pub struct PolicyGuard {
    mode: i32,
    mask: [c_ulong; MAX_NODES / WORD_BITS],
    /// The policy belongs to the thread.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Binds memory that this thread populates to `node` until the guard is dropped.
///
/// # Errors
/// `EINVAL` for a node that does not exist or that the cpuset excludes, `ENOSYS` without NUMA.
pub fn bind_thread_to_node(node: u32) -> io::Result<PolicyGuard> {
    let wanted = NodeMask::from_node(node)?;
    let (mode, mask) = thread_policy()?;
    set_policy(libc::MPOL_BIND, &wanted.0)?;
    Ok(PolicyGuard { mode, mask: mask.0, _thread: std::marker::PhantomData })
}

/// The nodes that this thread's memory policy binds it to (`MPOL_BIND`); none where it is free to use others.
///
/// # Errors
/// `ENOSYS` without NUMA.
pub fn bound_nodes() -> io::Result<Option<Vec<u32>>> {
    let (mode, mask) = thread_policy()?;
    Ok((mode & !MODE_FLAGS == libc::MPOL_BIND).then(|| mask.nodes()))
}

/// Flags in the mode of a policy: `MPOL_F_STATIC_NODES`, `MPOL_F_RELATIVE_NODES`, `MPOL_F_NUMA_BALANCING`.
const MODE_FLAGS: i32 = 0xe000;

/// The mode and the nodes of this thread's memory policy.
fn thread_policy() -> io::Result<(i32, NodeMask)> {
    let (mut mode, mut mask) = (0, NodeMask::EMPTY);
    // SAFETY: `mode` and `mask` are writable and as large as MAXNODE says (get_mempolicy(2)).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let got = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            mask.0.as_mut_ptr(),
            NodeMask::MAXNODE,
            std::ptr::null::<c_void>(),
            0 as c_long,
        )
    };
    check(got).map(|()| (mode, mask))
}

fn set_policy(mode: i32, mask: &[c_ulong; MAX_NODES / WORD_BITS]) -> io::Result<()> {
    // MPOL_DEFAULT and MPOL_LOCAL take no nodes.
    let some = mask.iter().any(|word| *word != 0);
    let (mask, max) = if some { (mask.as_ptr(), NodeMask::MAXNODE) } else { (std::ptr::null(), 0) };
    // SAFETY: `mask` is null with a length of none, or readable and as long as MAXNODE says
    // (set_mempolicy(2)).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let set = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode as c_long, mask, max) };
    check(set)
}

impl Drop for PolicyGuard {
    fn drop(&mut self) {
        let _ = set_policy(self.mode, &self.mask);
    }
}

/// mbind(2) on a range that the caller owns.
pub(crate) fn set_range_policy(
    start: *mut c_void,
    bytes: usize,
    policy: &NumaPolicy,
) -> io::Result<()> {
    let mode = match policy {
        NumaPolicy::Default => libc::MPOL_DEFAULT,
        NumaPolicy::Local => libc::MPOL_LOCAL,
        NumaPolicy::Bind(_) => libc::MPOL_BIND,
        NumaPolicy::Interleave(_) => libc::MPOL_INTERLEAVE,
    };
    let mask = NodeMask::from_nodes(policy.nodes())?;
    // SAFETY: `mask` is readable and as long as MAXNODE says; the call changes where pages come
    // from and no content (mbind(2)), and a range that is not mapped is EFAULT.
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let bound = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start,
            bytes,
            mode as c_long,
            mask.0.as_ptr(),
            NodeMask::MAXNODE,
            0 as c_long,
        )
    };
    check(bound)
}

pub(crate) fn check(result: c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Restores the thread's previous affinity when dropped.
#[derive(Debug)]
#[must_use = "the affinity ends when this is dropped"]
pub struct AffinityGuard {
    before: CpuSet,
    /// The affinity belongs to the thread.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Pins this thread to those of `cpus` that it may use, until the guard is dropped.
///
/// # Errors
/// `InvalidInput` when it may use none of them, else sched_setaffinity(2)'s.
pub fn pin_thread_to_cpus(cpus: &[u32]) -> io::Result<AffinityGuard> {
    let before = rustix::thread::sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    for cpu in cpus.iter().map(|cpu| *cpu as usize).filter(|cpu| *cpu < CpuSet::MAX_CPU) {
        if before.is_set(cpu) {
            wanted.set(cpu);
        }
    }
    if wanted.count() == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::thread::sched_setaffinity(None, &wanted)?;
    Ok(AffinityGuard { before, _thread: std::marker::PhantomData })
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        let _ = rustix::thread::sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_and_released() {
        // A kernel without NUMA says so; with it, node 0 exists.
        match bind_thread_to_node(0) {
            Ok(guard) => {
                assert_eq!(bound_nodes().unwrap(), Some(vec![0]));
                drop(guard);
                assert_eq!(bound_nodes().unwrap(), None);
                drop(bind_thread_to_node(0).unwrap());
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
        assert!(bind_thread_to_node(1_000).is_err());
        assert!(bind_thread_to_node(u32::MAX).is_err());
    }

    #[test]
    fn a_thread_is_pinned_and_released() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| before.is_set(*cpu)).unwrap();
        let guard = pin_thread_to_cpus(&[u32::try_from(first).unwrap()]).unwrap();
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
        drop(guard);
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), before.count());
        assert!(pin_thread_to_cpus(&[u32::MAX]).is_err());
    }
}
