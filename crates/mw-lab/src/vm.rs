//! Virtual machines: what goes into a guest, how it is booted, and what it sends back.

pub mod accel;
pub(crate) mod arguments;
pub mod frames;
pub mod guest;
pub mod host;
pub(crate) mod initramfs;
pub mod kernel;
pub mod kernel_log;
pub mod port;
pub mod qemu;
pub mod trial;
mod vmlinuz;
