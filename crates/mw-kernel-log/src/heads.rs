//! First lines of reports, and lines of one fact.

use crate::gfp::GfpMask;
use crate::report::{KernelReport, ReportKind, RequestTask};
use crate::vmalloc::VmallocRequest;
use mw_proc::oom_lines::kib;

/// Reads the first line of a report.
pub(crate) fn head(line: &str) -> Option<KernelReport> {
    let readers = [
        oom_killer,
        allocation_failure,
        allocation_stall,
        vmalloc_failure,
        slab_failure,
        cma_failure,
        repeated_request,
        hung_task,
        soft_lockup,
        hard_lockup,
    ];
    let mut report = readers.into_iter().find_map(|read| read(line))?;
    report.has_head = true;
    report.mems_allowed = mems_allowed(line);
    Some(report)
}

/// `cpuset=/ mems_allowed=0`, `cpuset=/,mems_allowed=0-1`.
pub(crate) fn mems_allowed(line: &str) -> Option<String> {
    let (_, after) = line.split_once("mems_allowed=")?;
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '-' && c != ',');
    let nodes = after.get(..end.unwrap_or(after.len()))?.trim_end_matches(',');
    (!nodes.is_empty()).then(|| nodes.to_owned())
}

fn oom_killer(line: &str) -> Option<KernelReport> {
    let (by, rest) = match line.rsplit_once(" invoked oom-killer: ") {
        Some((by, rest)) => (Some(by), rest),
        None => (None, line.strip_prefix("oom-killer: ").filter(|rest| rest.contains("gfp_mask"))?),
    };
    let mut report = of_request(ReportKind::Kill, by, rest);
    report.remarks.is_sysrq = report.order == Some(-1);
    Some(report)
}

fn allocation_failure(line: &str) -> Option<KernelReport> {
    let (by, rest) = line.split_once(": page allocation failure")?;
    Some(of_request(ReportKind::AllocationFailure, Some(by), rest))
}

fn allocation_stall(line: &str) -> Option<KernelReport> {
    let (by, rest) = line.split_once(": page allocation stalls for ")?;
    let mut report = of_request(ReportKind::AllocationStall, Some(by), rest);
    report.waited_ms = rest.split_once("ms").and_then(|(ms, _)| ms.parse().ok());
    Some(report)
}

fn vmalloc_failure(line: &str) -> Option<KernelReport> {
    let (request, before) = VmallocRequest::parse(line)?;
    let by = before.trim().strip_suffix(':');
    let mut report = of_request(ReportKind::AllocationFailure, by, line);
    report.vmalloc = Some(request);
    report.order = None;
    Some(report)
}

fn slab_failure(line: &str) -> Option<KernelReport> {
    let rest = line.strip_prefix("SLUB: Unable to allocate memory on ")?;
    let mut report = of_request(ReportKind::AllocationFailure, None, rest);
    report.slab_cache = Some(String::new());
    Some(report)
}

fn cma_failure(line: &str) -> Option<KernelReport> {
    let (_, rest) = line.split_once("cma_alloc: ")?;
    let (_, rest) = rest.split_once("alloc failed, req-size: ")?;
    let pages: u64 = rest.split(' ').next()?.parse().ok()?;
    let mut report = KernelReport::new(ReportKind::AllocationFailure);
    report.remarks.cma_pages = Some(pages);
    report.remarks.cma_is_busy = rest.contains("ret: -16");
    report.order = i32::try_from(pages.next_power_of_two().trailing_zeros()).ok();
    Some(report)
}

/// The driver that reports what its device lacks: `xhci-hcd xhci-hcd.0.auto: can't setup: -12`.
pub(crate) fn driver_without_memory(line: &str) -> Option<&str> {
    let before = line.strip_suffix("-12")?.split_once(": ")?.0;
    let driver = before.split(' ').next().filter(|name| !name.is_empty())?;
    Some(driver)
}

