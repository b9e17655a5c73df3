//! Made-up stalls of machines on which nothing may be traced: the states of the tasks were read many times a second.

use crate::made::Made;
use crate::paths::{TOTAL_MS, made};
use mw_critical_path::{Basis, CpuHolder, KernelWork, RunMode, TimeKind};
use mw_model::{CpuUse, Finding};

/// The service was ready to run, and its clocks do not say who had the CPU.
fn ready() -> Made {
    let mut made = made(&[(TimeKind::Runnable(CpuHolder::Unknown), 95)]);
    made.incident.path.as_mut().unwrap().basis = Basis::Polling;
    made
}

fn first(made: &Made) -> Option<Finding> {
    crate::asked(made).causes.into_iter().next().map(|cause| cause.finding)
}

#[test]
fn who_is_ready_while_others_use_the_cpus_waits_for_them() {
    let busy = ready().uses((77, "stress"), TOTAL_MS, 0);
    let found = first(&busy).unwrap();
    assert_eq!(found.headline, "stress probably used the CPU time");
    assert!(format!("{:?}", found.evidence).contains("postgres (812)"), "{found:?}");
    // Many programs, and none of them alone.
    let crowd = (0..10)
        .fold(ready(), |made, n| made.uses((100 + n, &format!("worker-{n}")), TOTAL_MS / 8, 0));
    let found = first(&crowd).unwrap();
    assert_eq!(found.headline, "tasks competed for the CPUs");
}

#[test]
fn who_is_ready_while_nobody_runs_was_not_run_by_the_hypervisor_or_is_unknown() {
    assert_eq!(first(&ready()).map(|finding| finding.headline), None);
    let own = ready().uses((812, "postgres"), TOTAL_MS, 0);
    assert_eq!(first(&own).map(|finding| finding.headline), None, "its own use is no contention");
    let mut stolen = ready();
    stolen.incident.cpus = Some(CpuUse { stolen_ms: 9000, busy_ms: 100 });
    assert_eq!(first(&stolen).unwrap().subject.to_string(), "hypervisor");
}

/// The kernel's samples tell in what the process ran.
#[test]
fn who_runs_in_page_faults_populates_memory() {
    let runs =
        |function: &str, samples| {
            let mut made = made(&[(TimeKind::Running(RunMode::Kernel(KernelWork::Other)), 95)]);
            made.incident.path.as_mut().unwrap().basis = Basis::Polling;
            made.stack((812, "postgres"), samples, &["entry_SYSCALL_64", function, "clear_page"])
                .uses((812, "postgres"), TOTAL_MS, 4 << 30)
        };
    let found = first(&runs("populate_vma_page_range", 800)).unwrap();
    assert_eq!(found.headline, "postgres (812) populated memory page by page");
    assert!(format!("{:?}", found.evidence).contains("growth of the process"), "{found:?}");
    for (function, samples) in [("vfs_read", 800), ("populate_vma_page_range", 8)] {
        let found = first(&runs(function, samples)).map(|finding| finding.headline);
        assert_eq!(found, None, "in what it ran is not known");
    }
}
