//! The namespaces of a process by their numbers, calls in the network namespace of another, and whether /proc belongs
//! to the PID namespace of this one.

use crate::helper_thread::HELPER_THREAD_NAME;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io;
use std::os::fd::AsFd;

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

/// Stack of the thread in another namespace.
const STACK_BYTES: usize = 64 << 10;

/// Result of a call in the network namespace of a process, which a thread makes that lives for this call: the caller
/// stays where it is. What `call` returns may belong to that namespace, as a socket does. It waits for `call`: use a
/// [`crate::HelperThread`] where that may block.
///
/// # Errors
/// setns(2)'s: `EPERM` without `CAP_SYS_ADMIN` there; those of open(2), of `call`, and no thread.
pub fn in_network_namespace<T: Send>(
    process: u32,
    call: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let namespace = crate::kernel_file::open(format!("/proc/{process}/ns/net"))?;
    std::thread::scope(|scope| {
        let enter = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            call()
        };
        let thread = std::thread::Builder::new().name(HELPER_THREAD_NAME.into());
        let thread = thread.stack_size(STACK_BYTES).spawn_scoped(scope, enter)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the helper thread failed")))
    })
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

    /// True if this thread is in the network namespace of its process.
    fn is_at_home() -> bool {
        let of = |link: &str| crate::kernel_file::read_link(link).unwrap();
        of("/proc/thread-self/ns/net") == of("/proc/self/ns/net")
    }

    #[test]
    fn a_call_in_another_network_namespace_leaves_the_caller_where_it_is() {
        if !mw_test::is_root() {
            return;
        }
        let mut other = std::process::Command::new("unshare");
        let other = other.args(["-n", "sh", "-c", "echo here; exec sleep 1000"]);
        let mut other = other.stdout(std::process::Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
        let called = in_network_namespace(other.id(), || Ok(is_at_home()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((called.unwrap(), is_at_home()), (false, true));
        assert!(in_network_namespace(u32::MAX, || Ok(())).is_err(), "no such process");
    }

    #[test]
    fn tests_have_the_proc_of_their_namespace() {
        assert!(namespace_number("self", "pid").unwrap() > 0);
        assert!(namespace_number("self", "nothing").is_err());
        let own = PidNamespace::of_this_process().unwrap();
        assert_ne!(own, PidNamespace::NotOfProc);
    }
}