/// `XFS: java(123) possible memory allocation deadlock size 65552 in kmem_alloc (mode:0x250)`.
fn repeated_request(line: &str) -> Option<KernelReport> {
    let (before, rest) = line.split_once("possible memory allocation deadlock")?;
    let name = before.split_once(": ").map_or(before, |(_, name)| name).trim();
    let (name, pid) = match name.strip_suffix(')').and_then(|name| name.rsplit_once('(')) {
        Some((name, pid)) => (name, pid.parse().ok()),
        None => (name, None),
    };
    let mut report = of_request(ReportKind::AllocationFailure, Some(name), rest);
    report.requester.pid = pid;
    report.remarks.is_repeated = true;
    let size = rest.split_once("size ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    report.order = size.map(order_of);
    Some(report)
}

fn order_of(bytes: u64) -> i32 {
    let pages = bytes.div_ceil(4096).max(1);
    i32::try_from(pages.next_power_of_two().trailing_zeros()).unwrap_or_default()
}

fn hung_task(line: &str) -> Option<KernelReport> {
    let rest = line.strip_prefix("INFO: task ")?;
    if let Some((_, owner)) = rest.split_once("likely owned by task ") {
        let mut report = KernelReport::new(ReportKind::HungTask);
        report.requester.lock_owner = Some(owner.trim_end_matches('.').to_owned());
        return Some(report);
    }
    let (task, rest) = rest
        .split_once(" blocked for more than ")
        .or_else(|| rest.split_once(" blocked in I/O wait for more than "))?;
    let (name, pid) = task.rsplit_once(':')?;
    let mut report = KernelReport::new(ReportKind::HungTask);
    report.requester = RequestTask {
        name: Some(name.to_owned()),
        pid: pid.parse().ok(),
        blocked_s: rest.split(' ').next()?.parse().ok(),
        ..RequestTask::default()
    };
    Some(report)
}

/// `watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kswapd0:44]`.
fn soft_lockup(line: &str) -> Option<KernelReport> {
    let (_, rest) = line.split_once("soft lockup - CPU#")?;
    let (cpu, rest) = rest.split_once(" stuck for ")?;
    let (seconds, rest) = rest.split_once('s')?;
    let task = rest.split_once('[').map_or("", |(_, task)| task).trim_end_matches(']');
    let (name, pid) = task.rsplit_once(':').unwrap_or((task, ""));
    let mut report = KernelReport::new(ReportKind::Lockup);
    report.requester = RequestTask {
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        pid: pid.parse().ok(),
        blocked_s: seconds.parse().ok(),
        cpu: cpu.parse().ok(),
        ..RequestTask::default()
    };
    Some(report)
}

fn hard_lockup(line: &str) -> Option<KernelReport> {
    let (_, cpu) = line.split_once("hard LOCKUP on cpu ")?;
    let mut report = KernelReport::new(ReportKind::Lockup);
    report.remarks.is_hard_lockup = true;
    report.requester.cpu = cpu.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    Some(report)
}

fn of_request(kind: ReportKind, by: Option<&str>, rest: &str) -> KernelReport {
    let mut report = KernelReport::new(kind);
    report.requester.name = by.map(|by| by.trim().to_owned()).filter(|by| !by.is_empty());
    report.order = value(rest, "order").and_then(|order| order.parse().ok());
    let mask = ["gfp_mask", "mode", "gfp"].iter().find_map(|key| value(rest, key));
    report.gfp = mask.and_then(|mask| GfpMask::parse(mask, None));
    report
}

/// The value of `key=value` or `key:value`; names of flags are in brackets.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut places = text.match_indices(key);
    places.find_map(|(at, _)| {
        let rest = text.get(at.saturating_add(key.len())..)?;
        let rest = rest.strip_prefix([':', '='])?.trim_start();
        let end = rest.find([',', ' ']).unwrap_or(rest.len());
        let end = match rest.find('(') {
            Some(open) if open < end => rest.find(')').map_or(end, |at| at.saturating_add(1)),
            _ => end,
        };
        rest.get(..end)
    })
}

/// `oom_reaper: reaped process 7 (a), now anon-rss:0kB, file-rss:0kB, shmem-rss:4kB`: the number, and the memory left.
pub(crate) fn reaped(line: &str) -> Option<(u32, u64)> {
    let rest = line.strip_prefix("oom_reaper: reaped process ")?;
    let (pid, rest) = rest.split_once(' ')?;
    let sizes = rest.split("rss:").skip(1);
    let bytes = sizes.filter_map(|rest| kib(rest.split([',', ' ']).next()?));
    Some((pid.parse().ok()?, bytes.fold(0, u64::saturating_add)))
}

/// The version of the kernel before ` #1`, in the line with the CPU and the task.
pub(crate) fn kernel_version(line: &str) -> Option<&str> {
    let tainted = line.find("ainted");
    let rest = match tainted {
        Some(at) => line.get(at..)?,
        None => line.strip_prefix("Linux version ")?,
    };
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        let mut number =
            || parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        number() && number()
    };
    rest.split_ascii_whitespace().find(is_version)
}

/// `CPU: 5 PID: 11874 Comm: …`, `Pid: 123, comm: …`.
pub(crate) fn pid(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("PID: ").or_else(|| line.split_once("Pid: "))?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A function of a call trace, and its module. The first of a line: ARM prints two. None for what the unwinder is not certain of.
pub(crate) fn function(line: &str) -> Option<(&str, Option<&str>)> {
    let at = line.find("+0x")?;
    let (before, after) = line.split_at_checked(at)?;
    let mut words = before.rsplit([' ', '(']);
    // `RIP: 0010:name+0x…` has the segment before it.
    let name = symbol(words.next()?.rsplit(':').next()?)?;
    if words.next() == Some("?") {
        return None;
    }
    let module = after.split_once('[').and_then(|(_, rest)| symbol(rest));
    Some((name, module))
}

/// The name of a function or module at the beginning of a text: a log may have anything behind it.
fn symbol(text: &str) -> Option<&str> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    text.split(|letter| !is_of_name(letter)).next().filter(|name| !name.is_empty())
}

