//! The atomics of the cursor and of the CPU shares; `tests/interleavings.rs` replaces them by shuttle's.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
