//! The views.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The most important of everything.
    Overview,
    /// Nodes and zones: watermarks, free blocks, fragmentation.
    Nodes,
    /// Pressure, reclaim, compaction and swap.
    Reclaim,
    Tasks,
    /// Hazards, with what to do.
    Hazards,
    /// The incidents of a recording.
    Incidents,
}
