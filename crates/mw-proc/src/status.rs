//! `/proc/PID/status` of kernels 2.6.18 to 6.18; kB there, bytes here. Kernel threads have none of
//! the memory lines.

use crate::error::{ParseError, Problem};
use crate::scan::{self, Line};

/// Signals that are queued, of which each timer of timer_create(2) takes one (`SigQ`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedSignals {
    /// Those of all processes of the real user.
    pub of_user: u64,
    /// The soft limit of the process (`RLIMIT_SIGPENDING`); the largest number is unlimited.
    pub limit: u64,
}

/// The status of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The name that the process gave itself, at most 15 bytes: what is no UTF-8 is replaced,
    /// control characters are spelled out.
    pub name: String,
    /// `R`unning, `S`leeping, `D` waiting without interruption, `T` stopped, `Z`ombie.
    pub state: Option<char>,
    pub tgid: Option<u32>,
    pub pid: Option<u32>,
    pub ppid: Option<u32>,
    pub uid: Option<u32>,
    /// Its number in its own PID namespace (4.1 and later).
    pub inner_pid: Option<u32>,
    /// Effective capabilities, a bit each (capabilities(7)).
    pub effective_capabilities: Option<u64>,
    pub threads: Option<u64>,
    /// Slots of its table of descriptors, which grows and does not shrink: at least its open files.
    pub descriptor_slots: Option<u32>,
    pub queued_signals: Option<QueuedSignals>,
    pub vm_size_bytes: Option<u64>,
    pub vm_peak_bytes: Option<u64>,
    /// Private and writable, stacks left out: what `RLIMIT_DATA` counts since 4.7.
    pub vm_data_bytes: Option<u64>,
    pub vm_rss_bytes: Option<u64>,
    pub vm_hwm_bytes: Option<u64>,
    /// Locked by mlock.
    pub vm_lck_bytes: Option<u64>,
    /// Pinned, for devices (3.2 and later).
    pub vm_pin_bytes: Option<u64>,
    /// Page tables; since 4.15 those of all levels.
    pub vm_pte_bytes: Option<u64>,
    /// Swapped out, shared memory not counted (2.6.34 and later).
    pub vm_swap_bytes: Option<u64>,
    /// In memory: anonymous (4.5 and later).
    pub rss_anon_bytes: Option<u64>,
    /// In memory: of files (4.5 and later).
    pub rss_file_bytes: Option<u64>,
    /// In memory: shared memory and tmpfs (4.5 and later).
    pub rss_shmem_bytes: Option<u64>,
    /// Huge pages of hugetlbfs, which are not part of the above (4.4 and later).
    pub hugetlb_pages_bytes: Option<u64>,
    /// CPUs that it may run on, to be read by [`crate::cpulist`].
    pub cpus_allowed_list: Option<String>,
    /// The nodes that it may allocate from, to be read by [`crate::cpulist`].
    pub mems_allowed_list: Option<String>,
    /// False if it asked for no transparent huge pages (prctl(2), `PR_SET_THP_DISABLE`; 5.0 and later).
    pub thp_enabled: Option<bool>,
}

impl Status {
    /// Anonymous memory in RAM; before Linux 4.5, which does not tell it apart, all that is mapped and in RAM.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<u64> {
        self.rss_anon_bytes.or(self.vm_rss_bytes)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// When a known line lacks its value, or there is no name.
    pub fn parse(text: &[u8]) -> Result<Self, ParseError> {
        let mut status = Self::default();
        let mut named = false;
        let mut last = 1;
        for line in scan::lines(text) {
            last = line.number;
            let Some((key, value)) = line.key_value() else { continue };
            named |= key == b"Name";
            status.set(&line, key, value)?;
        }
        if named { Ok(status) } else { Err(ParseError::new(last, Problem::Expected("Name"))) }
    }

    fn set(&mut self, line: &Line<'_>, key: &[u8], value: &[u8]) -> Result<(), ParseError> {
        if let Some(slot) = self.size(key) {
            *slot = Some(line.at(scan::parse_kb(value))?);
            return Ok(());
        }
        let number = |slot: &mut Option<u32>| {
            line.whole()?;
            *slot = Some(line.at(scan::parse_u32(scan::first_field(value).0))?);
            Ok(())
        };
        match key {
            b"Name" => self.name = scan::lossy_escaped(value),
            b"State" => self.state = value.first().map(|&byte| char::from(byte)),
            b"Tgid" => number(&mut self.tgid)?,
            b"Pid" => number(&mut self.pid)?,
            b"PPid" => number(&mut self.ppid)?,
            b"Uid" => number(&mut self.uid)?,
            b"FDSize" => number(&mut self.descriptor_slots)?,
            b"NSpid" => {
                line.whole()?;
                let inner = scan::fields(value).last();
                self.inner_pid = inner.map(|inner| line.at(scan::parse_u32(inner))).transpose()?;
            }
            b"Threads" => {
                line.whole()?;
                self.threads = Some(line.at(scan::parse_u64(value))?);
            }
            b"SigQ" => {
                line.whole()?;
                self.queued_signals = Some(line.at(queued_signals(value))?);
            }
            b"CapEff" => {
                line.whole()?;
                self.effective_capabilities = Some(line.at(scan::parse_hex_u64(value))?);
            }
            b"Cpus_allowed_list" => self.cpus_allowed_list = Some(scan::lossy_escaped(value)),
            b"THP_enabled" => {
                line.whole()?;
                self.thp_enabled = Some(line.at(scan::parse_u64(value))? != 0);
            }
            b"Mems_allowed_list" => self.mems_allowed_list = Some(scan::lossy_escaped(value)),
            _ => {}
        }
        Ok(())
    }

