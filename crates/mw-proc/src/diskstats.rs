//! `/proc/diskstats` of kernels 2.6 to 6.18. A sector is 512 bytes, whatever the disk's own.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The bytes in a sector of this file.
pub const SECTOR_BYTES: u64 = 512;
/// Between the name and the counters that this parser reads all of.
const COUNTERS: usize = 11;

/// The counters of a disk or partition since it appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStat<'a> {
    pub major: u32,
    pub minor: u32,
    /// The device's name below `/dev`.
    pub name: &'a str,
    pub reads: u64,
    /// Sectors read, of [`SECTOR_BYTES`].
    pub sectors_read: u64,
    /// Time that reads took, summed, in milliseconds.
    pub read_ms: u64,
    pub writes: u64,
    /// Sectors written, of [`SECTOR_BYTES`].
    pub sectors_written: u64,
    /// Time that writes took, summed, in milliseconds.
    pub write_ms: u64,
    pub in_flight: u64,
    /// Time with requests under way, in milliseconds.
    pub io_ms: u64,
}

/// Shows each disk in the kernel's order; it allocates nothing. Partitions of kernels before 2.6.25
/// have four counters only and are left out.
///
/// # Errors
/// When a line lacks a column or a number; the disks before it have been shown.
pub fn each(text: &[u8], mut show: impl FnMut(DiskStat<'_>)) -> Result<(), ParseError> {
    for line in scan::lines(text) {
        if let Some(disk) = read(&line)? {
            show(disk);
        }
    }
    Ok(())
}

fn read<'a>(line: &Line<'a>) -> Result<Option<DiskStat<'a>>, ParseError> {
    line.whole()?;
    let mut fields = line.fields();
    let mut number =
        || line.at(fields.next().ok_or(Problem::Expected("a number")).and_then(scan::parse_u32));
    let (major, minor) = (number()?, number()?);
    let name = fields.next().and_then(|name| std::str::from_utf8(name).ok());
    let name = line.at(name.ok_or(Problem::Expected("a name")))?;
    let mut counters = [0; COUNTERS];
    let mut found = 0_usize;
    for (slot, field) in counters.iter_mut().zip(fields) {
        *slot = line.at(scan::parse_u64(field))?;
        found = found.saturating_add(1);
    }
    let [
        reads,
        _,
        sectors_read,
        read_ms,
        writes,
        _,
        sectors_written,
        write_ms,
        in_flight,
        io_ms,
        _,
    ] = counters;
    match found {
        4 => Ok(None),
        COUNTERS => Ok(Some(DiskStat {
            major,
            minor,
            name,
            reads,
            sectors_read,
            read_ms,
            writes,
            sectors_written,
            write_ms,
            in_flight,
            io_ms,
        })),
        _ => Err(line.error(Problem::Expected("11 counters"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = b"   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 47653 6832 2385042 8493 8760 8130 597608 1813 1 5284 10589 3510 67 196472 243 971 38
";
    const V2_6_18: &[u8] = b"   8    0 sda 11 12 13 14 15 16 17 18 19 20 21
   8    1 sda1 1 2 3 4
";

    fn parse(text: &[u8]) -> Result<Vec<DiskStat<'static>>, ParseError> {
        let mut disks = Vec::new();
        each(text, |disk| {
            let name = if disk.name == "vda" { "vda" } else { "another" };
            disks.push(DiskStat { name, ..disk });
        })?;
        Ok(disks)
    }

    #[test]
    fn newest() {
        let disks = parse(V6_18).unwrap();
        let vda = &disks[1];
        assert_eq!((vda.major, vda.minor, vda.name), (254, 0, "vda"));
        assert_eq!((vda.reads, vda.sectors_read, vda.read_ms), (47653, 2_385_042, 8493));
        assert_eq!((vda.writes, vda.sectors_written, vda.write_ms), (8760, 597_608, 1813));
        assert_eq!((vda.in_flight, vda.io_ms), (1, 5284));
    }

    #[test]
    fn oldest() {
        let disks = parse(V2_6_18).unwrap();
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].reads, disks[0].io_ms), (11, 20));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"8 0\n", 1, Problem::Expected("a name"));
        refuse(b"8 0 sda 1 2 3\n", 1, Problem::Expected("11 counters"));
        refuse(b"8 0 sda 1 2 3 x\n", 1, Problem::NotANumber);
        refuse(b"8 0 sda 1 2 3 4 5 6 7 8 9 10 11", 1, Problem::Truncated);
        assert_eq!(parse(b""), Ok(vec![]));
    }
}
