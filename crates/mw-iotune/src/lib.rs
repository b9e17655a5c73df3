//! Discovered direct I/O, as `memwright iotune` sets it and libmemwright_preload.so obeys it: the
//! table of settings per path, and the page by which a running program is notified of a change and reports
//! what it did.
//!
//! The two are different programs, of different versions perhaps, and share nothing but these two
//! forms. Reading the table allocates nothing: that is done inside write(2) of any program.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod control;
pub mod environment;
mod table;

pub use control::{
    Control, ControlSnapshot, FLOOR_OFFSET, MAGIC, OFF, PAGE_BYTES, READ_AGAIN, READING, SLOTS,
    SeenSlot, Slot,
};
pub use table::{
    LineSetting, SIZE_MIN_BYTES, TABLE_MAX_BYTES, TableLine, escape, find, key, lines, setting,
    unescaped,
};

/// The table that is in force where it is there: it goes with the next reboot.
pub const LIVE: &str = "/run/memwright/iotunetab";

/// The table that is in force where the other is not there, as after a boot.
pub const SAVED: &str = "/etc/memwright/iotunetab";

/// True if a table or its directory, with this owner and mode, counts for a user: nobody but root and
/// that user can have written it.
pub const fn is_trusted(owner: u32, mode: u32, user: u32) -> bool {
    (owner == 0 || owner == user) && mode & 0o022 == 0
}
