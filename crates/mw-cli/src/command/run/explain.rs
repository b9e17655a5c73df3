//! What would be done for a command, and what keeps it from being done.

use super::elf::ExecutableKind;
use super::library::Library;
use super::preload::fits;
use super::program::Executable;
use super::seccomp::{filter_allows, filters};
use crate::args::{HugePolicy, Prefault, RunArgs};
use mw_iotune::environment::{RELEASE_FACTOR, THRESHOLD_DEFAULT_BYTES};
use mw_model::format_bytes;
use std::fmt::Write;

/// The verdict, then what is done, then what keeps it from being done.
pub(super) fn text(
    args: &RunArgs,
    program: &Executable,
    library: &Result<Library, String>,
) -> String {
    let obstacles = obstacles(program, library);
    let name = program.path.display();
    let verdict = match obstacles.len() {
        0 => "would run with its large memory populated, locked and freed in parallel.",
        _ => "would run unchanged:",
    };
    let mut text = format!("{name} {verdict}\n");
    for obstacle in &obstacles {
        let _ = writeln!(text, "  {obstacle}");
    }
    text += &done(args);
    if let Ok(library) = library {
        let _ = writeln!(text, "\nLibrary: {}", library.path.display());
    }
    if let Some(interpreter) = &program.interpreter {
        let _ = writeln!(text, "Run by:  {}", interpreter.display());
    }
    text
}

/// Obstacles that keep the library from helping.
fn obstacles(program: &Executable, library: &Result<Library, String>) -> Vec<String> {
    let mut obstacles = Vec::new();
    match (&program.kind, library) {
        (ExecutableKind::Static(_), _) => {
            obstacles.push("a static program: no library is loaded into it".into())
        }
        (ExecutableKind::Go(_), _) => {
            obstacles.push("a Go program: it makes its own system calls".into());
        }
        (ExecutableKind::Unknown | ExecutableKind::Script | ExecutableKind::Library(_), _) => {
            obstacles.push("not a program that libraries are loaded into".into());
        }
        (ExecutableKind::Dynamic(_), Ok(library)) => {
            obstacles.extend(fits(program, library).err());
        }
        (ExecutableKind::Dynamic(_), Err(_)) => {}
    }
    obstacles.extend(library.as_ref().err().cloned());
    if program.is_privileged {
        obstacles.push(
            "it is privileged (setuid, setgid or capabilities): the dynamic \
             linker ignores LD_PRELOAD"
                .into(),
        );
    }
    if !mw_sys::can_populate() {
        obstacles.push("this kernel cannot populate memory for others; 5.14 can".into());
    }
    if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
        obstacles.push("only one CPU may be used: allow two (affinity, cpuset, quota)".into());
    }
    let filtered =
        library.as_ref().is_ok_and(|library| filters() > 0 && !filter_allows(&library.path));
    if filtered {
        obstacles.push("a seccomp filter blocks the library".into());
    }
    obstacles
}

fn done(args: &RunArgs) -> String {
    let threshold = args.threshold.unwrap_or(THRESHOLD_DEFAULT_BYTES);
    let mut text = format!("\nIn parallel, {} or more:\n", format_bytes(threshold));
    for line in [
        "mlock, mlock2, mlockall          populated, then locked by the kernel's own call",
        "mmap with POPULATE or LOCKED     populated; anonymous memory, tmpfs, hugetlbfs",
        "madvise POPULATE_READ and _WRITE populated",
    ] {
        let _ = writeln!(text, "  {line}");
    }
    let release = format_bytes(threshold.saturating_mul(RELEASE_FACTOR));
    let _ = writeln!(text, "  madvise DONTNEED, munmap, shmdt  freed, {release} or more");
    if args.lock || args.prefault == Some(Prefault::Now) {
        text += "  mmap, shmat                      populated at once (--prefault=now, --lock)\n";
    } else if args.prefault.is_some() {
        text += "  mmap, shmat                      populated in the background (--prefault)\n";
        text += "  malloc                           not populated in advance: its mmap is not visible\n";
    }
    if args.lock {
        text += "  all memory                       locked as it is touched (--lock)\n";
    }
    if let Some(pool) = &args.pool {
        let _ = writeln!(
            text,
            "  mmap of shared anonymous memory  a mapping of what pool {pool} has ready"
        );
    }
    text += &huge(args.huge);
    text += &direct_io(args);
    text
}

fn huge(policy: Option<HugePolicy>) -> String {
    let huge = match policy {
        None => return String::new(),
        Some(HugePolicy::Never) => "none, for the command and all that it starts",
        Some(HugePolicy::Auto) => "for what is populated at once, where enough are free",
        Some(HugePolicy::Always) => "for all large private memory",
    };
    format!("  transparent huge pages           {huge}\n")
}

/// Transfers that are kept out of the page cache.
fn direct_io(args: &RunArgs) -> String {
    let Some(size) = args.direct_io.map(format_bytes) else {
        return "\nOut of the page cache: what 'memwright iotune' has set per path.\n".to_owned();
    };
    let mut text = format!("\nOut of the page cache, {size} or more (files on disks):\n");
    for line in [
        "write, pwrite                    by RWF_DONTCACHE where kernel (6.16) and filesystem have it",
        "writev, sendfile, copy_file_range, runs of small writes",
        "                                 written to the disk behind the program, then dropped",
    ] {
        let _ = writeln!(text, "  {line}");
    }
    if args.direct_io_reads {
        text += "  read, pread, readv, preadv       likewise (--direct-io-reads)\n";
    }
    text
}
