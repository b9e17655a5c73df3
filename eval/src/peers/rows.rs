//! The rows of the table, in its order.

use super::method::{Memory, Method};
use super::place::{Place, THREADS};
use super::program::Run;
use super::row::Row;
use mw_segment::PageSize;
use std::process::Command;

const BASE: PageSize = PageSize::Base;
const THP: PageSize = PageSize::Thp;
const HUGE: PageSize = PageSize::HUGE_2M;

const JAVA: &str = "java";
const QEMU: &str = "qemu-system-x86_64";

/// `memwright run` populates during the program's own call, as the program does without it.
const PREFAULT: &[&str] = &["--prefault=now"];

pub(super) fn all() -> Vec<Row> {
    let mut rows = plain();
    rows.extend(ours());
    rows.extend(qemu());
    rows.extend(java());
    rows.extend(others());
    rows
}

fn row(
    name: &'static str,
    memory: Memory,
    page: PageSize,
    threads: usize,
    locked: bool,
    method: Method,
) -> Row {
    Row { name, memory, page, threads, locked, method, samples: Vec::new(), missing: None }
}

fn plain() -> Vec<Row> {
    use Memory::{Private, Shared};
    use Method::{Mlock, MlockAll, Stores};
    let mut rows = Vec::new();
    for (memory, page) in [(Private, BASE), (Private, THP), (Shared, BASE), (Shared, HUGE)] {
        rows.push(row("memset, one thread", memory, page, 1, false, Stores));
    }
    for (memory, page) in [(Private, BASE), (Private, THP), (Shared, BASE)] {
        rows.push(row("mlock(2)", memory, page, 1, true, Mlock));
    }
    let name = "`mlockall(MCL_CURRENT \\| MCL_FUTURE)`, mmap(2)";
    rows.push(row(name, Private, BASE, 1, true, MlockAll));
    rows
}

fn ours() -> Vec<Row> {
    use Memory::{Private, Shared};
    let mut rows = Vec::new();
    for locked in [false, true] {
        for (memory, page) in [(Private, BASE), (Private, THP), (Shared, BASE)] {
            rows.push(row("**memwright**", memory, page, THREADS, locked, Method::Library));
        }
    }
    rows.push(row("**memwright**", Shared, HUGE, THREADS, false, Method::Library));
    rows
}

/// QEMU advises transparent huge pages for its memory itself.
fn qemu() -> Vec<Row> {
    use Memory::{Private, Shared};
    use Method::Program;
    vec![
        row("QEMU `prealloc-threads=1`", Private, THP, 1, false, Program(qemu_ram_1)),
        row("QEMU `prealloc-threads=2`", Private, THP, 2, false, Program(qemu_ram_2)),
        row("**`memwright run`** QEMU", Private, THP, 2, false, Program(qemu_ram_run)),
        row("QEMU `mem-lock=on`", Private, THP, 2, true, Program(qemu_locked)),
        row("QEMU `prealloc-threads=1`", Shared, BASE, 1, false, Program(qemu_memfd_1)),
        row("QEMU `prealloc-threads=2`", Shared, BASE, 2, false, Program(qemu_memfd_2)),
        row("**`memwright run`** QEMU", Shared, BASE, 2, false, Program(qemu_memfd_run)),
        row("QEMU `prealloc-threads=2`", Shared, HUGE, 2, false, Program(qemu_huge)),
        row("**`memwright run`** QEMU", Shared, HUGE, 2, false, Program(qemu_huge_run)),
    ]
}

fn java() -> Vec<Row> {
    use Memory::Private;
    use Method::Program;
    vec![
        row("OpenJDK, serial", Private, BASE, 1, false, Program(java_serial)),
        row(
            "**`memwright run --prefault=now`** OpenJDK, serial",
            Private,
            BASE,
            2,
            false,
            Program(java_serial_run),
        ),
        row("OpenJDK, parallel", Private, BASE, 2, false, Program(java_parallel)),
        row("OpenJDK, G1", Private, BASE, 2, false, Program(java_g1)),
        row("OpenJDK, G1", Private, THP, 2, false, Program(java_g1_thp)),
        row("OpenJDK, G1", Private, HUGE, 2, false, Program(java_g1_huge)),
    ]
}

fn others() -> Vec<Row> {
    use Memory::{Private, Shared};
    let shares = Method::Bench("equal shares");
    let pages = Method::Bench("page by page");
    let mut rows = vec![
        row("`vmtouch -l`, a file in tmpfs", Shared, BASE, 1, true, Method::Program(vmtouch)),
        row(
            "libhugetlbfs `get_huge_pages`, memset",
            Shared,
            HUGE,
            1,
            false,
            Method::Program(hugetlbfs),
        ),
        row("DPDK `rte_eal_init`", Private, HUGE, 1, false, Method::Program(dpdk)),
        row("cloud-hypervisor's equal shares, re-enacted", Private, BASE, 2, true, shares),
        row("DPDK's page by page, re-enacted", Private, BASE, 1, true, pages),
    ];
    for (memory, page) in [(Private, THP), (Shared, BASE), (Shared, HUGE)] {
        let shares = Method::Bench("equal shares");
        let name = "cloud-hypervisor's equal shares, re-enacted";
        rows.push(row(name, memory, page, 2, true, shares));
    }
    let pages = Method::Bench("page by page");
    rows.push(row("DPDK's page by page, re-enacted", Shared, HUGE, 1, true, pages));
    rows
}

