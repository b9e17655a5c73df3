//! Which nodes pages are on, and moving them to another.

use crate::policy::check;
use crate::region::Region;
use std::collections::BTreeMap;
use std::ffi::c_long;
use std::io;

/// Sampled pages, and the multiplier that scatters them: the golden ratio of 2^64.
const NODE_SAMPLES: usize = 4096;
const SCATTER: usize = 0x9E37_79B9_7F4A_7C15;

/// Only pages that no other process maps (linux/mempolicy.h).
const MPOL_MF_MOVE: c_long = 1 << 1;

impl Region {
    /// The nodes of the pages at these offsets (move_pages(2)); none for a page that is not populated.
    ///
    /// # Errors
    /// `InvalidInput` for an offset outside of the region; `ENOSYS` on a kernel without NUMA.
    pub fn nodes(&self, offsets: &[usize]) -> io::Result<Vec<Option<u32>>> {
        if offsets.iter().any(|offset| *offset >= self.bytes()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let start = self.as_ptr().as_ptr();
        let pages: Vec<*mut u8> =
            offsets.iter().map(|offset| start.wrapping_add(*offset)).collect();
        Ok(nodes(move_pages(0, &pages, None)?))
    }

    /// The share of each node in the region, from a sample of at most 4,096 pages. Pages that are not
    /// populated count for no node.
    ///
    /// # Errors
    /// `ENOSYS` on a kernel without NUMA.
    pub fn node_shares(&self) -> io::Result<BTreeMap<u32, f64>> {
        let page_bytes = rustix::param::page_size();
        let pages = self.bytes() / page_bytes;
        let samples = pages.min(NODE_SAMPLES);
        // Steps of a constant size would always hit the same node where pages are
        // interleaved.
        let page = |sample: usize| sample.wrapping_mul(SCATTER) % pages;
        let offsets: Vec<usize> = (0..samples).map(|sample| page(sample) * page_bytes).collect();
        let mut shares = BTreeMap::new();
        for node in self.nodes(&offsets)?.into_iter().flatten() {
            *shares.entry(node).or_insert(0.0) += 1.0 / samples as f64;
        }
        Ok(shares)
    }
}

/// The nodes of the pages of a process at these addresses (move_pages(2)); none for a page that is not populated.
///
/// # Errors
/// `ESRCH` if the process has ended, `EPERM` without CAP_SYS_NICE, `ENOSYS` on a kernel without NUMA.
pub fn nodes_of_pages(pid: u32, addresses: &[u64]) -> io::Result<Vec<Option<u32>>> {
    Ok(nodes(move_pages(process(pid)?, &pointers(addresses), None)?))
}

/// Moves the pages of a process at these addresses to a node (move_pages(2)), and returns how many are there
/// then. Pages that other processes map, too, stay where they are.
///
/// # Errors
/// Those of [`nodes_of_pages`]; `EACCES` or `ENODEV` if the process may not use the node, `ENOMEM` if it is full.
pub fn move_pages_to_node(pid: u32, addresses: &[u64], node: u32) -> io::Result<usize> {
    let target = i32::try_from(node).map_err(|_| io::ErrorKind::InvalidInput)?;
    let targets = vec![target; addresses.len()];
    let status = move_pages(process(pid)?, &pointers(addresses), Some(&targets))?;
    Ok(status.into_iter().filter(|node| *node == target).count())
}

/// Process 0 would be the caller.
fn process(pid: u32) -> io::Result<c_long> {
    if pid == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(c_long::from(pid))
}

fn pointers(addresses: &[u64]) -> Vec<*mut u8> {
    addresses.iter().map(|address| *address as usize as *mut u8).collect()
}

fn nodes(status: Vec<i32>) -> Vec<Option<u32>> {
    status.into_iter().map(|node| u32::try_from(node).ok()).collect()
}

/// The node of each page, or a negative error number. `targets` has as many nodes as there are pages.
fn move_pages(pid: c_long, pages: &[*mut u8], targets: Option<&[i32]>) -> io::Result<Vec<i32>> {
    if targets.is_some_and(|targets| targets.len() != pages.len()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut status = vec![-1_i32; pages.len()];
    // SAFETY: all arrays are as long as the count says and alive over the call. Nothing is read or written at the
    // addresses, and a page that is moved keeps its address and content (move_pages(2)).
    #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            pages.len(),
            pages.as_ptr(),
            targets.map_or(std::ptr::null(), <[i32]>::as_ptr),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    check(moved)?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn pages_of_a_process_are_found_and_moved() {
        let pid = std::process::id();
        let buffer = black_box(vec![1_u8; 1 << 20]);
        let page = rustix::param::page_size();
        let addresses: Vec<u64> = (0..16)
            .map(|n| (buffer.as_ptr() as usize / page * page + (n + 1) * page) as u64)
            .collect();
        let nodes = nodes_of_pages(pid, &addresses).unwrap();
        let node = nodes[0].unwrap();
        assert!(nodes.iter().all(Option::is_some), "{nodes:?}");
        assert_eq!(move_pages_to_node(pid, &addresses, node).unwrap(), addresses.len());
        assert!(buffer.iter().all(|byte| *byte == 1));
        // No page is there.
        assert_eq!(nodes_of_pages(pid, &[0]).unwrap(), [None]);
        assert!(move_pages_to_node(pid, &addresses, 900).is_err());
        assert!(nodes_of_pages(0, &addresses).is_err());
        let gone = nodes_of_pages(i32::MAX as u32, &addresses).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}
