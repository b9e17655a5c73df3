//! The namespaces of a process by their numbers, and whether /proc belongs to the PID namespace of this one.

use std::io;

/// The number of the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const INITIAL_PID_NAMESPACE: u32 = 0xEFFF_FFFC;

/// The number of a namespace of a process: the inode of its link in /proc/PID/ns, such as `pid`. `process` is a number or
/// `self`.
///
/// # Errors
/// readlink(2)'s: `ENOENT` where this kernel has no namespaces of the kind.
pub fn namespace_number(process: &str, link: &str) -> io::Result<u32> {
    let target = crate::kernel_file::read_link(format!("/proc/{process}/ns/{link}"))?;
    let number =
        target.to_str().and_then(|text| text.split_once('[')?.1.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Relation between the process numbers of this machine and those of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PidNamespace {
    /// The initial one: the numbers of tracepoints, of the kernel log and of /proc are the same.
    Initial,
    /// A nested one. /proc has its processes; tracepoints and the kernel log number as the initial one does.
    Nested,
    /// This process is in another PID namespace than the one that /proc was mounted for: a number of /proc is that of
    /// another process here.
    NotOfProc,
}

impl PidNamespace {
    /// That of this process.
    ///
    /// # Errors
    /// /proc is not mounted, or may not be read.
    pub fn of_this_process() -> io::Result<Self> {
        // There is no such link in the /proc of a namespace in which this process has no number.
        let status = match crate::kernel_file::read_to_string("/proc/self/status") {
            Ok(status) => status,
            Err(_) if std::fs::exists("/proc/stat")? => return Ok(Self::NotOfProc),
            Err(error) => return Err(error),
        };
        Ok(Self::new(&status, std::process::id(), namespace_number("self", "pid")?))
    }

    /// `NSpid` has the number of the process in the namespace of /proc first, then in each one below it down to its own
    /// (proc_pid_status(5)); before Linux 4.1 there is only `Pid`, the first of them.
    fn new(status: &str, own: u32, namespace: u32) -> Self {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let numbers: Vec<&str> = field("NSpid:")
            .or_else(|| field("Pid:"))
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        if numbers != [own.to_string()] {
            Self::NotOfProc
        } else if namespace == INITIAL_PID_NAMESPACE {
            Self::Initial
        } else {
            Self::Nested
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_proc_tells_whose_proc_it_is() {
        let of = |status, own, namespace| PidNamespace::new(status, own, namespace);
        let nested = 4_026_532_201;
        assert_eq!(of("Pid:\t7\nNSpid:\t7\n", 7, INITIAL_PID_NAMESPACE), PidNamespace::Initial);
        assert_eq!(of("Pid:\t7\nNSpid:\t7\n", 7, nested), PidNamespace::Nested);
        assert_eq!(of("Pid:\t900\nNSpid:\t900\t7\n", 7, nested), PidNamespace::NotOfProc);
        assert_eq!(of("Pid:\t7\nNSpid:\t7\t7\n", 7, nested), PidNamespace::NotOfProc);
        assert_eq!(of("Pid:\t900\n", 7, nested), PidNamespace::NotOfProc, "before 4.1");
        assert_eq!(of("", 7, nested), PidNamespace::NotOfProc);
    }

    #[test]
    fn tests_have_the_proc_of_their_namespace() {
        assert!(namespace_number("self", "pid").unwrap() > 0);
        assert!(namespace_number("self", "nothing").is_err());
        let own = PidNamespace::of_this_process().unwrap();
        assert_ne!(own, PidNamespace::NotOfProc);
    }
}