/// Stopped before its first instruction; it is ready when its monitor greets.
fn qemu_run(
    place: &Place,
    backend: &str,
    threads: usize,
    run: Option<&[&str]>,
    with: bool,
) -> anyhow::Result<Run> {
    let mib = place.mib;
    let mut command = place.programs.command(QEMU, run);
    command.args(["-machine", "q35,memory-backend=memory,accel=tcg", "-m", &format!("{mib}M")]);
    command.args(["-S", "-nodefaults", "-display", "none", "-qmp", "stdio", "-object"]);
    let prealloc =
        if with { format!(",prealloc=on,prealloc-threads={threads}") } else { String::new() };
    command.arg(format!("{backend},id=memory,size={mib}M{prealloc}"));
    Ok(Run { command, ready: "QMP", file: None })
}

const RAM: &str = "memory-backend-ram";
const MEMFD: &str = "memory-backend-memfd,share=on";
const MEMFD_HUGE: &str = "memory-backend-memfd,share=on,hugetlb=on,hugetlbsize=2M";

fn qemu_ram_1(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, RAM, 1, None, with)
}

fn qemu_ram_2(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, RAM, 2, None, with)
}

fn qemu_ram_run(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, RAM, 1, Some(&[]), with)
}

fn qemu_memfd_1(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, MEMFD, 1, None, with)
}

fn qemu_memfd_2(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, MEMFD, 2, None, with)
}

fn qemu_memfd_run(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, MEMFD, 1, Some(&[]), with)
}

fn qemu_huge(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, MEMFD_HUGE, 2, None, with)
}

fn qemu_huge_run(place: &Place, with: bool) -> anyhow::Result<Run> {
    qemu_run(place, MEMFD_HUGE, 1, Some(&[]), with)
}

/// Populated by two threads, then locked by mlockall(2).
fn qemu_locked(place: &Place, with: bool) -> anyhow::Result<Run> {
    let mut run = qemu_run(place, RAM, 2, None, with)?;
    if with {
        run.command.args(["-overcommit", "mem-lock=on"]);
    }
    Ok(run)
}

/// It is ready when it states its version, for which the whole virtual machine starts.
fn java_run(
    place: &Place,
    options: &[&str],
    run: Option<&[&str]>,
    with: bool,
) -> anyhow::Result<Run> {
    let mut command = place.programs.command(JAVA, run.filter(|_| with));
    command.args([format!("-Xms{}m", place.mib), format!("-Xmx{}m", place.mib)]);
    command.args(options);
    if with {
        command.arg("-XX:+AlwaysPreTouch");
    }
    command.arg("-version");
    Ok(Run { command, ready: "version", file: None })
}

fn java_serial(place: &Place, with: bool) -> anyhow::Result<Run> {
    java_run(place, &["-XX:+UseSerialGC"], None, with)
}

fn java_serial_run(place: &Place, with: bool) -> anyhow::Result<Run> {
    java_run(place, &["-XX:+UseSerialGC"], Some(PREFAULT), with)
}

fn java_parallel(place: &Place, with: bool) -> anyhow::Result<Run> {
    java_run(place, &["-XX:+UseParallelGC", "-XX:ParallelGCThreads=2"], None, with)
}

fn java_g1(place: &Place, with: bool) -> anyhow::Result<Run> {
    java_run(place, &["-XX:+UseG1GC", "-XX:ParallelGCThreads=2"], None, with)
}

fn java_g1_thp(place: &Place, with: bool) -> anyhow::Result<Run> {
    let options = ["-XX:+UseG1GC", "-XX:ParallelGCThreads=2", "-XX:+UseTransparentHugePages"];
    java_run(place, &options, None, with)
}

fn java_g1_huge(place: &Place, with: bool) -> anyhow::Result<Run> {
    let options = ["-XX:+UseG1GC", "-XX:ParallelGCThreads=2", "-XX:+UseLargePages"];
    java_run(place, &options, None, with)
}

/// Of a file without a page: mlock(2) of its mapping allocates them.
fn vmtouch(place: &Place, with: bool) -> anyhow::Result<Run> {
    let file = tempfile::Builder::new().prefix("memwright-peers").tempfile_in("/dev/shm")?;
    file.as_file().set_len(if with { place.mib << 20 } else { 4096 })?;
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(place.programs.unpacked("usr/bin/vmtouch").get_program());
    command.arg("-l").arg(file.path());
    Ok(Run { command, ready: "LOCKED", file: Some(file) })
}

/// A command in a mount namespace of its own, in which a script has mounted what the command needs: the mounts
/// disappear with it.
fn mounted(place: &Place, script: &str, program: &str) -> Command {
    let mut command = place.programs.unpacked("/usr/bin/unshare");
    let script = format!("{script} && shift && exec \"$@\"");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(place.programs.compiled("mount"));
    command.arg(place.programs.compiled(program));
    command
}

fn hugetlbfs(place: &Place, with: bool) -> anyhow::Result<Run> {
    let mut command = mounted(place, "mount -t hugetlbfs none \"$1\"", "hugetlbfs");
    command.arg(if with { place.mib.to_string() } else { "2".to_owned() });
    Ok(Run { command, ready: "ready", file: None })
}

/// Its files in /run are in a tmpfs of its own.
fn dpdk(place: &Place, with: bool) -> anyhow::Result<Run> {
    let mut command = mounted(place, "mount -t tmpfs none /run", "dpdk");
    command.args(["--no-pci", "--in-memory", "--no-telemetry", "-m"]);
    command.arg(if with { place.mib.to_string() } else { "2".to_owned() });
    Ok(Run { command, ready: "ready", file: None })
}
