//! Limits of a process on its own mappings, on System V segments, and what the kernel withholds of the commit limit.

use mw_proc::sysvipc_shm::ShmSegment;

/// Remedies of the limits that are settings of the kernel.
pub const RAISE_COMMIT_LIMIT: &str =
    "raise vm.overcommit_ratio or vm.overcommit_kbytes, add swap, or set vm.overcommit_memory to 0";
pub const RAISE_SHMMAX: &str = "raise kernel.shmmax; it limits only System V segments (shmget)";
pub const RAISE_SHMALL: &str =
    "raise kernel.shmall (in pages); it limits only System V segments (shmget)";

/// A resource limit that concerns memory (getrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceLimit {
    AddressSpace,
    Data,
    Memlock,
}

impl ResourceLimit {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AddressSpace => "RLIMIT_AS",
            Self::Data => "RLIMIT_DATA",
            Self::Memlock => "RLIMIT_MEMLOCK",
        }
    }

    /// Command that raises it: a shell can go up to the hard limit, beyond that only root can.
    #[must_use]
    pub fn remedy(self, is_within_hard_limit: bool) -> String {
        let (shell, unit) = match self {
            Self::AddressSpace => ("ulimit -v", "LimitAS="),
            Self::Data => ("ulimit -d", "LimitDATA="),
            Self::Memlock => ("ulimit -l", "LimitMEMLOCK="),
        };
        let raise = if is_within_hard_limit {
            format!("raise it with {shell}, or with {unit} of the service")
        } else {
            format!(
                "raise the hard limit too, which needs root: {unit} of the service or \
                 /etc/security/limits.d"
            )
        };
        match self {
            Self::Memlock => format!("{raise}, or give the program CAP_IPC_LOCK"),
            Self::AddressSpace | Self::Data => raise,
        }
    }
}

/// Memory that kernel.shmall leaves for another System V segment.
#[must_use]
pub fn shm_left_bytes(shmall_pages: u64, page_bytes: u64, segments: &[ShmSegment]) -> u64 {
    let left = shmall_pages.saturating_mul(page_bytes);
    segments.iter().fold(left, |left, segment| left.saturating_sub(segment.size_bytes))
}

/// What is left below a resource limit of mapped memory: `RLIMIT_AS`, `RLIMIT_DATA`.
#[must_use]
pub fn resource_left_bytes(limit_bytes: u64, used_bytes: u64) -> u64 {
    limit_bytes.saturating_sub(used_bytes)
}

/// The part of `RLIMIT_DATA` that is enforced: of a soft limit of 0 the hard one is (`may_expand_vm`).
#[must_use]
pub fn enforced_data_bytes(soft: Option<u64>, hard: Option<u64>) -> Option<u64> {
    soft.filter(|soft| *soft > 0).or_else(|| soft.and(hard))
}

/// What the kernel keeps of the commit limit (`__vm_enough_memory`): for an administrator, unless the process is one
/// (CAP_SYS_ADMIN), and for the user to end the process with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitReserve {
    /// vm.admin_reserve_kbytes.
    pub admin_kib: u64,
    /// vm.user_reserve_kbytes.
    pub user_kib: u64,
    pub is_admin: bool,
    /// Mapped memory of the process.
    pub mapped_bytes: u64,
}

impl CommitReserve {
    #[must_use]
    pub fn bytes(&self) -> u64 {
        /// `mm->total_vm / 32`.
        const OF_MAPPED: u64 = 32;
        let admin = if self.is_admin { 0 } else { self.admin_kib.saturating_mul(1024) };
        let user = self.user_kib.saturating_mul(1024).min(self.mapped_bytes / OF_MAPPED);
        admin.saturating_add(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soft_limit_of_nothing_is_the_hard_one() {
        assert_eq!(enforced_data_bytes(Some(5), Some(9)), Some(5));
        assert_eq!(enforced_data_bytes(Some(0), Some(9)), Some(9));
        assert_eq!(enforced_data_bytes(Some(0), None), None);
        assert_eq!(enforced_data_bytes(None, Some(9)), None);
        assert_eq!(resource_left_bytes(5, 9), 0);
    }

    #[test]
    fn the_administrator_gets_what_is_kept_for_it() {
        let reserve = CommitReserve {
            admin_kib: 8192,
            user_kib: 131_072,
            is_admin: false,
            mapped_bytes: 320,
        };
        assert_eq!(reserve.bytes(), (8192 << 10) + 10);
        assert_eq!(CommitReserve { is_admin: true, ..reserve }.bytes(), 10);
        let large = CommitReserve { mapped_bytes: u64::MAX, is_admin: true, ..reserve };
        assert_eq!(large.bytes(), 131_072 << 10);
    }
}
