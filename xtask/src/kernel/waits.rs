//! Stacks of processes that wait by construction (lab/waits/waits.c), recorded in each kernel and judged by the table of
//! waits.

use super::store::StoredKernel;
use crate::workspace::{compile_c, root};
use mw_critical_path::{Wait, wait_of};
use std::path::Path;

const SOURCE: &str = "lab/waits/waits.c";

/// What a process of each kind waits for.
const KINDS: &[(&str, Wait)] = &[
    ("accept", Wait::Socket),
    ("aio", Wait::AsyncIo),
    ("child", Wait::Child),
    ("datagram", Wait::Socket),
    ("epoll", Wait::Poll),
    ("eventfd", Wait::Pipe),
    ("fifo", Wait::Pipe),
    ("flock", Wait::FileLock),
    ("frozen", Wait::CgroupFrozen),
    ("futex", Wait::Futex),
    ("message", Wait::Pipe),
    ("pause", Wait::Signal),
    ("pipe", Wait::Pipe),
    ("pipe-room", Wait::Pipe),
    ("poll", Wait::Poll),
    ("select", Wait::Poll),
    ("semaphore", Wait::Futex),
    ("sigtimedwait", Wait::Signal),
    ("sleep", Wait::Sleep),
    ("terminal", Wait::Terminal),
    ("timerfd", Wait::Sleep),
    ("unix-socket", Wait::Socket),
    ("userfault", Wait::Userfault),
    ("vfork", Wait::Child),
];

/// Compiles the program for a guest of this machine's architecture into `bin`.
pub(crate) fn compile(architecture: &str, bin: &Path) -> anyhow::Result<()> {
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    if architecture == own {
        compile_c(&root().join(SOURCE), bin)?;
    }
    Ok(())
}

/// Waits that the table takes for others.
pub(crate) fn problems(kernel: &StoredKernel) -> Vec<String> {
    let text = kernel.file("waits");
    let stacks = text.split("== ").filter_map(|section| section.split_once('\n'));
    let mut problems = Vec::new();
    for (kind, functions) in stacks {
        let stack: Vec<String> = functions.lines().map(str::to_owned).collect();
        let expected = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, wait)| *wait);
        let judged = wait_of(&stack);
        if judged.is_none() || judged != expected {
            problems.push(format!(
                "{}: a wait of kind {kind} is {judged:?}, not {expected:?}: {}",
                kernel.name,
                stack.join(" < ")
            ));
        }
    }
    problems
}
