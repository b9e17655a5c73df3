//! `/proc/net/netstat`: how often the queue of a listening socket was full (any kernel).

use crate::error::{ParseError, Problem};
use crate::scan;

/// Connections that no listening socket of the network namespace took, since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListenDrops {
    /// The queue was full.
    pub overflows: Option<u64>,
    /// For any reason.
    pub drops: Option<u64>,
}

impl ListenDrops {
    /// Reads the line of names that begins with `TcpExt:` and the line of values behind it.
    ///
    /// # Errors
    /// When there are no such two lines, or a value is no number.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut lines = scan::lines(text).filter(|line| line.text.starts_with(b"TcpExt:"));
        let missing = ParseError::new(1, Problem::Expected("two lines TcpExt:"));
        let names = lines.next().ok_or(missing)?;
        let values = lines.next().ok_or(missing)?;
        let mut found = Self::default();
        for (name, value) in names.fields().zip(values.fields()) {
            let slot = match name {
                b"ListenOverflows" => &mut found.overflows,
                b"ListenDrops" => &mut found.drops,
                _ => continue,
            };
            *slot = Some(values.at(scan::parse_u64(value))?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_paired() {
        let text = b"TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 33\n\
            IpExt: InNoRoutes\nIpExt: 0\n";
        let expected = ListenDrops { overflows: Some(22), drops: Some(33) };
        assert_eq!(ListenDrops::parse(text), Ok(expected));
        assert!(ListenDrops::parse(b"TcpExt: ListenDrops\n").is_err());
        assert!(ListenDrops::parse(b"TcpExt: ListenDrops\nTcpExt: x\n").is_err());
    }
}
