//! # fork-copy
//!
//! A large process forked and stalled while its page tables were copied.
//!
//! ## What it finds
//! No hazard: this rule only explains stalls. The request spent its time on what a fork costs:
//! - a task of its path was in fork(2), or waited for mmap_lock while another thread of its process was;
//! - it wrote to pages that its process shares with a forked one, and the kernel copied each;
//! - it waited for a CPU on which forked processes copied pages or freed their page tables.
//!
//! ## Why it hurts
//! fork(2) copies the page tables of the parent, which does not run meanwhile: about 10 ms for each GiB of
//! base pages, and several times as much on a slow machine. Its other threads wait for mmap_lock. The first write to
//! each page afterwards copies it, and the child frees the copied tables when it ends or starts another program.
//!
//! ## What it looks like
//! The service does not answer for some hundred milliseconds whenever it saves a snapshot in a child
//! (Redis BGSAVE) or starts a program. Redis reports it as `latest_fork_usec`. The kernel spends its time in
//! `copy_page_range`, then in `do_wp_page`, and in `exit_mmap` of the child.
//!
//! ## How to fix it
//! By what the request waited for:
//! - fork(2) itself (`copy_page_range`): transparent huge pages for the data, whose page tables are 512 times as small
//!   (`memwright run --huge auto`), and posix_spawn(3) or vfork(2) to start programs, which copy nothing;
//! - the writes after it (`do_wp_page`): let a replica save the snapshots, write less while one is saved, or exclude what
//!   the child does not need by madvise(2) MADV_DONTFORK. Huge pages do not help there: since Linux 5.8 the first write
//!   to a shared one splits its mapping and copies base pages as without (`do_huge_pmd_wp_page`, mm/huge_memory.c), and
//!   before it copied 2 MiB. That is why Redis warns of transparent huge pages, and why they must form again after each
//!   snapshot.
//!
//! Pages of a hugetlb pool are no remedy for either: the first write copies the whole page and needs a free one of the
//! pool. Where there is none the kernel takes the page from the child, which is killed at its next access to it
//! (`hugetlb_wp` and `unmap_ref_private`, mm/hugetlb.c).
//!
//! ## Threshold
//! All of that takes at least half of the request.
//!
//! ## References
//! Linux, mm/memory.c, `copy_page_range` and `do_wp_page`; commit 3917c80280c9 ("thp: change CoW semantics for
//! anon-THP"); fork(2), madvise(2).

use crate::path_words::named;
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_critical_path::TimeClass;
use mw_critical_path::{KernelWork, PathPart, RunMode, TimeKind};
use mw_model::{Finding, Missing, Remedy, Severity, Step, Subject};

const CONFIRMED: u8 = 90;

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    let Some(request) = stall.request else { return Ok(None) };
    let Some(part) = request.largest(&[TimeClass::Fork]) else { return Ok(None) };
    let name = part.task.name.clone();
    let finding = Finding::new(Severity::Warning, Subject::Process(name), headline(stall, part))
        .with_impact("The process did not answer until its page tables, or the pages, were copied.")
        .with_remedy(remedy(part.kind));
    Ok(Some(Suspect::new(finding, CONFIRMED)))
}

/// Huge pages shorten fork(2); the writes after it copy as much with them as without.
fn remedy(kind: TimeKind) -> Remedy {
    match kind {
        TimeKind::Running(RunMode::Kernel(KernelWork::CopyOnWrite)) | TimeKind::Runnable(_) => {
            Remedy::named(
                "save snapshots on a replica, or write less while a forked process runs",
                vec![Step::manual(
                    "call madvise(MADV_DONTFORK) for memory that the forked process does not need",
                )],
            )
        }
        _ => Remedy::named(
            "use transparent huge pages for the data, or start programs by posix_spawn(3)",
            vec![Step::manual("memwright run --huge auto -- COMMAND")],
        ),
    }
}

fn headline(stall: &StallWindow<'_>, part: &PathPart) -> String {
    let who = named(stall, &part.task);
    let other = part
        .holder
        .as_ref()
        .map_or_else(|| "a forked process".to_owned(), |holder| named(stall, holder));
    match part.kind {
        TimeKind::Running(RunMode::Kernel(KernelWork::CopyOnWrite)) => {
            format!("{who} copied pages after a fork")
        }
        TimeKind::Runnable(_) => format!("{other} copied pages of a fork on the CPU"),
        _ => format!("{who} copied page tables in fork"),
    }
}
