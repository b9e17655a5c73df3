//! What the cursor and the ledger are made of; `tests/interleavings.rs` puts shuttle's in place.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
