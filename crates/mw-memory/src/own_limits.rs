//! Limits of a process on its own mappings, and what the kernel withholds of the commit limit.

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
