//! `/proc/sysvipc/shm`: System V shared memory segments. Any kernel; columns are found by their
//! heading, so that old kernels, which lack `rss` and `swap`, are read too.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// The most segments that are read (the kernel has at most 2^24, by default 4096).
pub const MAX_SEGMENTS: usize = 1 << 20;
/// The most columns (6.18 has 16).
const MAX_COLUMNS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShmSegment {
    /// The key, in the kernel a signed number of 32 bits; 0 is private.
    pub key: i64,
    pub shmid: u32,
    /// Permissions and the bits behind the `is_` functions.
    pub mode: u32,
    pub size_bytes: u64,
    /// The process that created it.
    pub creator_pid: u32,
    /// The process that attached or detached it last.
    pub last_pid: u32,
    /// Number of attaches.
    pub attached: u64,
    pub uid: u32,
    pub gid: u32,
    /// Size in memory; old kernels do not print it.
    pub rss_bytes: Option<u64>,
    /// Size in swap; old kernels do not print it.
    pub swap_bytes: Option<u64>,
}

impl ShmSegment {
    /// Destroyed once nothing has it attached any more (`SHM_DEST`).
    #[must_use]
    pub const fn is_destroyed(&self) -> bool {
        self.mode & 0o1000 != 0
    }

    /// Locked into memory by `SHM_LOCK`.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        self.mode & 0o2000 != 0
    }

    /// Made of huge pages (`SHM_HUGETLB`).
    #[must_use]
    pub const fn is_hugetlb(&self) -> bool {
        self.mode & 0o4000 != 0
    }
}

/// Reads the segments below the heading.
///
/// # Errors
/// When the heading is missing, or a line lacks a column or a number.
pub fn parse(text: &[u8]) -> Result<Vec<ShmSegment>, ParseError> {
    let mut lines = scan::lines(text);
    let heading = lines.next().ok_or(ParseError::new(1, Problem::Empty))?;
    let columns: Vec<&[u8]> = heading.fields().take(MAX_COLUMNS).collect();
    for needed in [&b"key"[..], b"shmid", b"perms", b"size", b"nattch"] {
        if !columns.contains(&needed) {
            return Err(heading.error(Problem::Expected("key shmid perms size nattch")));
        }
    }
    let mut segments = Vec::new();
    for line in lines {
        if segments.len() >= MAX_SEGMENTS {
            return Err(line.error(Problem::TooMany("segments")));
        }
        segments.push(read(&line, &columns)?);
    }
    Ok(segments)
}

fn read(line: &Line<'_>, columns: &[&[u8]]) -> Result<ShmSegment, ParseError> {
    let mut segment = ShmSegment::default();
    let mut fields = line.fields();
    for column in columns {
        let field = line.at(fields.next().ok_or(Problem::Expected("a value in every column")))?;
        line.at(segment.set(column, field))?;
    }
    Ok(segment)
}

impl ShmSegment {
    fn set(&mut self, column: &[u8], field: &[u8]) -> Result<(), Problem> {
        match column {
            b"key" => self.key = scan::parse_i64(field)?,
            b"shmid" => self.shmid = scan::parse_u32(field)?,
            b"perms" => self.mode = scan::parse_octal_u32(field)?,
            b"size" => self.size_bytes = scan::parse_u64(field)?,
            b"cpid" => self.creator_pid = scan::parse_u32(field)?,
            b"lpid" => self.last_pid = scan::parse_u32(field)?,
            b"nattch" => self.attached = scan::parse_u64(field)?,
            b"uid" => self.uid = scan::parse_u32(field)?,
            b"gid" => self.gid = scan::parse_u32(field)?,
            b"rss" => self.rss_bytes = Some(scan::parse_u64(field)?),
            b"swap" => self.swap_bytes = Some(scan::parse_u64(field)?),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = b"       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0          0  1600            1073741824  4242  4243      2  1000  1001  1000  1001 1795290000          0 1795290000             536870912                  4096
-559038737          3  6640              67108864   100   100      0     0     0     0     0          0          0 1795290001                     0                     0
";
    const V2_6_18: &[u8] = b"       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime
   1234567      65536   600           34359738368  4242  4243     12   500   500   500   500 1263340000          0 1263340000
";

    #[test]
    fn newest() {
        let all = parse(V6_18).unwrap();
        assert_eq!((all[0].key, all[0].shmid, all[0].mode), (0, 0, 0o1600));
        assert_eq!((all[0].creator_pid, all[0].last_pid, all[0].attached), (4242, 4243, 2));
        assert_eq!((all[0].uid, all[0].gid, all[0].size_bytes), (1000, 1001, 1 << 30));
        assert_eq!((all[0].rss_bytes, all[0].swap_bytes), (Some(1 << 29), Some(4096)));
        assert!(all[0].is_destroyed() && !all[0].is_locked() && !all[0].is_hugetlb());
        assert_eq!(all[1].key, -559_038_737);
        assert!(all[1].is_locked() && all[1].is_hugetlb() && !all[1].is_destroyed());
    }

    #[test]
    fn oldest() {
        let all = parse(V2_6_18).unwrap();
        assert_eq!((all[0].size_bytes, all[0].rss_bytes), (32 << 30, None));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        let heading = Problem::Expected("key shmid perms size nattch");
        refuse(b"", 1, Problem::Empty);
        refuse(b"key shmid\n", 1, heading);
        let lacking = Problem::Expected("a value in every column");
        refuse(b"key shmid perms size nattch\n1 2 600 4\n", 2, lacking);
        refuse(b"key shmid perms size nattch\n1 2 900 4 5\n", 2, Problem::NotANumber);
        refuse(b"key shmid perms size nattch\n1 2 600", 2, Problem::Truncated);
    }
}
