//! Files whose names other users may choose or replace: logs, files below /tmp or a home directory, directories of
//! services, files that a command line names.
//!
//! A path is resolved one name at a time by descriptors (`walk`), so that nothing can be exchanged between a check
//! and the use. Only symbolic links are followed that no other user can have put there, whatever the settings
//! fs.protected_* are; a file to be read may also be reached through a link of its own owner, who could read it
//! anyway.
//!
//! - `walk`: where a path leads
//! - `input`: opens files for reading; what is no regular file is refused without being opened
//! - `reader`: reads a file within limits of bytes and seconds, also where its file system does not respond
//! - `output`: writes a file that appears under its name once it is complete

mod input;
mod output;
mod reader;
mod walk;

pub use input::{names, open, open_dir, open_input, read, read_to_string};
pub use output::{
    FilePlace, NewFile, OutputTarget, create_dirs, entry, output, place, replace, sync_dir,
};
pub use reader::{FileReader, ReadLimits, read_tail};
pub use walk::UntrustedName;
