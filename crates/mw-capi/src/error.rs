//! Errors.

use crate::raw::{c_string, guard};
use crate::status::mw_status;
use mw_segment::{Error, Limit, Shortage};
use std::ffi::{CString, c_char, c_int};
use std::io;
use std::ptr;

/// A limit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum mw_limit {
    /// A limit without a number in this version; the error's text names it.
    MW_LIMIT_OTHER = 0,
    /// Available memory of the machine (MemAvailable).
    MW_LIMIT_MEMORY = 1,
    /// Available memory of the nodes that the segment is bound to.
    MW_LIMIT_NODE_MEMORY = 2,
    /// The commit limit of strict overcommit (CommitLimit).
    MW_LIMIT_COMMIT = 3,
    /// The size of the file system at /dev/shm.
    MW_LIMIT_DEV_SHM = 4,
    /// Free hugetlb pages of page_bytes.
    MW_LIMIT_HUGE_PAGES = 5,
    /// RLIMIT_MEMLOCK.
    MW_LIMIT_MEMLOCK = 6,
    /// A memory cgroup, named by cgroup.
    MW_LIMIT_CGROUP = 7,
    /// kernel.shmmax.
    MW_LIMIT_SHMMAX = 8,
    /// kernel.shmall.
    MW_LIMIT_SHMALL = 9,
    /// RLIMIT_AS, or the address space of the CPU.
    MW_LIMIT_ADDRESS_SPACE = 10,
}

impl From<&Limit> for mw_limit {
    fn from(limit: &Limit) -> Self {
        match limit {
            Limit::Memory => Self::MW_LIMIT_MEMORY,
            Limit::NodeMemory => Self::MW_LIMIT_NODE_MEMORY,
            Limit::Commit => Self::MW_LIMIT_COMMIT,
            Limit::DevShm => Self::MW_LIMIT_DEV_SHM,
            Limit::HugePages(_) => Self::MW_LIMIT_HUGE_PAGES,
            Limit::Memlock => Self::MW_LIMIT_MEMLOCK,
            Limit::Cgroup(_) => Self::MW_LIMIT_CGROUP,
            Limit::ShmMax => Self::MW_LIMIT_SHMMAX,
            Limit::ShmAll => Self::MW_LIMIT_SHMALL,
            Limit::AddressSpace => Self::MW_LIMIT_ADDRESS_SPACE,
            _ => Self::MW_LIMIT_OTHER,
        }
    }
}

/// By how much a limit is too low. Owned by its error. Later versions may add members at the end.
#[repr(C)]
#[derive(Debug)]
pub struct mw_shortage {
    /// The limit.
    pub limit: mw_limit,
    /// An older name of requested_bytes.
    pub asked_bytes: u64,
    /// An older name of available_bytes.
    pub had_bytes: u64,
    /// Bytes that are missing: requested_bytes less available_bytes.
    pub missing_bytes: u64,
    /// The size of the missing huge pages; 0 for other limits.
    pub page_bytes: u64,
    /// The path of the memory cgroup; NULL for other limits.
    pub cgroup: *const c_char,
    /// The remedy: a command, a setting or a limit to raise.
    pub remedy: *const c_char,
    /// Bytes that the limit would have to allow.
    pub requested_bytes: u64,
    /// Bytes that the limit allows now.
    pub available_bytes: u64,
}

/// The reason why a segment could not be created or memory not be leased.
pub struct mw_error {
    status: mw_status,
    text: CString,
    errno: c_int,
    /// Points to the two texts that follow.
    shortage: Option<mw_shortage>,
    cgroup: Option<CString>,
    remedy: CString,
}

impl mw_error {
    fn new(status: mw_status, text: &str) -> Box<Self> {
        Box::new(Self {
            status,
            text: c_string(text),
            errno: 0,
            shortage: None,
            cgroup: None,
            remedy: CString::default(),
        })
    }

    pub(crate) fn invalid(text: &str) -> Box<Self> {
        Self::new(mw_status::MW_INVALID, text)
    }

    pub(crate) fn internal() -> Box<Self> {
        let text = "a panic in the library, located on standard error; please report it";
        Self::new(mw_status::MW_INTERNAL, text)
    }

    pub(crate) fn status(&self) -> mw_status {
        self.status
    }

    /// Sets the shortage. It points to texts of this box, which do not move.
    fn set_shortage(&mut self, short: &Shortage) {
        self.cgroup = match &short.limit {
            Limit::Cgroup(path) => Some(c_string(path)),
            _ => None,
        };
        self.remedy = c_string(&short.remedy);
        self.shortage = Some(mw_shortage {
            limit: (&short.limit).into(),
            asked_bytes: short.requested_bytes,
            had_bytes: short.available_bytes,
            requested_bytes: short.requested_bytes,
            available_bytes: short.available_bytes,
            missing_bytes: short.missing_bytes(),
            page_bytes: match short.limit {
                Limit::HugePages(bytes) => bytes as u64,
                _ => 0,
            },
            cgroup: self.cgroup.as_ref().map_or(ptr::null(), |path| path.as_ptr()),
            remedy: self.remedy.as_ptr(),
        });
    }
}

impl From<Error> for Box<mw_error> {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Short(_) => mw_status::MW_SHORT,
            Error::Cancelled { .. } => mw_status::MW_CANCELLED,
            Error::NoSuchPages { .. } => mw_status::MW_NO_SUCH_PAGES,
            Error::Fragmented { .. } => mw_status::MW_FRAGMENTED,
            Error::Invalid(_) => mw_status::MW_INVALID,
            Error::Poisoned { .. } => mw_status::MW_POISONED,
            Error::System { .. } => mw_status::MW_SYSTEM,
            _ => mw_status::MW_INTERNAL,
        };
        let mut created = mw_error::new(status, &error.to_string());
        if let Error::System { source, .. } = &error {
            created.errno = source.raw_os_error().unwrap_or(0);
        }
        if let Some(short) = error.shortage() {
            created.set_shortage(short);
        }
        created
    }
}

