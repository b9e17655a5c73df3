//! Kernel profiles for the programs that show them, one file a format. In all of them a task is the
//! outermost frame of its stacks.

pub mod collapsed;
pub mod pprof;
pub mod speedscope;

#[cfg(test)]
fn example() -> mw_model::Profile {
    use mw_model::{Profile, Stack};
    let stack = |task: &str, frames: &[u32], samples| Stack {
        task: task.to_owned(),
        pid: 7,
        frames: frames.to_vec(),
        samples,
    };
    Profile {
        hz: 999,
        cpus: 2,
        span_ms: 5_000,
        functions: ["do_syscall_64", "__alloc_pages", "compaction_alloc"]
            .map(str::to_owned)
            .to_vec(),
        // A frame that has no name, as a profile from outside may have.
        stacks: vec![stack("mysqld", &[0, 1, 2], 40), stack("a;b\n", &[0], 2), stack("x", &[9], 1)],
        ..Profile::default()
    }
}
