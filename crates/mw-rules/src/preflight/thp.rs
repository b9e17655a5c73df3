//! Whether transparent huge pages are available.

use super::notes::Notes;
use mw_model::{Request, Snapshot, derived, zones};

/// Share of the request that no free block of a huge page's size can serve: all of it if transparent
/// huge pages are disabled.
pub(super) fn not_huge_bytes(snapshot: &Snapshot, request: &Request, notes: &mut Notes) -> u64 {
    let thp = match snapshot.thp.required() {
        Ok(thp) => thp,
        Err(missing) => {
            notes.unseen(&missing);
            return 0;
        }
    };
    if !matches!(thp.enabled.selected(), Some("always" | "madvise")) {
        let lift = "write madvise to /sys/kernel/mm/transparent_hugepage/enabled; until then the \
                    memory consists of base pages";
        notes.obstacle(
            false,
            "transparent huge pages are disabled",
            Some(request.size_bytes),
            Some(0),
            lift,
        );
        return request.size_bytes;
    }
    let order = derived::order_of(derived::huge_page_bytes(snapshot), snapshot.origin.page_bytes);
    let is_eligible = |node: u32| request.node.is_none_or(|requested| requested == node);
    let available = match zones::free_in_blocks_bytes(snapshot, order, is_eligible) {
        Ok(bytes) => bytes,
        Err(missing) => {
            notes.unseen(&missing);
            return 0;
        }
    };
    let lacking = request.size_bytes.saturating_sub(available);
    if lacking > 0 {
        let defrag = thp.defrag.selected().unwrap_or("unknown");
        let lift = match defrag {
            "always" | "madvise" | "defer+madvise" => {
                "compact first: write 1 to /proc/sys/vm/compact_memory; or write defer to \
                 /sys/kernel/mm/transparent_hugepage/defrag, to get base pages for the rest"
            }
            _ => {
                "compact first: write 1 to /proc/sys/vm/compact_memory; until then the rest \
                  consists of base pages"
            }
        };
        let what = format!("free blocks for transparent huge pages (defrag is {defrag})");
        notes.obstacle(false, what, Some(request.size_bytes), Some(available), lift);
    }
    lacking
}
