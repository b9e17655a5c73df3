//! The functions that interpose those of the C library.

pub mod file_io;
pub mod identity;
pub mod memory;
pub mod process;
pub mod syscall;