    fn size(&mut self, key: &[u8]) -> Option<&mut Option<u64>> {
        Some(match key {
            b"VmSize" => &mut self.vm_size_bytes,
            b"VmPeak" => &mut self.vm_peak_bytes,
            b"VmData" => &mut self.vm_data_bytes,
            b"VmRSS" => &mut self.vm_rss_bytes,
            b"VmHWM" => &mut self.vm_hwm_bytes,
            b"VmLck" => &mut self.vm_lck_bytes,
            b"VmPTE" => &mut self.vm_pte_bytes,
            b"VmPin" => &mut self.vm_pin_bytes,
            b"VmSwap" => &mut self.vm_swap_bytes,
            b"RssAnon" => &mut self.rss_anon_bytes,
            b"RssFile" => &mut self.rss_file_bytes,
            b"RssShmem" => &mut self.rss_shmem_bytes,
            b"HugetlbPages" => &mut self.hugetlb_pages_bytes,
            _ => return None,
        })
    }
}

fn queued_signals(value: &[u8]) -> Result<QueuedSignals, Problem> {
    let (of_user, limit) =
        scan::split_once(value, b'/').ok_or(Problem::Expected("queued/limit"))?;
    Ok(QueuedSignals { of_user: scan::parse_u64(of_user)?, limit: scan::parse_u64(limit)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V6_18: &[u8] = b"Name:	head
Umask:	0022
State:	R (running)
Tgid:	3562
Ngid:	0
Pid:	3563
PPid:	3549
TracerPid:	0
Uid:	1000	0	0	0
FDSize:	256
Groups:	 
VmPeak:	    2928 kB
VmSize:	    2927 kB
VmLck:	       1 kB
VmPin:	       2 kB
VmHWM:	    1829 kB
VmRSS:	    1828 kB
RssAnon:	     116 kB
RssFile:	    1712 kB
RssShmem:	       3 kB
VmData:	     224 kB
VmPTE:	      40 kB
VmSwap:	       4 kB
HugetlbPages:	    2048 kB
Threads:	7
SigQ:	3/3802
Cpus_allowed:	3
Cpus_allowed_list:	0-1
Mems_allowed:	00000000,00000001
Mems_allowed_list:	0
nonvoluntary_ctxt_switches:	0
";

    #[test]
    fn reads() {
        let status = Status::parse(V6_18).unwrap();
        assert_eq!((status.name.as_str(), status.state), ("head", Some('R')));
        assert_eq!((status.tgid, status.pid, status.ppid), (Some(3562), Some(3563), Some(3549)));
        assert_eq!((status.uid, status.threads), (Some(1000), Some(7)));
        assert_eq!(status.descriptor_slots, Some(256));
        assert_eq!(status.queued_signals, Some(QueuedSignals { of_user: 3, limit: 3802 }));
        assert_eq!(status.vm_peak_bytes, Some(2928 << 10));
        assert_eq!(status.vm_size_bytes, Some(2927 << 10));
        assert_eq!(status.vm_hwm_bytes, Some(1829 << 10));
        assert_eq!(status.vm_rss_bytes, Some(1828 << 10));
        assert_eq!(status.vm_data_bytes, Some(224 << 10));
        assert_eq!((status.vm_lck_bytes, status.vm_pin_bytes), (Some(1024), Some(2048)));
        assert_eq!(
            (status.rss_anon_bytes, status.rss_file_bytes),
            (Some(116 << 10), Some(1712 << 10))
        );
        assert_eq!((status.rss_shmem_bytes, status.vm_swap_bytes), (Some(3072), Some(4096)));
        assert_eq!(status.vm_pte_bytes, Some(40 << 10));
        assert_eq!(status.hugetlb_pages_bytes, Some(2 << 20));
        assert_eq!(status.cpus_allowed_list.as_deref(), Some("0-1"));
        assert_eq!(status.mems_allowed_list.as_deref(), Some("0"));
    }

    #[test]
    fn kernel_threads_have_no_memory() {
        let status = Status::parse(b"Name:\tkswapd0\nState:\tS (sleeping)\nTgid:\t50\n").unwrap();
        assert_eq!((status.vm_rss_bytes, status.cpus_allowed_list), (None, None));
    }

    #[test]
    fn names_are_any_bytes() {
        let name = |text: &[u8]| Status::parse(text).map(|status| status.name);
        assert_eq!(name(b"Name:\ta:b (c)\n"), Ok("a:b (c)".to_owned()));
        assert_eq!(name(b"Name:\t\x1b[2J\xff\\n\n"), Ok("\\u{1b}[2J\u{fffd}\\n".to_owned()));
        assert_eq!(name(b"Name:\t\n"), Ok(String::new()));
    }

    fn refuse(text: &[u8], line: usize, problem: Problem) {
        assert_eq!(Status::parse(text), Err(ParseError::new(line, problem)));
    }

    #[test]
    fn wrong() {
        refuse(b"", 1, Problem::Expected("Name"));
        refuse(b"State:\tR\n", 1, Problem::Expected("Name"));
        refuse(b"Name:\ta\nPid:\tx\n", 2, Problem::NotANumber);
        refuse(b"Name:\ta\nPid:\t35", 2, Problem::Truncated);
        refuse(b"Name:\ta\nVmRSS:\t35", 2, Problem::Truncated);
        refuse(b"Name:\ta\nVmRSS:\t35\n", 2, Problem::Expected("kB"));
        refuse(b"Name:\ta\nSigQ:\t35\n", 2, Problem::Expected("queued/limit"));
        refuse(b"Name:\ta\nUid:\t4294967296\n", 2, Problem::Overflow);
    }
}
