//! `/proc/cgroups`: how many groups each controller's hierarchy has, deleted ones included that something still refers to.

use crate::error::ParseError;
use crate::scan;

/// The hierarchy of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CgroupCount {
    /// Its number; 0 is the unified one (version 2), whose groups need not have the controller.
    pub hierarchy: u32,
    pub groups: u64,
}

/// The hierarchy of the memory controller; none where the kernel has no such controller, or does not list it.
///
/// # Errors
/// When a line is cut, or that of the controller has no numbers.
pub fn parse_memory(text: &[u8]) -> Result<Option<CgroupCount>, ParseError> {
    let mut found = None;
    for line in scan::lines(text) {
        line.whole()?;
        let mut fields = line.fields();
        if fields.next() != Some(b"memory") {
            continue;
        }
        let hierarchy = line.next_u64(&mut fields)?;
        let groups = line.next_u64(&mut fields)?;
        let hierarchy = u32::try_from(hierarchy).unwrap_or(u32::MAX);
        found = Some(CgroupCount { hierarchy, groups });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Problem;

    #[test]
    fn reads() {
        let text = b"#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t4\t61\t1\nmemory\t11\t188\t1\n";
        let memory = CgroupCount { hierarchy: 11, groups: 188 };
        assert_eq!(parse_memory(text), Ok(Some(memory)));
        assert_eq!(parse_memory(b"cpuset\t4\t61\t1\n"), Ok(None));
        let problem = |text: &[u8]| parse_memory(text).unwrap_err().problem;
        assert_eq!(problem(b"memory\tx\t1\t1\n"), Problem::NotANumber);
        assert_eq!(problem(b"memory\t1\t1"), Problem::Truncated);
    }
}
