//! Processes that have come close to their limit of mapped memory (`RLIMIT_AS`, `RLIMIT_DATA`).

use crate::raised_rlimit::raise_rlimit;
use crate::share::percent;
use mw_model::mapped_limit::{MappedKind, MappedLimit, reached_limit};
use mw_model::{Finding, Process, Quantity, Remedy, Severity, Snapshot, Subject, format_bytes};
use mw_proc::version::KernelVersion;
use std::cmp::Reverse;

/// Before, `RLIMIT_DATA` limited brk(2) alone.
const COUNTS_DATA: KernelVersion = KernelVersion::new(4, 7, 0);

/// One finding, of the process with most memory, whatever number of processes reach theirs: any user may start some that do.
pub(crate) fn at_limits(snapshot: &Snapshot) -> Option<Finding> {
    let processes = &snapshot.processes.value()?.list;
    let counts_data = snapshot.origin.kernel.is_none_or(|kernel| kernel >= COUNTS_DATA);
    let is_told = |limit: &MappedLimit| limit.kind != MappedKind::Data || counts_data;
    let reached = processes.iter().filter_map(|process| Some((process, of(process)?)));
    let mut reached: Vec<(&Process, MappedLimit)> =
        reached.filter(|(_, limit)| is_told(limit)).collect();
    reached.sort_by_key(|(process, _)| Reverse(process.status.vm_rss_bytes));
    let (first, others) = reached.split_first()?;
    Some(finding(first.0, first.1, others.len()))
}

fn of(process: &Process) -> Option<MappedLimit> {
    reached_limit(&process.status, process.limits.as_ref()?)
}

fn finding(process: &Process, reached: MappedLimit, others: usize) -> Finding {
    let MappedLimit { kind, used_bytes, limit_bytes, rlimit } = reached;
    let (what, option, flag, unit) = match kind {
        MappedKind::AddressSpace => ("address space", "as", "-v", "LimitAS"),
        MappedKind::Data => ("private writable memory", "data", "-d", "LimitDATA"),
    };
    let status = &process.status;
    let pid = status.pid.unwrap_or_default();
    let more = match others {
        0 => String::new(),
        1 => "; so has 1 other process".to_owned(),
        count => format!("; so have {count} other processes"),
    };
    let headline = format!(
        "{} (pid {pid}) has used {:.0}% of its limit of {what}, {} (ulimit {flag}){more}",
        status.name,
        percent(used_bytes, limit_bytes),
        format_bytes(limit_bytes)
    );
    let source = match kind {
        MappedKind::AddressSpace => "VmPeak",
        MappedKind::Data => "VmData",
    };
    let summary = format!(
        "raise the limit where it is set ({unit}= of the unit, limits.conf, the program's own setting), or give the process \
         less to map"
    );
    Finding::new(Severity::Warning, Subject::Process(status.name.clone()), headline)
        .with_evidence(source, Quantity::Bytes(used_bytes), format!("/proc/{pid}/status"))
        .with_evidence("limit", Quantity::Bytes(limit_bytes), format!("/proc/{pid}/limits"))
        .with_impact("mmap and malloc of this process fail with ENOMEM although memory is free.")
        .with_remedy(Remedy::named(
            summary,
            vec![raise_rlimit(pid, option, rlimit, limit_bytes.saturating_mul(2))],
        ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mw_model::{Processes, Reading};
    use mw_proc::limits::{Rlimit, Rlimits};
    use mw_proc::status::Status;

    const MIB: u64 = 1 << 20;

    fn found(peak_mib: u64, data_mib: u64, limits: Rlimits) -> Option<String> {
        found_at((peak_mib, peak_mib), data_mib, limits)
    }

    fn found_at((peak_mib, now_mib): (u64, u64), data_mib: u64, limits: Rlimits) -> Option<String> {
        let status = Status {
            name: "imap".to_owned(),
            pid: Some(7),
            vm_peak_bytes: Some(peak_mib * MIB),
            vm_size_bytes: Some(peak_mib.min(now_mib) * MIB),
            vm_data_bytes: Some(data_mib * MIB),
            ..Status::default()
        };
        let process = Process { status, limits: Some(limits), ..Process::default() };
        let processes = Processes { present: 1, unseen: 0, list: vec![process] };
        let snapshot = Snapshot { processes: Reading::Value(processes), ..Snapshot::default() };
        at_limits(&snapshot).map(|finding| finding.headline)
    }

    fn of_mib(soft: Option<u64>) -> Option<Rlimit> {
        Some(Rlimit { soft: soft.map(|mib| mib * MIB), hard: None })
    }

    /// Promise (Findings): A process that has used its limit of address space or of private memory is reported; one that has
    /// room, no limit, or lowered its limit is not.
    #[test]
    fn a_process_close_to_its_limit_of_mapped_memory_is_found() {
        let space = |soft| Rlimits { address_space: of_mib(soft), ..Rlimits::default() };
        let data = |soft| Rlimits { data_size: of_mib(soft), ..Rlimits::default() };
        let said = found(255, 80, space(Some(256))).unwrap();
        assert_eq!(
            said,
            "imap (pid 7) has used 100% of its limit of address space, 256 MiB (ulimit -v)"
        );
        assert_eq!(found(200, 80, space(Some(256))), None);
        assert_eq!(found(300, 80, space(Some(256))), None, "it lowered its limit");
        assert_eq!(found(255, 80, space(None)), None);
        assert_eq!(found_at((255, 200), 80, space(Some(256))), None, "for a moment");
        assert!(found(255, 80, data(Some(82))).unwrap().contains("private writable memory"));
        assert_eq!(found(255, 80, data(Some(256))), None);
    }
}
