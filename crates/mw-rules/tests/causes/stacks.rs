//! Stalls that the stacks of tasks explain, each with similar stacks of other mechanisms.

use crate::made::Made;
use crate::stalls::{HEALTHY, Stall};
use crate::{asked, paths};
use mw_critical_path::{
    CpuHolder, KernelWork, RunMode, TimeKind, UserPlace, Wait, WaitLink, wait_of,
};
use mw_rules::PLAUSIBLE_PERCENT;

const POSTGRES: (u32, &str) = (812, "postgres");

/// Stacks of a mechanism, innermost function first.
struct StackStall {
    rule: &'static str,
    /// Kind of the part of a critical path whose stack does not tell one.
    kind: TimeKind,
    /// Stacks of tasks that wait or work because of it.
    stacks: &'static [&'static [&'static str]],
    /// Similar stacks of other mechanisms.
    others: &'static [&'static [&'static str]],
}

const LOCKED: TimeKind = TimeKind::Waiting(Wait::Semaphore);

const SPINS: TimeKind = TimeKind::Running(RunMode::Kernel(KernelWork::LockContention));

const STALLS: &[StackStall] = &[
    StackStall {
        rule: "cgroup-migration",
        kind: LOCKED,
        stacks: &[
            &["percpu_rwsem_wait", "cgroup_can_fork", "copy_process", "kernel_clone"],
            &["percpu_rwsem_wait", "__percpu_down_read", "exit_signals", "do_exit"],
            &["percpu_rwsem_wait", "begin_new_exec", "load_elf_binary", "bprm_execve"],
            &["percpu_down_write", "cgroup_procs_write_start", "__cgroup_procs_write"],
        ],
        others: &[
            &["percpu_rwsem_wait", "__percpu_down_read", "vfs_write", "ksys_write"],
            &["begin_new_exec", "load_elf_binary", "bprm_execve"],
            &["__mutex_lock", "cgroup_kn_lock_live", "__cgroup_procs_write"],
            &["rwsem_down_write_slowpath", "dup_mmap", "copy_process", "kernel_clone"],
        ],
    },
    StackStall {
        rule: "cgroup-statistics",
        kind: SPINS,
        stacks: &[
            &["native_queued_spin_lock_slowpath", "cgroup_rstat_flush", "memory_stat_show"],
            &["mem_cgroup_css_rstat_flush", "css_rstat_flush", "mem_cgroup_flush_stats"],
        ],
        others: &[
            &["native_queued_spin_lock_slowpath", "folio_lruvec_lock_irq", "lru_add_drain_cpu"],
            &["seq_printf", "memory_stat_format", "memory_stat_show", "seq_read_iter"],
        ],
    },
    StackStall {
        rule: "frozen-filesystem",
        kind: LOCKED,
        stacks: &[
            &["percpu_rwsem_wait", "__percpu_down_read", "vfs_write", "__x64_sys_pwrite64"],
            &["percpu_rwsem_wait", "mnt_want_write", "path_openat", "do_filp_open"],
            &["percpu_rwsem_wait", "ext4_page_mkwrite", "do_page_mkwrite", "do_wp_page"],
        ],
        others: &[
            &["percpu_rwsem_wait", "__percpu_down_read", "cgroup_can_fork", "copy_process"],
            &["rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter", "vfs_write"],
            &["io_schedule", "folio_wait_bit_common", "vfs_write", "ksys_write"],
        ],
    },
    StackStall {
        rule: "device-memory-fault",
        kind: TimeKind::Waiting(Wait::Migration),
        stacks: &[
            &["svm_migrate_to_ram", "do_swap_page", "__handle_mm_fault", "handle_mm_fault"],
            &[
                "dma_fence_wait_timeout",
                "svm_migrate_vma_to_ram",
                "svm_migrate_to_ram",
                "do_swap_page",
            ],
        ],
        others: &[
            &["folio_wait_bit_common", "migration_entry_wait_on_locked", "do_swap_page"],
            &["swap_read_folio", "swapin_readahead", "do_swap_page", "handle_mm_fault"],
        ],
    },
    StackStall {
        rule: "file-mapping-lock",
        kind: LOCKED,
        stacks: &[
            &["unlink_file_vma_batch_process", "free_pgtables", "exit_mmap", "mmput"],
            &["rwsem_down_write_slowpath", "down_write", "unlink_file_vma", "free_pgtables"],
            &[
                "rwsem_down_read_slowpath",
                "rmap_walk_file",
                "folio_referenced",
                "shrink_folio_list",
            ],
        ],
        others: &[
            &["rwsem_down_write_slowpath", "dup_mmap", "copy_process"],
            &["rwsem_down_write_slowpath", "down_write", "__vm_munmap", "unlink_file_vma"],
        ],
    },
    StackStall {
        rule: "ksm-scan",
        kind: TimeKind::Running(RunMode::Kernel(KernelWork::PageFault)),
        stacks: &[&["handle_mm_fault", "break_ksm", "unmerge_ksm_pages", "ksm_madvise"]],
        others: &[&["wp_page_copy", "do_wp_page", "handle_mm_fault", "exc_page_fault"]],
    },
    StackStall {
        rule: "mempool-wait",
        kind: TimeKind::Waiting(Wait::DirectReclaim),
        stacks: &[
            &[
                "schedule_timeout",
                "io_schedule_timeout",
                "mempool_alloc_noprof",
                "bio_alloc_bioset",
            ],
            &["mempool_alloc", "bio_alloc_bioset", "crypt_alloc_buffer", "kcryptd_crypt"],
            &["mempool_alloc_from_pool", "mempool_alloc_noprof", "bio_alloc_bioset"],
        ],
        others: &[
            &["shrink_node", "try_to_free_pages", "mempool_alloc_slab", "mempool_alloc_noprof"],
            &["blk_mq_get_tag", "blk_mq_submit_bio", "submit_bio_noacct"],
        ],
    },
    StackStall {
        rule: "page-cache-compaction",
        kind: TimeKind::Waiting(Wait::Compaction),
        stacks: &[
            &["compact_zone", "try_to_compact_pages", "filemap_alloc_folio", "__filemap_get_folio"],
            &["isolate_migratepages_block", "try_to_compact_pages", "page_cache_ra_order"],
        ],
        others: &[
            &["compact_zone", "try_to_compact_pages", "do_huge_pmd_anonymous_page"],
            &["shrink_node", "try_to_free_pages", "filemap_alloc_folio", "__filemap_get_folio"],
            &["folio_wait_bit_common", "filemap_read", "page_cache_ra_order"],
        ],
    },
    StackStall {
        rule: "page-list-drain",
        kind: TimeKind::Waiting(Wait::Worker),
        stacks: &[
            &["__flush_work", "__lru_add_drain_all", "sysctl_compaction_handler", "vfs_write"],
            &["wait_for_completion", "__flush_work", "lru_add_drain_all", "generic_fadvise"],
        ],
        others: &[
            &["__flush_work", "drain_all_pages", "__alloc_pages_slowpath"],
            &["__mutex_lock", "__lru_add_drain_all", "generic_fadvise"],
        ],
    },
    StackStall {
        rule: "range-migration",
        kind: TimeKind::Waiting(Wait::Migration),
        stacks: &[
            &["migrate_pages", "__alloc_contig_migrate_range", "alloc_contig_range_noprof"],
            &["migrate_pages", "do_migrate_range", "offline_pages", "memory_subsys_offline"],
        ],
        others: &[
            &["migration_entry_wait_on_locked", "do_swap_page", "handle_mm_fault"],
            &["migrate_pages", "compact_zone", "try_to_compact_pages"],
        ],
    },
    StackStall {
        rule: "shrinker-lock",
        kind: LOCKED,
        stacks: &[
            &["unregister_shrinker", "deactivate_locked_super", "cleanup_mnt", "task_work_run"],
            &["rwsem_down_write_slowpath", "register_shrinker_prepared", "sget", "mount_bdev"],
        ],
        others: &[
            &["rwsem_down_write_slowpath", "deactivate_super", "cleanup_mnt"],
            &["__mutex_lock", "shrinker_free", "deactivate_locked_super", "cleanup_mnt"],
            &["do_shrink_slab", "shrink_slab", "shrink_node", "balance_pgdat"],
        ],
    },
    StackStall {
        rule: "sync-of-all",
        kind: TimeKind::Waiting(Wait::FileWrite),
        stacks: &[
            &["wb_wait_for_completion", "sync_inodes_sb", "iterate_supers", "ksys_sync"],
            &["folio_wait_writeback", "sync_inodes_one_sb", "iterate_supers", "ksys_sync"],
            &["jbd2_log_wait_commit", "ext4_sync_fs", "sync_fs_one_sb", "iterate_supers"],
        ],
        others: &[
            &["wb_wait_for_completion", "sync_inodes_sb", "sync_filesystem", "__do_sys_syncfs"],
            &["wb_wait_for_completion", "sync_inodes_sb", "generic_shutdown_super", "cleanup_mnt"],
            &["folio_wait_writeback", "file_write_and_wait_range", "ext4_sync_file", "do_fsync"],
            &["folio_wait_writeback", "__do_sys_sync_file_range", "ksys_sync_file_range"],
        ],
    },
];

/// A task that was found blocked with a stack; nothing was traced.
fn blocked(stack: &[&str]) -> Made {
    Made::on(HEALTHY).blocked(POSTGRES, 'D', 8, stack)
}

/// A request of which a task spent most with a stack, waiting or working.
fn on_path(stack: &[&str], kind: TimeKind) -> Made {
    let names: Vec<String> = stack.iter().map(|function| (*function).to_owned()).collect();
    let by_stack = wait_of(&names).map(TimeKind::Waiting).filter(|_| kind == LOCKED);
    let mut made = paths::made(&[(by_stack.unwrap_or(kind), 92)]);
    if let Some(part) = made.incident.path.as_mut().and_then(|path| path.parts.first_mut()) {
        part.stack = names;
    }
    made
}

pub(crate) fn all() -> Vec<Stall> {
    let is =
        |stall: &StackStall, made| Stall { name: stall.rule, made, first: stall.rule, also: &[] };
    let each = |stall: &'static StackStall| {
        stall.stacks.iter().flat_map(move |stack| {
            let waits = !matches!(stall.kind, TimeKind::Running(_));
            let blocked = waits.then(|| is(stall, blocked(stack)));
            blocked.into_iter().chain([is(stall, on_path(stack, stall.kind))])
        })
    };
    STALLS.iter().flat_map(each).collect()
}

/// Promise (The recorder): The innermost functions of a stack name the lock or the work that a task waited for, with a
/// critical path and without.
#[test]
fn a_stack_names_its_cause() {
    for stall in all() {
        let explanation = asked(&stall.made);
        let first = explanation.causes.first();
        let rule = first.map(|cause| cause.finding.rule.as_str());
        assert_eq!(rule, Some(stall.first), "{}: {}", stall.name, explanation.verdict);
        assert!(first.unwrap().score() >= 60, "{}: {}", stall.name, explanation.verdict);
    }
}

/// The path goes on in the task that was waited for, whose own stack says nothing of it.
#[test]
fn a_wait_of_the_chain_names_its_cause() {
    let stack = STALLS.iter().find(|stall| stall.rule == "page-list-drain").unwrap().stacks[0];
    let cause = |functions: &[&str]| {
        let mut made = paths::made(&[(TimeKind::Runnable(CpuHolder::Task(9)), 92)]);
        let path = made.incident.path.as_mut().unwrap();
        let worker = paths::task(30, "kworker/1:2");
        path.parts[0].task = worker.clone();
        path.parts[0].holder = Some(paths::task(9, "control"));
        path.chain.push(WaitLink {
            waiter: paths::task(812, "postgres"),
            wait: Wait::Worker,
            other: worker,
            inferred: false,
            stack: functions.iter().map(|function| (*function).to_owned()).collect(),
            user: UserPlace::default(),
        });
        let explanation = asked(&made);
        explanation.causes.first().map(|cause| cause.finding.rule.clone())
    };
    assert_eq!(cause(stack).as_deref(), Some("page-list-drain"));
    assert_eq!(cause(&["__flush_work", "drain_all_pages"]).as_deref(), Some("cpu-contention"));
}

/// All waiters for a page on the move have the same stack.
#[test]
fn who_moved_a_page_is_told_by_the_wake_up() {
    let cause = |waker_stack: &[&str]| {
        let waits = ["folio_wait_bit_common", "migration_entry_wait_on_locked", "do_swap_page"];
        let mut made = on_path(&waits, TimeKind::Waiting(Wait::Migration));
        let path = made.incident.path.as_mut().unwrap();
        path.parts[0].waker_stack =
            waker_stack.iter().map(|function| (*function).to_owned()).collect();
        asked(&made).causes.first().map(|cause| cause.finding.rule.clone())
    };
    let moved = ["folio_unlock", "migrate_pages_batch", "migrate_pages", "do_migrate_range"];
    let by = |mover| cause(&[&moved[..], &[mover]].concat());
    assert_eq!(by("offline_pages").as_deref(), Some("range-migration"));
    assert_eq!(by("alloc_contig_range_noprof").as_deref(), Some("range-migration"));
    assert_ne!(by("compact_zone").as_deref(), Some("range-migration"));
}

#[test]
fn ksmd_is_told_by_the_cpu_that_it_had() {
    let cause = |name: &str| {
        let mut made = paths::made(&[(TimeKind::Runnable(CpuHolder::Task(44)), 92)]);
        made.incident.path.as_mut().unwrap().parts[0].holder = Some(paths::task(44, name));
        asked(&made).causes.first().map(|cause| cause.finding.rule.clone())
    };
    assert_eq!(cause("ksmd").as_deref(), Some("ksm-scan"));
    assert_eq!(cause("stress").as_deref(), Some("cpu-contention"));
}

/// Who holds a lock does not allocate for it.
#[test]
fn a_program_that_grows_is_no_culprit_of_a_lock() {
    const LOCKS: [&str; 4] =
        ["cgroup-migration", "device-memory-fault", "file-mapping-lock", "shrinker-lock"];
    for stall in all().into_iter().filter(|stall| LOCKS.contains(&stall.first)) {
        let explanation = asked(&stall.made.uses((660, "job"), 100, 900 << 20));
        assert_eq!(explanation.causing, [], "{}", stall.name);
    }
}

#[test]
fn a_similar_stack_of_another_mechanism_is_not_named() {
    for stall in STALLS {
        for stack in stall.others {
            for made in [blocked(stack), on_path(stack, stall.kind)] {
                let explanation = asked(&made);
                let named = explanation.causes.iter().find(|cause| {
                    cause.finding.rule == stall.rule && cause.score() >= PLAUSIBLE_PERCENT
                });
                assert_eq!(named, None, "{}: {stack:?}", stall.rule);
            }
        }
    }
}
