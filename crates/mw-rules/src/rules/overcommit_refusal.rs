//! # overcommit-refusal
//!
//! Strict overcommit refuses memory that the machine has.
//!
//! ## What it finds
//! `vm.overcommit_memory` is 2 and committed memory (`Committed_AS`) is close to the limit
//! (`CommitLimit`), or the limit is less than half of memory.
//!
//! As the cause of a stall: the service reported that it cannot allocate memory under this condition.
//!
//! ## Why it hurts
//! With strict overcommit every private writable mapping counts in full when it is created, touched or
//! not. At the limit `mmap`, `fork` and thread creation fail with ENOMEM in every program, however much
//! memory is free.
//!
//! ## What it looks like
//! "Cannot allocate memory" in logs while `free` shows plenty; a database that cannot fork for a new
//! connection.
//!
//! ## How to fix it
//! `memwright fix overcommit-refusal` raises `vm.overcommit_ratio` to 90, so that programs can commit
//! nearly all memory; the default of 50 lets them commit half. A limit set in kilobytes
//! (`vm.overcommit_kbytes`) is replaced by the ratio. Where that is not enough for what is committed, it is not proposed: the
//! finding says how much swap is missing. Strict overcommit stays enabled. It is done only
//! if you name the rule, because it is a policy.
//!
//! ## Threshold
//! 90% of the limit is critical: a large request fails now, and so does a fork of a large process. 75%
//! is a warning. So is a limit below half of the memory that is not in huge page pools: the kernel's
//! default ratio of 50 lets programs commit half of it, and below that most of the machine cannot be
//! allocated, however much is free.
//!
//! ## References
//! Linux, Documentation/mm/overcommit-accounting.rst; PostgreSQL documentation, "Linux Memory
//! Overcommit".

use crate::cause_score::CauseScore;
use crate::share::{field, percent};
use crate::stall_window::StallWindow;
use crate::suspect::Suspect;
use mw_model::{
    FailureKind, Finding, Missing, Quantity, Remedy, Severity, Step, Subject, Sysctl, Window,
    format_bytes,
};
use mw_proc::meminfo::Meminfo;

const MODE: &str = "vm.overcommit_memory";
const RATIO: &str = "vm.overcommit_ratio";
const STRICT: u64 = 2;
const GOOD_RATIO: u64 = 90;
const WARNING_PERCENT: f64 = 75.0;
/// The kernel rounds the limit to pages, and meminfo is read at another time than it is computed.
const ROUNDING_BYTES: u64 = 1 << 20;
const CRITICAL_PERCENT: f64 = 90.0;

pub(crate) fn hazard(window: &Window) -> Result<Vec<Finding>, Missing> {
    let snapshot = &window.now;
    let sysctl = &snapshot.sysctl;
    if sysctl.number(MODE)? != STRICT {
        return Ok(Vec::new());
    }
    let meminfo = snapshot.sample.meminfo.required()?;
    let limit = field(meminfo.commit_limit_bytes, "CommitLimit")?;
    let committed = field(meminfo.committed_as_bytes, "Committed_AS")?;
    let share = percent(committed, limit);
    let memory = committable(meminfo)?;
    let severity = if share >= CRITICAL_PERCENT { Severity::Critical } else { Severity::Warning };
    let headline = if share >= WARNING_PERCENT {
        format!(
            "{} of the commit limit of {} is committed ({share:.0}%): larger requests are refused",
            format_bytes(committed),
            format_bytes(limit)
        )
    } else if limit.saturating_add(ROUNDING_BYTES) < memory / 2 {
        format!(
            "the commit limit is {}, {:.0}% of the {} of memory: larger requests are refused",
            format_bytes(limit),
            percent(limit, memory),
            format_bytes(memory)
        )
    } else {
        return Ok(Vec::new());
    };
    let finding = Finding::new(severity, Subject::Sysctl(MODE.to_owned()), headline)
        .with_evidence("Committed_AS", Quantity::Bytes(committed), "/proc/meminfo")
        .with_evidence("CommitLimit", Quantity::Bytes(limit), "/proc/meminfo")
        .with_evidence(
            "MemFree",
            Quantity::Bytes(meminfo.mem_free_bytes.unwrap_or(0)),
            "/proc/meminfo",
        )
        .with_impact("mmap, fork and thread creation fail with ENOMEM although memory is free.");
    let swap = meminfo.swap_total_bytes.unwrap_or(0);
    let of = Commitment { limit, committed, memory, swap };
    let what = format!("CommitLimit with {RATIO} {GOOD_RATIO}");
    let finding = finding.with_evidence(what, Quantity::Bytes(of.after_bytes()), "/proc/meminfo");
    Ok(vec![finding.with_remedy(remedy(sysctl, &of))])
}

pub(crate) fn cause(stall: &StallWindow<'_>) -> Result<Option<Suspect>, Missing> {
    CauseScore::refusal_cause(
        stall,
        hazard(stall.window)?,
        |_| "the commit limit refused memory".to_owned(),
        FailureKind::OutOfMemory,
        &["cannot allocate memory", "out of memory", "enomem"],
    )
}

/// Memory that can be committed: all but the huge page pools.
fn committable(meminfo: &Meminfo) -> Result<u64, Missing> {
    let memory = field(meminfo.mem_total_bytes, "MemTotal")?;
    let pages = meminfo.hugepages_total_pages.unwrap_or(0);
    let pool = pages.saturating_mul(meminfo.hugepagesize_bytes.unwrap_or(0));
    // Since 4.16 one line counts the pools of all sizes.
    Ok(memory.saturating_sub(meminfo.hugetlb_bytes.unwrap_or(pool)))
}

/// What is committed, and what can be. All sizes in bytes.
struct Commitment {
    limit: u64,
    committed: u64,
    /// Memory that can be committed.
    memory: u64,
    swap: u64,
}

impl Commitment {
    /// The limit with the ratio that the remedy sets (`vm_commit_limit()`).
    fn after_bytes(&self) -> u64 {
        (self.memory / 100).saturating_mul(GOOD_RATIO).saturating_add(self.swap)
    }
}

fn remedy(sysctl: &Sysctl, of: &Commitment) -> Remedy {
    let Commitment { limit, committed, .. } = *of;
    let ratio = sysctl.number(RATIO).unwrap_or(0);
    let in_kilobytes = sysctl.number("vm.overcommit_kbytes").is_ok_and(|kib| kib > 0);
    let after = of.after_bytes();
    let enough = committed.saturating_mul(4) / 3;
    if limit >= after || (ratio >= GOOD_RATIO && !in_kilobytes) || after <= enough {
        let best = limit.max(after);
        let lacking = enough.saturating_add(1).saturating_sub(best);
        return Remedy::named(
            format!(
                "commit less memory (smaller stacks, heaps and buffer pools), or add {} of swap: with {RATIO} {} \
                 the limit is {}, and {:.0}% of it is committed",
                format_bytes(lacking),
                GOOD_RATIO.max(ratio),
                format_bytes(best),
                percent(committed, best)
            ),
            vec![
                Step::manual("swapon FILE"),
                Step::manual(format!("sysctl -w {MODE}=0 (without strict overcommit)")),
            ],
        );
    }
    Remedy::named(
        format!("set {RATIO} to {GOOD_RATIO}"),
        vec![Step::write(Sysctl::path(RATIO), GOOD_RATIO)],
    )
}
