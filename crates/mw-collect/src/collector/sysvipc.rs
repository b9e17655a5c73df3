//! How many System V semaphores and message queues there are. A running kernel has the numbers at hand; the lists of
//! /proc/sysvipc have a line for each, 32,000 by default, and any user can create as many.

use crate::source::Source;
use mw_model::{Missing, OriginKind, Reading};
use mw_proc::sysvipc_sem::Semaphores;
use mw_proc::{sysvipc_msg, sysvipc_sem};
use mw_sys::SysvCounts;

/// The lists, which a captured tree has.
pub(crate) const SEMAPHORES: &str = "/proc/sysvipc/sem";
pub(crate) const MESSAGE_QUEUES: &str = "/proc/sysvipc/msg";

/// The semaphores and the number of message queues.
pub(crate) fn collect(source: &Source) -> (Reading<Semaphores>, Reading<u64>) {
    if source.kind() == OriginKind::Tree {
        let semaphores = source.reading(SEMAPHORES, sysvipc_sem::parse);
        return (semaphores, source.reading(MESSAGE_QUEUES, sysvipc_msg::parse_count));
    }
    let (semaphores, queues) = match SysvCounts::count().map_err(|error| error.to_string()) {
        Ok(SysvCounts { semaphore_sets: sets, semaphores, message_queues }) => {
            (Ok(Semaphores { sets, semaphores }), Ok(message_queues))
        }
        Err(why) => (
            Err(Missing::failed(SEMAPHORES, why.clone())),
            Err(Missing::failed(MESSAGE_QUEUES, why)),
        ),
    };
    (semaphores.into(), queues.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_counts_of_its_lists() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/sysvipc")).unwrap();
        let write = |path: &str, text| {
            std::fs::write(root.path().join(path.trim_start_matches('/')), text).unwrap();
        };
        write(SEMAPHORES, "key semid perms nsems\n0 0 600 17\n0 1 600 4\n");
        write(MESSAGE_QUEUES, "key msqid\n0 7\n");
        let (semaphores, queues) = collect(&Source::tree(root.path()).unwrap());
        assert_eq!(semaphores.value(), Some(&Semaphores { sets: 2, semaphores: 21 }));
        assert_eq!(queues.value(), Some(&1));
    }

    #[test]
    fn the_running_kernel_counts_what_it_lists() {
        let (semaphores, queues) = collect(&Source::live().unwrap());
        let listed = |path| std::fs::read_to_string(path).unwrap().lines().count() as u64 - 1;
        // Others make and remove some meanwhile.
        assert!(semaphores.value().unwrap().sets.abs_diff(listed(SEMAPHORES)) < 10);
        assert!(queues.value().unwrap().abs_diff(listed(MESSAGE_QUEUES)) < 10);
    }
}
