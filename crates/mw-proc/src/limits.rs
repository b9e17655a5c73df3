//! `/proc/PID/limits` (2.6.24 and later).

use crate::error::{ParseError, Problem};
use crate::scan;

/// The resource limits of a process that bear on memory, and that of CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rlimits {
    /// Limit of locked memory, in bytes (`RLIMIT_MEMLOCK`).
    pub max_locked_memory: Option<Rlimit>,
    /// Limit of mapped memory, in bytes (`RLIMIT_AS`).
    pub address_space: Option<Rlimit>,
    /// Limit of private writable memory, in bytes (`RLIMIT_DATA`).
    pub data_size: Option<Rlimit>,
    /// The first thread's stack, in bytes (`RLIMIT_STACK`).
    pub stack: Option<Rlimit>,
    /// Not enforced, in bytes (`RLIMIT_RSS`).
    pub resident_set: Option<Rlimit>,
    /// Processes and threads of the user (`RLIMIT_NPROC`).
    pub max_processes: Option<Rlimit>,
    /// CPU time, in seconds (`RLIMIT_CPU`): the kernel kills at the hard limit.
    pub cpu_time: Option<Rlimit>,
    /// One more than the highest descriptor (`RLIMIT_NOFILE`).
    pub open_files: Option<Rlimit>,
}

/// A limit; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rlimit {
    pub soft: Option<u64>,
    /// Value to which the process may raise it.
    pub hard: Option<u64>,
}

impl Rlimits {
    /// Reads the file.
    ///
    /// # Errors
    /// When a known line lacks a value, or no line is known.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut limits = Self::default();
        let mut known = false;
        let mut last = 1;
        for line in scan::lines(text) {
            last = line.number;
            let Some((slot, values)) = limits.slot(line.text) else { continue };
            *slot = Some(line.at(limit(values))?);
            known = true;
        }
        if known { Ok(limits) } else { Err(ParseError::new(last, Problem::Expected("limits"))) }
    }

    fn slot<'a>(&mut self, line: &'a [u8]) -> Option<(&mut Option<Rlimit>, &'a [u8])> {
        let slots = [
            (&b"Max locked memory "[..], &mut self.max_locked_memory),
            (b"Max address space ", &mut self.address_space),
            (b"Max data size ", &mut self.data_size),
            (b"Max stack size ", &mut self.stack),
            (b"Max resident set ", &mut self.resident_set),
            (b"Max processes ", &mut self.max_processes),
            (b"Max open files ", &mut self.open_files),
            (b"Max cpu time ", &mut self.cpu_time),
        ];
        slots.into_iter().find_map(|(name, slot)| Some((slot, line.strip_prefix(name)?)))
    }
}

/// The soft and the hard limit; a unit follows, which shows that the hard one is whole.
fn limit(text: &[u8]) -> Result<Rlimit, Problem> {
    let mut fields = scan::fields(text);
    let soft = value(fields.next())?;
    let hard = value(fields.next())?;
    fields.next().ok_or(Problem::Expected("a unit"))?;
    Ok(Rlimit { soft, hard })
}

fn value(field: Option<&[u8]>) -> Result<Option<u64>, Problem> {
    match field {
        None => Err(Problem::Expected("a limit")),
        Some(b"unlimited") => Ok(None),
        Some(number) => scan::parse_u64(number).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             unlimited            unlimited            bytes     
Max data size             unlimited            unlimited            bytes     
Max stack size            8388608              unlimited            bytes     
Max core file size        0                    unlimited            bytes     
Max resident set          unlimited            unlimited            bytes     
Max processes             96365                96366                processes 
Max open files            20000                20001                files     
Max locked memory         65536                8388608              bytes     
Max address space         unlimited            unlimited            bytes     
Max nice priority         0                    0                    
";

    #[test]
    fn reads() {
        let limits = Rlimits::parse(TEXT).unwrap();
        let limit = |soft, hard| Some(Rlimit { soft, hard });
        assert_eq!(limits.max_locked_memory, limit(Some(65536), Some(8_388_608)));
        assert_eq!(limits.stack, limit(Some(8_388_608), None));
        assert_eq!(limits.cpu_time, limit(None, None));
        assert_eq!(limits.address_space, limit(None, None));
        assert_eq!(limits.data_size, limit(None, None));
        assert_eq!(limits.resident_set, limit(None, None));
        assert_eq!(limits.max_processes, limit(Some(96365), Some(96366)));
        assert_eq!(limits.open_files, limit(Some(20000), Some(20001)));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(Rlimits::parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Expected("limits"));
        refuse(b"Limit\nMax processes x y processes\n", 2, Problem::NotANumber);
        refuse(b"Max processes 1\n", 1, Problem::Expected("a limit"));
        refuse(b"Max processes 1 2\n", 1, Problem::Expected("a unit"));
        refuse(b"Max locked memory         65536                8388", 1, Problem::Truncated);
        let absent = Rlimits::parse(b"Max open files 1 2 files\n").unwrap();
        assert_eq!(absent.max_locked_memory, None);
    }
}
