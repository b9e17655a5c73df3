//! Descriptors that outlive the server: the service manager keeps them (sd_notify(3), `FDSTORE`).
//!
//! | name | descriptor |
//! |---|---|
//! | `book` | the state file |
//! | `stripe-N` | a stripe's memory |
//! | `lease-N` | the server's end of a lease's socket |
//!
//! The manager is told to keep a lease's socket when its other end is closed (`FDPOLL=0`, since systemd 246): the
//! lease may linger (reclaimer.rs), and a message may wait in the socket. The server removes it when the lease ends.

use crate::lease_table::{LeaseId, StripeId};
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The name of a descriptor in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoredName {
    /// Called `book` since version 0.1.
    StateFile,
    Stripe(StripeId),
    Lease(LeaseId),
}

impl StoredName {
    fn name(self) -> String {
        match self {
            Self::StateFile => "book".to_owned(),
            Self::Stripe(id) => format!("stripe-{id}"),
            Self::Lease(id) => format!("lease-{id}"),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name.split_once('-') {
            None if name == "book" => Some(Self::StateFile),
            Some(("stripe", id)) => id.parse().ok().map(Self::Stripe),
            Some(("lease", id)) => id.parse().ok().map(Self::Lease),
            _ => None,
        }
    }
}

/// The service manager's store of descriptors; without a service manager it keeps nothing.
#[derive(Debug)]
pub(crate) struct DescriptorStore {
    has_manager: bool,
}

impl DescriptorStore {
    /// The store, and the descriptors that an earlier server left in it.
    pub(crate) fn open() -> (Self, BTreeMap<StoredName, OwnedFd>) {
        let known = |(name, fd): (String, OwnedFd)| Some((StoredName::parse(&name)?, fd));
        let stored = mw_sys::passed_descriptors().into_iter().filter_map(known).collect();
        (Self { has_manager: std::env::var_os("NOTIFY_SOCKET").is_some() }, stored)
    }

    pub(crate) fn has_manager(&self) -> bool {
        self.has_manager
    }

    pub(crate) fn keep(&self, name: StoredName, fd: BorrowedFd<'_>) -> io::Result<()> {
        if !self.has_manager {
            return Ok(());
        }
        let name = name.name();
        let state =
            [NotifyState::FdStore, NotifyState::FdName(&name), NotifyState::Custom("FDPOLL=0")];
        sd_notify::notify_with_fds(&state, &[fd])
    }

    pub(crate) fn remove(&self, name: StoredName) -> io::Result<()> {
        if !self.has_manager {
            return Ok(());
        }
        let name = name.name();
        sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&name)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_round_trip() {
        for stored in [StoredName::StateFile, StoredName::Stripe(7), StoredName::Lease(u64::MAX)] {
            assert_eq!(StoredName::parse(&stored.name()), Some(stored));
        }
        for other in ["", "stripe", "stripe-", "stripe-x", "stored", "lease--1"] {
            assert_eq!(StoredName::parse(other), None);
        }
    }
}
