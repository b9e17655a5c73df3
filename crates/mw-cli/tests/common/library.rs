//! The library that commands are run with.

#[path = "../../../mw-preload/tests/common/built.rs"]
mod built;

use std::path::PathBuf;

pub(crate) fn library() -> PathBuf {
    built::built("mw-preload", "memwright_preload", "libmemwright_preload.so")
}
