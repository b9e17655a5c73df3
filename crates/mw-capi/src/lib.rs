//! The C interface of `mw-segment` and of `mw-pool`'s client: `libmemwright.so`, `libmemwright.a` and
//! `memwright.h`.
//!
//! The header is generated from the doc comments of this crate (`cargo xtask docs`), which are
//! therefore written for C programmers. `examples/segment.c` is a complete program; `Makefile`
//! installs the library with a pkg-config file.
//!
//! Rules for every call:
//! - **NULL and invalid numbers are errors**, never followed: enumerations are passed as int and
//!   looked up. The caller is responsible for handles being ours and not freed, and for arrays being
//!   as long as it says.
//! - **No panic crosses the interface**: it becomes [`mw_status::MW_INTERNAL`](status::mw_status).
//! - **Stable numbers.** The meaning of an enumerator, a structure's member or a function does not
//!   change within one soname; new ones are added at the end. Only the library creates structures, so
//!   that they can grow.
//! - **No global state**: no last error, no handlers, no initialization.
//!
//! Handles are boxes: a parameter `Option<&T>` is a pointer that may be NULL, `Option<Box<T>>` one
//! that passes ownership. Unsafe code remains for unmangled names, and for strings and arrays
//! (`raw`).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![allow(non_camel_case_types, reason = "names in C")]

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
