//! Units, and how values are aggregated.

/// Unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    /// Base pages; lines `HugePages_*` of meminfo count huge pages.
    Pages,
    /// Free blocks of an order.
    Blocks,
    /// Events, or pages that an event concerned.
    Events,
    Microseconds,
    Milliseconds,
    /// Hundredths of a percent.
    Centipercent,
    /// A number without a unit, or the unit of another version's metric.
    Count,
}

/// Aggregation of the values of several rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregation {
    /// The last one: counters since boot, and amounts.
    Last,
    /// The largest: the worst since the row before.
    Max,
    /// Their sum: events since the row before.
    Sum,
}
