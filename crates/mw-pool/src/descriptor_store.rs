//! Descriptors that outlive the server: the service manager keeps them (sd_notify(3), `FDSTORE`).
//!
//! | name | what |
//! |---|---|
//! | `book` | the image of the book |
//! | `stripe-N` | a stripe's memory |
//! | `lease-N` | the server's end of a lease's descriptor |
//!
//! The manager drops a lease's descriptor by itself when nobody has the other end; the next server
//! takes that for the lease's end, which it is.

use crate::lease_table::{LeaseId, StripeId};
use sd_notify::NotifyState;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The name of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoredName {
    Book,
    Stripe(StripeId),
    Lease(LeaseId),
}

impl StoredName {
    fn name(self) -> String {
        match self {
            Self::Book => "book".to_owned(),
            Self::Stripe(id) => format!("stripe-{id}"),
            Self::Lease(id) => format!("lease-{id}"),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name.split_once('-') {
            None if name == "book" => Some(Self::Book),
            Some(("stripe", id)) => id.parse().ok().map(Self::Stripe),
            Some(("lease", id)) => id.parse().ok().map(Self::Lease),
            _ => None,
        }
    }
}

/// Whether there is a service manager.
pub(crate) fn is_there() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// What an earlier server left with the service manager.
pub(crate) fn left() -> BTreeMap<StoredName, OwnedFd> {
    let known = |(name, fd): (String, OwnedFd)| Some((StoredName::parse(&name)?, fd));
    mw_sys::passed_descriptors().into_iter().filter_map(known).collect()
}

/// Has the service manager keep a descriptor.
pub(crate) fn keep(kept: StoredName, fd: BorrowedFd<'_>) -> io::Result<()> {
    if !is_there() {
        return Ok(());
    }
    let name = kept.name();
    sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::FdName(&name)], &[fd])
}

/// Has the service manager close one.
pub(crate) fn forget(kept: StoredName) -> io::Result<()> {
    if !is_there() {
        return Ok(());
    }
    let name = kept.name();
    sd_notify::notify(&[NotifyState::FdStoreRemove, NotifyState::FdName(&name)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for kept in [StoredName::Book, StoredName::Stripe(7), StoredName::Lease(u64::MAX)] {
            assert_eq!(StoredName::parse(&kept.name()), Some(kept));
        }
        for other in ["", "stripe", "stripe-", "stripe-x", "stored", "lease--1"] {
            assert_eq!(StoredName::parse(other), None);
        }
    }
}
