//! Reports when the kernel has freed a file that was given up while it may have been in use.
//!
//! A watch of the inode reports it (inotify(7), `IN_DELETE_SELF`): a memfd has no name, so the event
//! comes when its last descriptor and mapping are gone, `O_PATH` descriptors included. The watch
//! itself keeps no memory.

use crate::lease_table::StripeId;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub(crate) struct FreedWatch {
    events: OwnedFd,
    stripes: BTreeMap<i32, StripeId>,
}

impl FreedWatch {
    pub(crate) fn new() -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { events, stripes: BTreeMap::new() })
    }

    /// Watches a stripe's file, which is still open here.
    pub(crate) fn add(&mut self, stripe: StripeId, file: BorrowedFd<'_>) -> io::Result<()> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let watch = inotify::add_watch(&self.events, path.as_str(), WatchFlags::DELETE_SELF)?;
        self.stripes.insert(watch, stripe);
        Ok(())
    }

    /// The stripes that were freed since the last call.
    pub(crate) fn freed(&mut self) -> Vec<StripeId> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.events, &mut space);
        let mut freed = Vec::new();
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::DELETE_SELF) {
                freed.extend(self.stripes.remove(&event.wd()));
            }
        }
        freed
    }
}

impl AsFd for FreedWatch {
    /// Readable when a file was freed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}
