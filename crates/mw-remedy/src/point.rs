//! The moments between two steps, so that a test can kill memwright at each of them.

/// A step that was just completed for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeProgress {
    pub change: u64,
    pub moment: ChangeStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeStep {
    /// The journal is locked and has room; nothing was written for this change.
    Begun,
    /// The change is in the journal.
    Planned,
    /// The kernel's file was written.
    Written,
    /// It read back, and the journal has recorded it.
    Applied,
    /// The journal says that a file of ours is about to be written.
    Persisting,
    /// The new content lies beside the file of ours.
    FileWritten,
    /// The file of ours has its new content.
    FileInPlace,
    /// The journal has recorded it.
    Persisted,
    /// The journal says that the change failed.
    Failed,
    /// The journal says that the former value is about to be written.
    Restoring,
    /// One kernel file has its former value again.
    Restored,
    /// Our line is gone from the file of ours.
    FileTakenBack,
    /// The journal has recorded the revert.
    Closed,
}

/// Observes every step.
pub type Observer<'a> = &'a mut dyn FnMut(ChangeProgress);

/// An observer that does nothing.
pub fn nobody(_: ChangeProgress) {}
