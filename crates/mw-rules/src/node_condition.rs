//! Conditions of a Kubernetes node.

/// A condition of a node, true where there is a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCondition {
    MemoryFragmented,
    HugePagesUnavailable,
    /// Of rules that go by rates and pressure: a setting or a counter since boot is no stall of now.
    MemoryStalling,
}

impl NodeCondition {
    pub const ALL: [Self; 3] =
        [Self::MemoryFragmented, Self::HugePagesUnavailable, Self::MemoryStalling];

    /// The type of the condition, as Kubernetes has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryFragmented => "MemoryFragmented",
            Self::HugePagesUnavailable => "HugePagesUnavailable",
            Self::MemoryStalling => "MemoryStalling",
        }
    }

    /// Reason and message of a node without the problem.
    pub fn fine(self) -> (&'static str, &'static str) {
        match self {
            Self::MemoryFragmented => ("MemoryIsNotFragmented", "free memory is in large blocks"),
            Self::HugePagesUnavailable => {
                ("HugePagesAreAvailable", "the configured huge pages are reserved")
            }
            Self::MemoryStalling => ("MemoryIsNotStalling", "tasks do not wait for memory"),
        }
    }
}