/// A function that the unwinder found on the stack, and is not certain of.
pub(crate) fn doubtful_function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("? ")?;
    rest.split_once("+0x").and_then(|(name, _)| symbol(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_reports() {
        let check = |line: &str, kind, name: Option<&str>, order, mask: Option<u64>| {
            let report = head(line).unwrap();
            let found = (report.kind, report.requester.name.as_deref(), report.order);
            assert_eq!(found, (kind, name, order), "{line}");
            assert_eq!(report.gfp.map(|gfp| gfp.mask), mask, "{line}");
        };
        let kill = ReportKind::Kill;
        let line = "runc:[2:INIT] invoked oom-killer: gfp_mask=0x500cc2(GFP_HIGHUSER|__GFP_ACCOUNT), order=2, oom_score_adj=0";
        check(line, kill, Some("runc:[2:INIT]"), Some(2), Some(0x50_0cc2));
        let line = "a b invoked oom-killer: gfp_mask=0xd0, order=0, oom_adj=0";
        check(line, kill, Some("a b"), Some(0), Some(0xd0));
        check("oom-killer: gfp_mask=0x1d2, order=0", kill, None, Some(0), Some(0x1d2));
        let failure = ReportKind::AllocationFailure;
        let line = "kworker/0:1: page allocation failure: order:5, mode:0x820(GFP_ATOMIC), nodemask=(null),cpuset=/,mems_allowed=0-1";
        check(line, failure, Some("kworker/0:1"), Some(5), Some(0x820));
        assert_eq!(head(line).unwrap().mems_allowed.as_deref(), Some("0-1"));
        check(
            "a: page allocation failure. order:5, mode:0xd0",
            failure,
            Some("a"),
            Some(5),
            Some(0xd0),
        );
        let line = "SLUB: Unable to allocate memory on node -1, gfp=0x820(GFP_ATOMIC)";
        check(line, failure, None, None, Some(0x820));
        let line = "java: page allocation stalls for 10014ms, order:0, mode:0x24280ca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO)";
        check(line, ReportKind::AllocationStall, Some("java"), Some(0), Some(0x242_80ca));
        assert_eq!(head(line).unwrap().waited_ms, Some(10_014));
        let line = "x: vmalloc error: size 16777216, page order 0, failed to allocate pages, mode:0xcc2(GFP_KERNEL|__GFP_HIGHMEM)";
        assert_eq!(head(line).unwrap().vmalloc.unwrap().bytes, 16 << 20);
        let line = "INFO: task jbd2/vda1-8:22455 blocked for more than 120 seconds.";
        let task = head(line).unwrap().requester;
        assert_eq!(
            (task.name.as_deref(), task.pid, task.blocked_s),
            (Some("jbd2/vda1-8"), Some(22_455), Some(120))
        );
        let line = "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [CPU 1/KVM:44]";
        let task = head(line).unwrap().requester;
        assert_eq!(
            (task.name.as_deref(), task.pid, task.cpu),
            (Some("CPU 1/KVM"), Some(44), Some(3))
        );
        assert!(head("java.lang.OutOfMemoryError: Java heap space").is_none());
    }

    #[test]
    fn what_the_reaper_left() {
        let line =
            "oom_reaper: reaped process 7 (a), now anon-rss:1kB, file-rss:2kB, shmem-rss:4kB";
        assert_eq!(reaped(line), Some((7, 7168)));
    }

    #[test]
    fn lines_of_a_call_trace() {
        assert_eq!(
            function(" [<ffffffff81>] ext4_filemap_fault+0x31/0x50 [ext4]"),
            Some(("ext4_filemap_fault", Some("ext4")))
        );
        assert_eq!(
            function("[<c0013a7c>] (unwind_backtrace+0x0/0xf0) from [<c0092760>] (warn+0xc4/0x1)")
                .unwrap()
                .0,
            "unwind_backtrace"
        );
        assert_eq!(function(" ? oom_badness+0x23/0x140"), None);
        assert_eq!(function(" dump_stack+0x66/0x81"), Some(("dump_stack", None)));
        let line =
            "CPU: 5 PID: 11874 Comm: q x Tainted: P           OE     4.19.0-14-amd64 #1 Debian";
        assert_eq!((kernel_version(line), pid(line)), (Some("4.19.0-14-amd64"), Some(11_874)));
        let line = "Pid: 123, comm: a Not tainted 2.6.32-431.el6.x86_64 #1";
        assert_eq!((kernel_version(line), pid(line)), (Some("2.6.32-431.el6.x86_64"), Some(123)));
    }
}
