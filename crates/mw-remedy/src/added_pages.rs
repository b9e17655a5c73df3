//! Changes that add pages to a pool of huge pages. Several programs may add some, one after another, and each takes
//! its own away when it ends, whatever the order.

use crate::history::{Change, History};
use crate::kernel::setting_of;
use std::borrow::Cow;

impl Change {
    /// The pages before and after it, where it added some.
    fn added(&self) -> Option<(u64, u64)> {
        let before = setting_of(self.before.as_deref()?).parse().ok()?;
        let after = self.value.parse().ok()?;
        let is_pool = self.path.ends_with("/nr_hugepages");
        (is_pool && self.persist.is_none() && before < after).then_some((before, after))
    }

    fn set_pages(&mut self, before: u64, after: u64) {
        self.before = Some(before.to_string().into_bytes());
        self.value = after.to_string();
    }
}

impl History {
    /// The change as if it were the last one: pages that were added later stay. Otherwise the newer
    /// changes that have to be reverted first.
    pub(crate) fn as_newest<'a>(&self, change: &'a Change) -> Result<Cow<'a, Change>, Vec<u64>> {
        let newer: Vec<&Change> =
            self.changes.iter().filter(|newer| newer.lies_on(change)).collect();
        let (Some(first), Some(last)) = (newer.first(), newer.last()) else {
            return Ok(Cow::Borrowed(change));
        };
        let only_add =
            newer.iter().all(|newer| newer.path == change.path && newer.added().is_some());
        let ends = (change.added(), first.added(), last.added());
        let (Some((before, _)), Some((own_end, _)), Some((_, end)), true) =
            (ends.0, ends.1, ends.2, only_add)
        else {
            return Err(newer.iter().map(|newer| newer.id).collect());
        };
        let mut moved = change.clone();
        // It may have been killed before it had all of its pages.
        moved.set_pages((before + end).saturating_sub(own_end), end);
        Ok(Cow::Owned(moved))
    }

    /// Lowers what newer changes found and set by the pages of this one, which are gone.
    pub(crate) fn take_pages_away(&mut self, id: u64) {
        let Some(change) = self.change(id).filter(|change| change.added().is_some()).cloned()
        else {
            return;
        };
        let mut newer = self.changes.iter_mut().filter(|newer| newer.lies_on(&change)).peekable();
        let own = change.added().zip(newer.peek().and_then(|first| first.added()));
        let Some(((before, _), (own_end, _))) = own else { return };
        let share = own_end.saturating_sub(before);
        for newer in newer {
            if let Some((before, after)) = newer.added() {
                newer.set_pages(before.saturating_sub(share), after.saturating_sub(share));
            }
        }
    }
}
