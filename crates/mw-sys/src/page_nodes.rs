//! Which nodes the pages of a region are on.

use crate::policy::check;
use crate::region::Region;
use std::collections::BTreeMap;
use std::ffi::{c_long, c_void};
use std::io;

/// Sampled pages, and the multiplier that scatters them: the golden ratio of 2^64.
const NODE_SAMPLES: usize = 4096;
const SCATTER: usize = 0x9E37_79B9_7F4A_7C15;

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
        let mut status = vec![-1_i32; pages.len()];
        // SAFETY: both arrays are as long as the count says and alive over the call; without target
        // nodes nothing is moved (move_pages(2)).
        #[allow(unsafe_code, reason = "neither libc nor rustix wraps it")]
        let queried = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0 as c_long,
                pages.len(),
                pages.as_ptr(),
                std::ptr::null::<c_void>(),
                status.as_mut_ptr(),
                0 as c_long,
            )
        };
        check(queried)?;
        Ok(status.into_iter().map(|node| u32::try_from(node).ok()).collect())
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
