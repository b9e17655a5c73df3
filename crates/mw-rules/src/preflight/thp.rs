//! Whether transparent huge pages are to be had.

use super::Notes;
use mw_model::{Request, Snapshot, derived, zones};

/// How much of the request does not come on huge pages from free blocks: all of it where they are
/// off, and what lacks blocks where a fault compacts for them.
pub(super) fn look(snapshot: &Snapshot, request: &Request, notes: &mut Notes) -> u64 {
    let thp = match snapshot.thp.need() {
        Ok(thp) => thp,
        Err(missing) => {
            notes.unseen(&missing);
            return 0;
        }
    };
    if !matches!(thp.enabled.selected(), Some("always" | "madvise")) {
        let lift = "write madvise to /sys/kernel/mm/transparent_hugepage/enabled; until then the \
                    memory comes on base pages";
        notes.obstacle(
            false,
            "transparent huge pages are off",
            Some(request.size_bytes),
            Some(0),
            lift,
        );
        return request.size_bytes;
    }
    let order = derived::order_of(derived::huge_page_bytes(snapshot), snapshot.origin.page_bytes);
    let asked = |node: u32| request.node.is_none_or(|asked| asked == node);
    let had = match zones::free_in_blocks_bytes(snapshot, order, asked) {
        Ok(bytes) => bytes,
        Err(missing) => {
            notes.unseen(&missing);
            return 0;
        }
    };
    let lacking = request.size_bytes.saturating_sub(had);
    if lacking > 0 {
        let defrag = thp.defrag.selected().unwrap_or("unknown");
        let lift = match defrag {
            "always" | "madvise" | "defer+madvise" => {
                "compact first: write 1 to /proc/sys/vm/compact_memory; or write defer to \
                 /sys/kernel/mm/transparent_hugepage/defrag, and the rest comes on base pages"
            }
            _ => {
                "compact first: write 1 to /proc/sys/vm/compact_memory; until then the rest \
                  comes on base pages"
            }
        };
        let what = format!("free blocks for transparent huge pages (defrag is {defrag})");
        notes.obstacle(false, what, Some(request.size_bytes), Some(had), lift);
    }
    lacking
}
