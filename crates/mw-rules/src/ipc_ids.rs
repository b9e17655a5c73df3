//! Identifiers of System V objects, which limit how far their numbers can be raised.

use mw_model::Step;

/// Objects of a kind that have an identifier (ipc/util.h, `IPCMNI`).
const IDENTIFIERS: u64 = 1 << 15;

/// Objects that have one with the boot parameter of Linux 5.2 (`IPCMNI_EXTEND`).
const MORE_IDENTIFIERS: u64 = 1 << 24;

/// Twice a limit of objects, as far as they can have identifiers: the kernel refuses a larger limit. None where only
/// [`extending`] helps.
pub(crate) fn raised(limit: u64) -> Option<u64> {
    let most = if limit <= IDENTIFIERS { IDENTIFIERS } else { MORE_IDENTIFIERS };
    Some(limit.saturating_mul(2).min(most)).filter(|raised| *raised > limit)
}

/// The boot parameter that allows more than [`raised`].
pub(crate) fn extending() -> Step {
    Step::BootParameter { parameter: "ipcmni_extend".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_to_what_has_identifiers() {
        assert_eq!(raised(128), Some(256));
        assert_eq!(raised(32_000), Some(32_768));
        assert_eq!(raised(32_768), None);
        assert_eq!(raised(40_000), Some(80_000), "the parameter is in force");
        assert_eq!(raised(1 << 24), None);
    }
}
