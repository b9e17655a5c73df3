//! Kernel stacks, and how often they were seen.

use serde::{Deserialize, Serialize};

/// Kernel stacks sampled over an interval on every CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Samples a second that each CPU was asked for.
    pub hz: u32,
    pub cpus: u32,
    /// Duration of the samples, in milliseconds.
    pub span_ms: u64,
    /// After how long the first stack of a task was taken, in microseconds; `None` where none was, or
    /// of a baseline.
    #[serde(default)]
    pub first_us: Option<u64>,
    /// Names of functions, each once.
    pub functions: Vec<String>,
    pub stacks: Vec<Stack>,
    /// Records that the kernel or the reader had to drop.
    pub lost: u64,
}

/// One stack, of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Name of the task (`comm`).
    pub task: String,
    /// The process, 0 where several of that name are summed up.
    pub pid: u32,
    /// Indices into [`Profile::functions`], outermost first.
    pub frames: Vec<u32>,
    /// Number of samples.
    pub samples: u64,
}

impl Profile {
    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.samples).sum()
    }

    /// The name of a frame; a profile from outside may name a function that it does not have.
    pub fn function(&self, frame: u32) -> &str {
        self.functions.get(frame as usize).map_or("[unknown]", String::as_str)
    }

    /// The names of a stack's functions, outermost first.
    pub fn names<'a>(&'a self, stack: &'a Stack) -> impl DoubleEndedIterator<Item = &'a str> {
        stack.frames.iter().map(|frame| self.function(*frame))
    }
}

/// Change of the share of CPU time that a function took during a stall, against the time before it.
///
/// Shares are of all CPU time, idle included, in percent: an idle machine's profile and a
/// busy one's can be compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    pub function: String,
    /// Its share with what it calls, before.
    pub before_percent: f64,
    /// Its share with what it calls, during.
    pub during_percent: f64,
    /// Its share by itself, before.
    pub before_self_percent: f64,
    /// Its share by itself, during.
    pub during_self_percent: f64,
}
