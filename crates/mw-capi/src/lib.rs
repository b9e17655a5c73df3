//! The C interface of `mw-segment` and of `mw-pool`'s client: `libmemwright.so`, `libmemwright.a` and `memwright.h`.
//!
//! The header is generated from the doc comments of this crate (`cargo xtask docs`), which are
//! therefore written for readers of C. `examples/segment.c` shows the whole of it; `Makefile`
//! installs it with a pkg-config file.
//!
//! What holds for every call:
//! - **NULL and numbers without a meaning are refused**, never followed: enumerations come in as
//!   int and are looked up. What C alone can answer for is that a handle is one of ours and not
//!   freed yet, and that what it points to is as long as it says.
//! - **No panic crosses over**: it becomes [`mw_status::MW_INTERNAL`](status::mw_status).
//! - **Numbers stay.** What an enumerator, a structure's member or a function means does not
//!   change while the library's soname is the same; new ones come at the end. Structures are made
//!   by the library alone, so that they can grow.
//! - **No state of its own**: no last error, no handler to set, nothing to initialise.
//!
//! Handles are boxes: a parameter `Option<&T>` is a pointer that may be NULL, `Option<Box<T>>` one
//! whose owner the callee becomes. That leaves unsafe code for names without mangling, and for
//! strings and arrays (`raw`).

#![allow(non_camel_case_types, reason = "the names of C")]

pub mod cancel;
pub mod error;
pub mod kind;
pub mod options;
pub mod pool;
pub mod progress;
mod raw;
pub mod segment;
pub mod status;
pub mod version;
