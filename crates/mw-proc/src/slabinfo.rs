//! `/proc/slabinfo`, version 2.0 and 2.1 (2.6.10 and later); root only.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most caches that are read (a kernel has some hundreds; cgroup v1 multiplied them).
pub const MAX_SLABS: usize = 1 << 20;

/// One cache of kernel objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slab {
    pub name: String,
    pub active_objects: u64,
    /// Capacity in objects.
    pub objects: u64,
    /// The size of an object.
    pub object_bytes: u64,
    pub objects_per_slab: u64,
    /// Pages in a slab.
    pub pages_per_slab: u64,
    pub active_slabs: u64,
    pub slabs: u64,
}

impl Slab {
    /// Bytes that the cache takes, its gaps included.
    #[must_use]
    pub const fn bytes(&self, page_bytes: u64) -> u64 {
        self.slabs.saturating_mul(self.pages_per_slab).saturating_mul(page_bytes)
    }
}

/// Reads the caches below the two lines of heading.
///
/// # Errors
/// When the version is another, or a line lacks a number.
pub fn parse(text: &[u8]) -> Result<Vec<Slab>, ParseError> {
    let mut lines = scan::lines(text);
    let heading = lines.next().ok_or(ParseError::new(1, Problem::Empty))?;
    if !heading.text.starts_with(b"slabinfo - version: 2.") {
        return Err(heading.error(Problem::Expected("slabinfo - version: 2")));
    }
    let mut slabs = Vec::new();
    for line in lines.filter(|line| !line.text.starts_with(b"#")) {
        if slabs.len() >= MAX_SLABS {
            return Err(line.error(Problem::TooMany("caches")));
        }
        slabs.push(read(&line)?);
    }
    Ok(slabs)
}

/// `name 5 numbers : tunables 3 numbers : slabdata 3 numbers`.
fn read(line: &Line<'_>) -> Result<Slab, ParseError> {
    line.whole()?;
    let expected = Problem::Expected("name : tunables : slabdata");
    let (name, rest) = scan::first_field(line.text);
    let (objects, rest) = line.at(scan::split_once(rest, b':').ok_or(expected))?;
    let (_tunables, rest) = line.at(scan::split_once(rest, b':').ok_or(expected))?;
    let (word, data) = scan::first_field(rest);
    if word != b"slabdata" {
        return Err(line.error(expected));
    }
    let mut objects = scan::fields(objects);
    let mut data = scan::fields(data);
    Ok(Slab {
        name: scan::lossy(name),
        active_objects: line.next_u64(&mut objects)?,
        objects: line.next_u64(&mut objects)?,
        object_bytes: line.next_u64(&mut objects)?,
        objects_per_slab: line.next_u64(&mut objects)?,
        pages_per_slab: line.next_u64(&mut objects)?,
        active_slabs: line.next_u64(&mut data)?,
        slabs: line.next_u64(&mut data)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
btrfs_ordered_extent      0      0    416   19    2 : tunables    0    0    0 : slabdata      0      0      0
:at-0000104       81138  82432     32  128    1 : tunables    0    0    0 : slabdata    643    644      0
";

    #[test]
    fn reads() {
        let slabs = parse(TEXT).unwrap();
        assert_eq!(slabs.len(), 2);
        assert_eq!((slabs[0].name.as_str(), slabs[0].object_bytes), ("btrfs_ordered_extent", 416));
        assert_eq!((slabs[0].objects_per_slab, slabs[0].pages_per_slab), (19, 2));
        assert_eq!(slabs[1].name, ":at-0000104");
        assert_eq!((slabs[1].active_objects, slabs[1].objects), (81138, 82432));
        assert_eq!((slabs[1].active_slabs, slabs[1].slabs), (643, 644));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        let expected = Problem::Expected("name : tunables : slabdata");
        refuse(b"", 1, Problem::Empty);
        refuse(b"slabinfo - version: 1.1\n", 1, Problem::Expected("slabinfo - version: 2"));
        refuse(b"slabinfo - version: 2.0\na 1 2 3 4 5\n", 2, expected);
        refuse(b"slabinfo - version: 2.0\na 1 2 : t : s\n", 2, expected);
        let lacking = Problem::Expected("a number");
        refuse(b"slabinfo - version: 2.0\na 1 2 : t : slabdata 1 1 1\n", 2, lacking);
        refuse(b"slabinfo - version: 2.0\na 1 2", 2, Problem::Truncated);
    }
}
