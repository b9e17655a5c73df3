//! Commands that raise a limit of a running process.

use mw_model::Step;
use mw_proc::limits::Rlimit;

/// The command that raises the soft limit. With one value prlimit(1) sets the hard limit as well, below which only root gets
/// out again: where that is high enough, it is left alone.
pub(crate) fn raise_rlimit(pid: u32, option: &str, limit: Rlimit, raised: u64) -> Step {
    let keeps_hard = if limit.hard.is_none_or(|hard| hard >= raised) { ":" } else { "" };
    Step::manual(format!("prlimit --pid {pid} --{option}={raised}{keeps_hard}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hard_limit_that_is_high_enough_is_left_alone() {
        let command = |hard| {
            format!("{:?}", raise_rlimit(7, "nofile", Rlimit { soft: Some(1024), hard }, 2048))
        };
        assert!(command(Some(524_288)).contains("prlimit --pid 7 --nofile=2048:"));
        assert!(command(None).contains("--nofile=2048:"));
        assert!(command(Some(1024)).contains("--nofile=2048\""));
    }
}
