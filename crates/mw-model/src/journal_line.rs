//! Lines of the journal of systemd.

/// A line of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalLine {
    pub unix_ms: u64,
    pub message: String,
    /// The unit of the system whose process wrote it.
    pub unit: Option<String>,
    pub is_of_kernel: bool,
    /// The system's manager wrote it.
    pub is_of_manager: bool,
}
