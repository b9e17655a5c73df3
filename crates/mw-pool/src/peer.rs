//! The process at the other end of a connection, according to the kernel, and what it may do.

use crate::spec::{Owners, PoolSpec};
use std::io;
use std::os::fd::AsFd;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientPeer {
    pub(crate) user: u32,
    /// 0 if it has no number in this process's PID namespace.
    pub(crate) process: u32,
    pub(crate) groups: Vec<u32>,
    /// True if it is root or the user who runs the server.
    pub(crate) admin: bool,
}

impl ClientPeer {
    pub(crate) fn from_socket(socket: &impl AsFd) -> io::Result<Self> {
        let peer = mw_sys::peer_credentials(socket.as_fd())?;
        // With too many groups, its primary group alone counts.
        let mut groups = mw_sys::peer_groups(socket.as_fd()).unwrap_or_default();
        groups.push(peer.group);
        let admin = peer.user == 0 || peer.user == rustix::process::geteuid().as_raw();
        let process = peer.process.unwrap_or(0);
        Ok(Self { user: peer.user, process, groups, admin })
    }

    /// True if it may use a pool.
    pub(crate) fn may_use(&self, spec: &PoolSpec) -> bool {
        let Owners { users, groups } = &spec.owners;
        self.admin
            || users.contains(&self.user)
            || groups.iter().any(|group| self.groups.contains(group))
    }
}
