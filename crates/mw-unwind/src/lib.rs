//! User stacks: from addresses, registers and a copy of the stack to names of functions.
//!
//! ```text
//! UserStack ─ frames (.eh_frame, else frame pointers) ─ addresses ─┬─ files ─ symbols (.symtab, .dynsym, .gnu_debugdata), .gopclntab, DWARF
//!                │                                                 └─ perf-PID.map of run-times
//!                └─ code: mappings of the process, while it lives from /proc, afterwards as they were traced
//! ```
//!
//! - **Afterwards, and on a thread that can be abandoned.** A file may lie on a file system that does not respond.
//! - **Files of programs are hostile.** They are never mapped: whoever truncates one would end this process. Sections
//!   are read by offset within limits of bytes; names are cut.
//! - **Names of functions alone.** The copy of a stack is data of a program: it is unwound and forgotten.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod code;
mod demangle;
mod elf;
mod frames;
mod go;
mod inlined;
mod jit;
mod naming;
mod program;

pub use code::mapped_code;
pub use naming::{NamingLimits, name_functions};
