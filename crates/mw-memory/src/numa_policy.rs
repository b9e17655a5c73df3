//! Memory policies (mempolicy(7)).

/// The NUMA nodes that pages come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum NumaPolicy {
    /// As the policy of the thread that populates them says (`MPOL_DEFAULT`).
    #[default]
    Default,
    /// From the node of the CPU that populates them (`MPOL_LOCAL`).
    Local,
    /// From these nodes only (`MPOL_BIND`).
    Bind(Vec<u32>),
    /// From these nodes in turn, page by page (`MPOL_INTERLEAVE`).
    Interleave(Vec<u32>),
}

impl NumaPolicy {
    /// The nodes that it names.
    #[must_use]
    pub fn nodes(&self) -> &[u32] {
        match self {
            Self::Default | Self::Local => &[],
            Self::Bind(nodes) | Self::Interleave(nodes) => nodes,
        }
    }
}
