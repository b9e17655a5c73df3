//! The kernel's switches for the sizes of folios, of which each is one for the whole machine.

use crate::PageSize;

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Whether memory that is advised to have transparent huge pages may consist of a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchState {
    On,
    /// With the value of the size's own file.
    Off(String),
    /// With the value of the file for all sizes, which overrides the others.
    AllOff(String),
    /// On a kernel without such folios.
    Absent,
}

/// The switch of a size for shared or private memory.
#[must_use]
pub fn folio_switch_file(bytes: u64, shared: bool) -> String {
    format!("{THP}/hugepages-{}kB/{}", bytes >> 10, file(shared))
}

/// The switch of all sizes.
#[must_use]
pub fn thp_switch_file(shared: bool) -> String {
    format!("{THP}/{}", file(shared))
}

const fn file(shared: bool) -> &'static str {
    if shared { "shmem_enabled" } else { "enabled" }
}

/// True if the switch of all sizes allows them.
#[must_use]
pub fn thp_is_enabled(all: &str) -> bool {
    !matches!(all, "never" | "deny")
}

/// The state of a size by the values of its own file and of the one for all sizes. `inherit` takes that of all
/// sizes; for shared memory `deny` overrides every size, and `force` leaves those that inherit it
/// (mm/shmem.c, shmem_allowable_huge_orders).
#[must_use]
pub fn folio_switch(own: Option<&str>, all: Option<&str>, shared: bool) -> SwitchState {
    let Some(own) = own else { return SwitchState::Absent };
    let overrides = |all: &&str| shared && (*all == "deny" || *all == "force" && own != "inherit");
    if let Some(all) = all.filter(overrides) {
        return SwitchState::AllOff(all.to_owned());
    }
    match own {
        "never" => SwitchState::Off(own.to_owned()),
        "inherit" if !all.is_some_and(thp_is_enabled) => SwitchState::Off(own.to_owned()),
        _ => SwitchState::On,
    }
}

/// The same for the size of a huge page, which had no file of its own before Linux 6.8.
#[must_use]
pub fn thp_is_allowed(own: Option<&str>, all: Option<&str>, shared: bool) -> bool {
    match folio_switch(own, all, shared) {
        SwitchState::Absent => all.is_some_and(thp_is_enabled),
        state => state == SwitchState::On,
    }
}

impl SwitchState {
    /// The missing switch or feature, and the remedy.
    #[must_use]
    pub fn why_not(&self, bytes: u64, shared: bool) -> Option<String> {
        let own = folio_switch_file(bytes, shared);
        let value = if shared { "advise" } else { "madvise" };
        match self {
            Self::On => None,
            Self::Off(selected) if PageSize::FOLIO_BYTES.contains(&bytes) => Some(format!(
                "{own} is {selected} (write {value} to it, or use memwright fix --profile large-folios)"
            )),
            Self::Off(selected) => Some(format!("{own} is {selected} (write {value} to it)")),
            Self::AllOff(selected) => Some(format!(
                "{} is {selected}, which overrides the switches of single sizes (write advise to it)",
                thp_switch_file(shared)
            )),
            Self::Absent => {
                let since = if shared { "6.11" } else { "6.8" };
                Some(format!("this kernel has no {own} (needs Linux {since})"))
            }
        }
    }
}

/// The reason that of several sizes that are allowed only the largest can be requested: the kernel tries it first. For private
/// memory before guard pages (6.13).
pub const WHY_ONLY_THE_LARGEST: &str = "larger ones are enabled as well, which the kernel tries first (set their files in \
     /sys/kernel/mm/transparent_hugepage/hugepages-*kB to never, or use Linux 6.13)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_may_inherit_and_shared_memory_may_be_overridden() {
        let is_on =
            |own, all, shared| folio_switch(Some(own), Some(all), shared) == SwitchState::On;
        for (own, all, private) in [
            ("madvise", "never", true),
            ("always", "never", true),
            ("inherit", "madvise", true),
            ("inherit", "never", false),
            ("never", "always", false),
        ] {
            assert_eq!(is_on(own, all, false), private, "{own} {all}");
        }
        for (own, all, shared) in [
            ("advise", "never", true),
            ("within_size", "never", true),
            ("advise", "deny", false),
            ("advise", "force", false),
            ("inherit", "force", true),
            ("inherit", "advise", true),
            ("inherit", "never", false),
        ] {
            assert_eq!(is_on(own, all, true), shared, "{own} {all}");
        }
        assert_eq!(folio_switch(None, Some("always"), false), SwitchState::Absent);
    }

    #[test]
    fn huge_pages_had_no_switch_of_their_own() {
        assert!(thp_is_allowed(None, Some("madvise"), false));
        assert!(!thp_is_allowed(None, Some("never"), false));
        assert!(!thp_is_allowed(None, None, false));
        assert!(!thp_is_allowed(Some("never"), Some("always"), false));
    }

    #[test]
    fn what_is_missing_names_the_file_that_decides() {
        let why = |own, all, shared| folio_switch(own, all, shared).why_not(64 << 10, shared);
        assert_eq!(why(Some("madvise"), None, false), None);
        let text = why(Some("never"), None, false).unwrap();
        assert!(text.contains("hugepages-64kB/enabled is never (write madvise"), "{text}");
        let text = why(Some("advise"), Some("deny"), true).unwrap();
        assert!(text.contains("transparent_hugepage/shmem_enabled is deny, which"), "{text}");
        let text = why(None, None, true).unwrap();
        assert!(text.ends_with("(needs Linux 6.11)"), "{text}");
    }
}