impl From<String> for Box<mw_error> {
    fn from(why: String) -> Self {
        mw_error::invalid(&why)
    }
}

impl From<mw_pool::Error> for Box<mw_error> {
    fn from(error: mw_pool::Error) -> Self {
        use mw_pool::Error;
        let (status, source) = match &error {
            Error::NoServer { source, .. } => (mw_status::MW_NO_SERVER, Some(source)),
            Error::Refused(..) => (mw_status::MW_REFUSED, None),
            Error::NotReady { .. } => (mw_status::MW_NOT_READY, None),
            Error::System { source, .. } => (mw_status::MW_SYSTEM, Some(source)),
            _ => (mw_status::MW_INTERNAL, None),
        };
        let mut created = mw_error::new(status, &error.to_string());
        created.errno = source.and_then(io::Error::raw_os_error).unwrap_or(0);
        created
    }
}

/// The status of an error.
///
/// error: an error; NULL is MW_OK.
/// Threads: may be called from any thread, since an error does not change.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_error_status(error: Option<&mw_error>) -> mw_status {
    error.map_or(mw_status::MW_OK, |error| error.status)
}

/// The error as text, one line of UTF-8: what was requested, what was found, what to do.
///
/// error: an error; the text of NULL is empty.
/// Returns: a text owned by the error and valid as long as it is.
/// Threads: as mw_error_status().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_error_text(error: Option<&mw_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.text.as_ptr())
}

/// The kernel's error number (errno(3)) of an MW_SYSTEM error.
///
/// error: an error, or NULL.
/// Returns: the number; 0 for all other errors.
/// Threads: as mw_error_status().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_error_errno(error: Option<&mw_error>) -> c_int {
    error.map_or(0, |error| error.errno)
}

/// The limit and the missing amount of an MW_SHORT error.
///
/// error: an error, or NULL.
/// Returns: a shortage owned by the error and valid as long as it is; NULL for all other errors.
/// Threads: as mw_error_status().
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_error_shortage(error: Option<&mw_error>) -> Option<&mw_shortage> {
    error.and_then(|error| error.shortage.as_ref())
}

/// Frees an error with its texts and its shortage.
///
/// error: an error, which must not be used afterwards. NULL is ignored.
/// Threads: may be called from any thread while no other call uses this error.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_error_free(error: Option<Box<mw_error>>) {
    guard((), || drop(error));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw;
    use mw_segment::{PageSize, Phase, SegmentKind};
    use std::io;

    /// SAFETY of each use: a text of an error that is still there.
    #[allow(unsafe_code, reason = "reads what C would read")]
    fn read<'a>(pointer: *const c_char) -> &'a str {
        // SAFETY: as said above.
        unsafe { raw::text(pointer) }.unwrap()
    }

    #[test]
    fn a_shortage_reports_the_missing_bytes() {
        for (limit, number, page_bytes, cgroup) in [
            (Limit::Memlock, mw_limit::MW_LIMIT_MEMLOCK, 0, None),
            (Limit::HugePages(2 << 20), mw_limit::MW_LIMIT_HUGE_PAGES, 2 << 20, None),
            (Limit::Cgroup("/a/b".into()), mw_limit::MW_LIMIT_CGROUP, 0, Some("/a/b")),
        ] {
            let remedy = "raise it".to_owned();
            let short = Shortage { limit, requested_bytes: 70, available_bytes: 30, remedy };
            let error: Box<mw_error> = Error::from(short).into();
            assert_eq!(mw_error_status(Some(&error)), mw_status::MW_SHORT);
            let shortage = mw_error_shortage(Some(&error)).unwrap();
            assert_eq!((shortage.limit, shortage.page_bytes), (number, page_bytes));
            assert_eq!((shortage.requested_bytes, shortage.available_bytes), (70, 30));
            assert_eq!(
                (shortage.asked_bytes, shortage.had_bytes, shortage.missing_bytes),
                (70, 30, 40)
            );
            assert_eq!(read(shortage.remedy), "raise it");
            assert_eq!((!shortage.cgroup.is_null()).then(|| read(shortage.cgroup)), cgroup);
            assert!(read(mw_error_text(Some(&error))).contains("40 B missing"));
        }
    }

    #[test]
    fn every_error_has_a_status() {
        let system = Error::System { call: "mmap", source: io::Error::from_raw_os_error(12) };
        let pages =
            Error::NoSuchPages { kind: SegmentKind::Anon, page: PageSize::Thp, why: String::new() };
        for (error, status) in [
            (Error::Cancelled { phase: Phase::Create, done_bytes: 1 }, mw_status::MW_CANCELLED),
            (pages, mw_status::MW_NO_SUCH_PAGES),
            (
                Error::Fragmented { page: PageSize::Thp, requested_bytes: 2, available_bytes: 1 },
                mw_status::MW_FRAGMENTED,
            ),
            (Error::Invalid("no\0".into()), mw_status::MW_INVALID),
            (Error::Poisoned { offset: 0 }, mw_status::MW_POISONED),
            (system, mw_status::MW_SYSTEM),
        ] {
            let error: Box<mw_error> = error.into();
            assert_eq!(error.status(), status);
            assert_eq!(mw_error_errno(Some(&error)) == 12, status == mw_status::MW_SYSTEM);
            assert!(mw_error_shortage(Some(&error)).is_none());
        }
    }
}
