//! `/proc/net/sockstat`: sockets by protocol, any kernel. Nothing is allocated.

use crate::error::{ParseError, Problem};
use crate::scan;

/// Memory of the buffers of sockets, in base pages, of the whole machine whatever the network namespace. The
/// structures that describe the data are part of it, which slab memory counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sockstat {
    /// Connections of TCP that no process has any more, and whose data are not acknowledged yet.
    pub tcp_orphans: Option<u64>,
    pub tcp_pages: u64,
    /// 2.6.25 and later.
    pub udp_pages: Option<u64>,
}

impl Sockstat {
    /// Reads the file.
    ///
    /// # Errors
    /// When a line is cut, `mem` has no number, or there is no line of TCP.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let (mut tcp, mut udp, mut tcp_orphans) = (None, None, None);
        let mut last = 1;
        for line in scan::lines(text) {
            line.whole()?;
            last = line.number;
            let mut fields = line.fields();
            let protocol = fields.next();
            while let Some(word) = fields.next() {
                let slot = match (protocol, word) {
                    (Some(b"TCP:"), b"mem") => &mut tcp,
                    (Some(b"TCP:"), b"orphan") => &mut tcp_orphans,
                    (Some(b"UDP:"), b"mem") => &mut udp,
                    _ => continue,
                };
                *slot = Some(line.next_u64(&mut fields)?);
            }
        }
        let tcp_pages = tcp.ok_or(ParseError::new(last, Problem::Expected("TCP: mem")))?;
        Ok(Self { tcp_orphans, tcp_pages, udp_pages: udp })
    }

    /// The buffers of all protocols that are counted.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.tcp_pages.saturating_add(self.udp_pages.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"sockets: used 13
TCP: inuse 1 orphan 3 tw 0 alloc 1 mem 123
UDP: inuse 0 mem 7
UDPLITE: inuse 0
RAW: inuse 0
FRAG: inuse 0 memory 0
";

    #[test]
    fn reads() {
        let stat = Sockstat::parse(TEXT).unwrap();
        assert_eq!(stat, Sockstat { tcp_orphans: Some(3), tcp_pages: 123, udp_pages: Some(7) });
        assert_eq!(stat.pages(), 130);
        let old = Sockstat::parse(b"TCP: inuse 1 mem 2\nUDP: inuse 0\n").unwrap();
        assert_eq!((old.tcp_orphans, old.udp_pages, old.pages()), (None, None, 2));
    }

    #[test]
    fn wrong() {
        let problem = |text: &[u8]| Sockstat::parse(text).unwrap_err().problem;
        assert_eq!(problem(b""), Problem::Expected("TCP: mem"));
        assert_eq!(problem(b"TCP: inuse 1\n"), Problem::Expected("TCP: mem"));
        assert_eq!(problem(b"TCP: inuse 1 mem x\n"), Problem::NotANumber);
        assert_eq!(problem(b"TCP: inuse 1 mem 12"), Problem::Truncated);
    }
}
