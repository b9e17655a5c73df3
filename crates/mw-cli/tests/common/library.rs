//! The library that commands are run with.

use std::path::PathBuf;

pub(crate) fn library() -> PathBuf {
    mw_test::built("mw-preload", "memwright_preload", "libmemwright_preload.so")
}
