//! Folios below a huge page: which sizes the kernel's switches allow, and how much of each is free.

use crate::{Absence, Missing, Snapshot, Thp, derived, zones};
use mw_memory::{FreeBlocks, PageSize, SwitchState, WHY_ONLY_THE_LARGEST};
use mw_proc::choice::Choice;
use mw_proc::version::KernelVersion;

/// The first kernel with guard pages, without which private memory gets the largest size that is allowed alone.
const GUARD_PAGES: KernelVersion = KernelVersion::new(6, 13, 0);

/// The switches of one kind of memory, private or shared (memfds).
#[derive(Debug, Clone, Copy)]
pub struct FolioSwitches<'a> {
    snapshot: &'a Snapshot,
    thp: Option<&'a Thp>,
    shared: bool,
}

impl<'a> FolioSwitches<'a> {
    /// # Errors
    /// The switches exist, and were not read.
    pub fn new(snapshot: &'a Snapshot, shared: bool) -> Result<Self, Missing> {
        let thp = match snapshot.thp.required() {
            Ok(thp) => Some(thp),
            Err(missing) if missing.absence == Absence::Absent => None,
            Err(missing) => return Err(missing),
        };
        Ok(Self { snapshot, thp, shared })
    }

    /// Whether memory that is advised to have them may consist of folios of this size.
    pub fn state(&self, page_bytes: u64) -> SwitchState {
        let (own, all) = self.selected(page_bytes);
        mw_memory::folio_switch(own, all, self.shared)
    }

    /// The sizes that are allowed, the largest first: that of a huge page as well.
    pub fn allowed(&self) -> Vec<u64> {
        let huge = derived::huge_page_bytes(self.snapshot);
        let (own, all) = self.selected(huge);
        let is_huge_allowed = mw_memory::thp_is_allowed(own, all, self.shared);
        let folios = PageSize::FOLIO_BYTES.into_iter().rev();
        let folios = folios.filter(|bytes| self.state(*bytes) == SwitchState::On);
        is_huge_allowed.then_some(huge).into_iter().chain(folios).collect()
    }

    /// The reason why memory that is created for this size has none; `None` if it may have some.
    pub fn why_none(&self, page_bytes: u64) -> Option<String> {
        let allowed = self.allowed();
        let place = allowed.iter().position(|bytes| *bytes == page_bytes);
        let has_guard_pages =
            self.snapshot.origin.kernel.is_none_or(|kernel| kernel >= GUARD_PAGES);
        match place {
            Some(place) if place > 0 && !self.shared && !has_guard_pages => {
                Some(WHY_ONLY_THE_LARGEST.to_owned())
            }
            Some(_) => None,
            None => match self.state(page_bytes) {
                // A huge page had no file of its own before 6.8.
                SwitchState::Absent if !PageSize::FOLIO_BYTES.contains(&page_bytes) => {
                    let selected = self.selected(page_bytes).1.unwrap_or("absent");
                    Some(format!("{} is {selected}", mw_memory::thp_switch_file(self.shared)))
                }
                state => state.why_not(page_bytes, self.shared),
            },
        }
    }

    /// The values of the size's own file and of the one for all sizes.
    fn selected(&self, page_bytes: u64) -> (Option<&'a str>, Option<&'a str>) {
        let Some(thp) = self.thp else { return (None, None) };
        let size = thp.sizes.iter().find(|size| size.page_bytes == page_bytes);
        let of = |shared: Option<&'a Choice>, private: Option<&'a Choice>| {
            if self.shared { shared } else { private }.and_then(Choice::selected)
        };
        let own =
            of(size.and_then(|size| size.shmem_enabled.as_ref()), size.map(|size| &size.enabled));
        (own, of(thp.shmem_enabled.as_ref(), Some(&thp.enabled)))
    }
}

/// Memory that blocks of at least `page_bytes` provide on the requested nodes, above the watermarks: without reclaim
/// and compaction.
///
/// # Errors
/// buddyinfo or zoneinfo was not seen.
pub fn available_bytes(
    snapshot: &Snapshot,
    page_bytes: u64,
    is_wanted: impl Fn(u32) -> bool,
) -> Result<u64, Missing> {
    let (sample, base) = (&snapshot.sample, snapshot.origin.page_bytes);
    let free = FreeBlocks {
        buddyinfo: sample.buddyinfo.required()?,
        zones: &sample.zoneinfo.required()?.zones,
        deferred: zones::deferred(sample, base),
        page_bytes: base,
    };
    Ok(free.available_bytes(page_bytes, is_wanted))
}
