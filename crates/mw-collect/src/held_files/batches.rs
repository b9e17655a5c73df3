//! Reads many processes on a helper thread that can be abandoned.

use mw_sys::HelperThread;
use std::time::Duration;

/// Time limit of one process: a file with 100 GiB in the page cache takes this long.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// Processes between two checks of the time.
const BATCH: usize = 16;

/// The most processes that are read.
const MAX_PROCESSES: usize = 4096;

/// Has the helper read processes until it is late; whether all were read completely.
pub(super) fn read_all<Q: Clone + Send + 'static>(
    helper: &mut HelperThread<Q, bool>,
    requests: &[(u32, Q)],
    is_late: impl Fn() -> bool,
) -> bool {
    let mut complete = requests.len() <= MAX_PROCESSES;
    for batch in requests.get(..MAX_PROCESSES).unwrap_or(requests).chunks(BATCH) {
        if is_late() {
            return false;
        }
        complete &= helper.run(batch).into_iter().all(|read| read == Some(true));
    }
    complete
}
