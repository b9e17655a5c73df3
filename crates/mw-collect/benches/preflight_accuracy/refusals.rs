//! "No" is right when the kernel refuses or kills, "yes" when the memory is allocated.

use crate::{Failure, accuracy, ask};
use mw_model::Request;
use mw_test::{HugePages, TestCgroup};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

const MIB: u64 = 1 << 20;
const HUGE: u64 = 2 * MIB;

/// What the child says in its exit status of what the kernel did.
const ALLOCATED: u8 = 10;
const REFUSED: u8 = 11;

/// Runs all refusals; whether every answer was right.
pub(crate) fn run() -> Result<bool, Failure> {
    println!("\nAnswers that must be right:");
    let mut right = true;
    {
        let _alone = mw_test::alone();
        let pool = HugePages::more(HUGE as usize, 32).ok_or("the kernel makes no 32 huge pages")?;
        let pages = pool.free();
        right &= check("pool", &[], &format!("{},huge=2M", pages * HUGE), false)?;
        right &=
            check("pool, one page more", &[], &format!("{},huge=2M", (pages + 1) * HUGE), true)?;
    }
    right &= check("pool that is empty", &[], "1G,huge=1G", true)?;
    right &= check("node that is not there", &[], "16M,node=63", true)?;
    let memory = mw_collect::window(&mw_collect::Source::live()?).now.sample;
    let total = mw_model::derived::memory_bytes(&memory)?;
    if overcommit_is_heuristic()? {
        // Without the heuristic the kernel would let the child begin.
        right &= check("more than there is", &[], &(2 * total).to_string(), true)?;
    }
    right &= check("RLIMIT_MEMLOCK", &["memlock=8M"], "4M,lock", false)?;
    right &= check("RLIMIT_MEMLOCK", &["memlock=8M"], "64M,lock", true)?;
    right &= check("RLIMIT_MEMLOCK, unlocked", &["memlock=8M"], "64M", false)?;
    match TestCgroup::with_memory(256 * MIB) {
        Ok(group) => {
            let argument = format!("cgroup={}", group.path().display());
            for (size, no) in [("128M", false), ("128M,lock,huge=thp", false), ("512M", true)] {
                right &= check("cgroup of 256 MiB", &[&argument], size, no)?;
            }
        }
        Err(error) => println!("skipped: cgroup: {error}"),
    }
    Ok(right)
}

fn overcommit_is_heuristic() -> Result<bool, Failure> {
    Ok(std::fs::read_to_string("/proc/sys/vm/overcommit_memory")?.trim() == "0")
}

/// Asks and tries in a child; whether the answer was as expected and the kernel did so.
fn check(what: &str, settings: &[&str], request: &str, expect_no: bool) -> Result<bool, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.arg("--child").arg(request).args(settings).output()?;
    let summary = String::from_utf8_lossy(&output.stdout);
    let said_no = summary.lines().any(|line| line.starts_with("no:"));
    let (allocated, kernel) = match (output.status.code(), output.status.signal()) {
        (Some(code), _) if code == i32::from(ALLOCATED) => (true, "allocated".to_owned()),
        (Some(code), _) if code == i32::from(REFUSED) => (false, "refused".to_owned()),
        (None, Some(signal)) => (false, format!("killed by signal {signal}")),
        _ => return Err(String::from_utf8_lossy(&output.stderr).into()),
    };
    let right = !summary.is_empty() && said_no == expect_no && said_no != allocated;
    let verdict = if right { "right" } else { "WRONG" };
    println!("  {verdict}  {what:<24} {kernel:<18} {}", summary.trim_end());
    Ok(right)
}

/// The child: settings after the request are applied to itself first.
pub(crate) fn child(arguments: &[String]) -> ExitCode {
    match answer_and_try(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("child: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer_and_try(arguments: &[String]) -> Result<u8, Failure> {
    let (request, settings) = arguments.split_first().ok_or("no request")?;
    let request: Request = request.parse()?;
    for setting in settings {
        apply(setting)?;
    }
    let (preflight, _) = ask(&request)?;
    println!("{}", preflight.summary);
    Ok(match accuracy::take(&request) {
        Ok(_) => ALLOCATED,
        Err(_) => REFUSED,
    })
}

fn apply(setting: &str) -> Result<(), Failure> {
    match setting.split_once('=') {
        Some(("memlock", size)) => {
            mw_sys::set_memlock_limit_bytes(mw_model::parse_size(size)?)?;
            mw_sys::drop_capability(mw_sys::Capability::IpcLock)?;
        }
        Some(("cgroup", dir)) => {
            let file = Path::new(dir).join("cgroup.procs");
            std::fs::write(file, std::process::id().to_string())?;
        }
        _ => return Err(format!("{setting} is no setting").into()),
    }
    Ok(())
}
