//! Words of programs that ran out of something of their own: they look like a shortage of the machine's memory, or name a
//! limit that has nothing to do with it.

use crate::counted_lines::CountedLines;
use crate::word_table::WordTable;
use mw_memory::format_count;

/// What a program ran out of, the most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnShortage {
    /// mlock(2) and pinned pages: ENOMEM.
    LockedMemory,
    /// Memory for contiguous buffers was not set aside at boot (mm/cma.c, drivers/of/of_reserved_mem.c).
    ContiguousMemory,
    /// A driver found no room in the contiguous area (CMA), and says so itself.
    ContiguousArea,
    /// fork(2) and pthread_create(3): EAGAIN.
    Tasks,
    /// inotify_add_watch(2): ENOSPC.
    FileWatches,
    /// inotify_init(2): EMFILE.
    WatchInstances,
    /// add_key(2): EDQUOT.
    Keys,
    /// mmap(2): ENOMEM.
    Mappings,
    /// semget(2): ENOSPC.
    Semaphores,
    /// unshare(2) and clone(2): ENOSPC.
    Namespaces,
    /// A JVM could not create a thread, which it reports as an OutOfMemoryError.
    JavaThread,
    JavaHeap,
    /// open(2), socket(2), accept(2): EMFILE or ENFILE.
    OpenFiles,
    /// Swap that the image of hibernation would go to.
    Hibernation,
    /// A swap area or zram device that swapon(8), mkswap(8) or zramctl(8) could not set up.
    SwapSetUp,
    /// seccomp ended a process: SIGSYS.
    SystemCall,
    /// recv(2) and send(2): ENOBUFS.
    SocketBuffer,
    /// init_module(2): ENOMEM.
    Module,
    /// Memory that a driver set aside for itself (netmap, sys/dev/netmap/netmap_mem2.c).
    DriverPool,
    /// RCU's warning that a grace period does not end.
    Rcu,
    Program,
    /// A driver could not allocate something; its line has no more.
    Driver,
}

/// Words of programs, the more particular before those that they contain.
static WORDS: WordTable<OwnShortage> = WordTable::new(&[
    // VFIO: "vfio_pin_pages_remote: RLIMIT_MEMLOCK (65536) exceeded".
    ("RLIMIT_MEMLOCK (", OwnShortage::LockedMemory),
    ("cma: Failed to reserve", OwnShortage::ContiguousMemory),
    ("alignment of CMA region", OwnShortage::ContiguousMemory),
    // drivers/gpu/drm/vc4/vc4_bo.c.
    ("allocate from CMA", OwnShortage::ContiguousArea),
    ("OutOfMemoryError: unable to create", OwnShortage::JavaThread),
    // The JVM, Lucene, Elasticsearch, MongoDB.
    ("OutOfMemoryError: Map failed", OwnShortage::Mappings),
    ("'sysctl vm.max_map_count'", OwnShortage::Mappings),
    ("vm.max_map_count [", OwnShortage::Mappings),
    ("vm.max_map_count is too low", OwnShortage::Mappings),
    ("OutOfMemoryError", OwnShortage::JavaHeap),
    ("OOM is now expected behavior", OwnShortage::Rcu),
    // inotify-tools, Node, watchman, systemd, fsnotify.
    ("limit on inotify watches", OwnShortage::FileWatches),
    ("limit for number of file watchers", OwnShortage::FileWatches),
    ("max_user_watches", OwnShortage::FileWatches),
    ("inotify watch: No space left on device", OwnShortage::FileWatches),
    ("inotify_add_watch: no space left on device", OwnShortage::FileWatches),
    ("directory watch: Too many open files", OwnShortage::WatchInstances),
    ("fsnotify watcher: too many open files", OwnShortage::WatchInstances),
    ("max_user_instances", OwnShortage::WatchInstances),
    // runc and keyctl.
    ("session key: disk quota exceeded", OwnShortage::Keys),
    ("session keyring: disk quota exceeded", OwnShortage::Keys),
    // PostgreSQL, Oracle, Apache before and since 2.4.
    ("could not create semaphores: No space left", OwnShortage::Semaphores),
    ("semget failed with status: 28", OwnShortage::Semaphores),
    ("No space left on device: Couldn't create accept lock", OwnShortage::Semaphores),
    ("No space left on device: AH00023", OwnShortage::Semaphores),
    // Rootless containers and bubblewrap.
    ("/proc/self/exe: no space left on device", OwnShortage::Namespaces),
    ("unshare user ns: No space left", OwnShortage::Namespaces),
    ("new namespace failed: No space left", OwnShortage::Namespaces),
    ("fork: retry: Resource temporarily unavailable", OwnShortage::Tasks),
    ("fork: Resource temporarily unavailable", OwnShortage::Tasks),
    ("failed to create new OS thread", OwnShortage::Tasks),
    ("can't start new thread", OwnShortage::Tasks),
    ("oo many open files", OwnShortage::OpenFiles),
    // systemd (src/shared/sleep-config.c, hibernate-util.c) and the kernel (kernel/power/swap.c).
    ("swap space for hibernation", OwnShortage::Hibernation),
    ("PM: Not enough free swap", OwnShortage::Hibernation),
    ("PM: Cannot find swap device", OwnShortage::Hibernation),
    // util-linux.
    ("swapon failed: ", OwnShortage::SwapSetUp),
    ("read swap header failed", OwnShortage::SwapSetUp),
    ("zramctl: ", OwnShortage::SwapSetUp),
    ("swap area needs to be at least", OwnShortage::SwapSetUp),
    ("status=31/SYS", OwnShortage::SystemCall),
    ("etlink receive failure", OwnShortage::SocketBuffer),
    ("etlink receive buffer", OwnShortage::SocketBuffer),
    ("o buffer space available", OwnShortage::SocketBuffer),
    ("no more netmap_", OwnShortage::DriverPool),
    ("netmap_mem2_rings_create", OwnShortage::DriverPool),
    (COULD_NOT_INSERT, OwnShortage::Module),
]);

/// What modprobe(8) and insmod(8) say of a module, whatever the reason.
const COULD_NOT_INSERT: &str = "could not insert ";

impl OwnShortage {
    /// Reads a line of a program; none if it tells of no shortage.
    pub(crate) fn of(message: &str) -> Option<Self> {
        let is_of_memory = || is_shortage_of_memory(message);
        match WORDS.find(message) {
            Some((COULD_NOT_INSERT, kind)) => is_of_memory().then_some(kind),
            Some((_, kind)) => Some(kind),
            None => is_of_memory().then_some(Self::Program),
        }
    }

    /// Reads a line of the kernel: a driver says that it could not allocate in words of its own.
    pub(crate) fn of_kernel(message: &str) -> Option<Self> {
        const WORDS: [&str; 6] = [
            "nnot allocate ",
            "ailed to allocate ",
            "nable to allocate ",
            "uld not allocate ",
            ": memory allocation failure",
            "memory alloc failed",
        ];
        // Lines without it are the rule.
        let is_of_driver =
            || message.contains("alloc") && WORDS.iter().any(|word| message.contains(word));
        Self::of(message).or_else(|| is_of_driver().then_some(Self::Driver))
    }

    /// The first line of the answer.
    pub(crate) const fn headline(self) -> &'static str {
        match self {
            Self::LockedMemory => {
                "a program could not lock or pin memory (RLIMIT_MEMLOCK, ulimit -l)"
            }
            Self::ContiguousMemory => {
                "the kernel could not reserve memory for contiguous buffers (CMA) at boot"
            }
            Self::ContiguousArea => "a driver found no room in the contiguous area (CMA)",
            Self::Tasks => {
                "a program could not start a process or thread, which a limit of tasks refuses"
            }
            Self::FileWatches => {
                "a program could watch no more files (fs.inotify.max_user_watches)"
            }
            Self::WatchInstances => {
                "a program could open no inotify instance (fs.inotify.max_user_instances)"
            }
            Self::Keys => {
                "a container or program could create no key (kernel.keys.maxkeys, maxbytes)"
            }
            Self::Mappings => "a program could not map memory, which vm.max_map_count may refuse",
            Self::Semaphores => "a program could create no semaphores (kernel.sem)",
            Self::Namespaces => {
                "a program could create no namespace (user.max_user_namespaces and the like)"
            }
            Self::JavaThread => {
                "a Java program could not create a thread, which a limit of tasks refuses"
            }
            Self::JavaHeap => "a Java program filled its own heap (OutOfMemoryError)",
            Self::OpenFiles => "a program reached a limit of open files",
            Self::Hibernation => {
                "the machine could not hibernate: no swap area was fit for the image"
            }
            Self::SwapSetUp => "a swap area could not be set up, and the machine runs without it",
            Self::SystemCall => {
                "a program made a system call that its sandbox forbids, and was ended (SIGSYS)"
            }
            Self::SocketBuffer => {
                "a socket's buffer was full (ENOBUFS), which net.core.rmem_max may bound"
            }
            Self::Module => "a kernel module could not be loaded: its own set-up failed (ENOMEM)",
            Self::DriverPool => "a driver used up the memory that it had set aside for itself",
            Self::Rcu => "RCU's words about OOM warn of a thread that got no CPU time",
            Self::Program => "a program's own allocation failed",
            Self::Driver => "a driver could not allocate something, and does not say why",
        }
    }

    /// A note on so many lines.
    pub(crate) fn note(self, lines: &CountedLines) -> String {
        let text = self.meaning(&format_count(lines.count, "line"));
        format!("{text}. The first: {}", lines.first)
    }

    fn meaning(self, lines: &str) -> String {
        match self {
            Self::LockedMemory => format!(
                "{lines} about the limit of locked memory, in bytes: a guest with a device of the host, RDMA and io_uring pin all \
                 that they use; raise it (ulimit -l, LimitMEMLOCK= of the unit, memlock of the container); memory was not short"
            ),
            Self::ContiguousMemory => format!(
                "{lines} about CMA: its place and size have to be multiples of a block of pages (512 MiB where pages have 64 KiB), \
                 and free at boot; cameras, video and displays have none. See cma= and linux,cma of the device tree"
            ),
            Self::ContiguousArea => format!(
                "{lines} of drivers whose buffers must be in one piece, in an area of their own (CmaTotal and CmaFree of \
                 /proc/meminfo); other memory does not serve them. Enlarge it (cma= at boot, linux,cma of the device tree; on a \
                 Raspberry Pi also a smaller gpu_mem), or use smaller or fewer buffers"
            ),
            Self::Tasks => format!(
                "{lines} of programs that could not fork or create a thread (EAGAIN): a limit of tasks (pids.max or TasksMax=, \
                 ulimit -u of the user, kernel.threads-max, kernel.pid_max), not of memory"
            ),
            Self::FileWatches => format!(
                "{lines} of programs that watch files (ENOSPC of inotify_add_watch): each user may have \
                 fs.inotify.max_user_watches; the disk is not full. Raise it, or watch fewer files; count those of a process \
                 with grep -c inotify /proc/PID/fdinfo/*"
            ),
            Self::WatchInstances => format!(
                "{lines} of programs that open inotify (EMFILE of inotify_init): each user, and with it all containers of the \
                 user, may have fs.inotify.max_user_instances (128 by default); raise it"
            ),
            Self::Keys => format!(
                "{lines} of keys that were refused (EDQUOT): each container takes a key of its user; raise \
                 kernel.keys.maxkeys and kernel.keys.maxbytes (root_maxkeys of root), see /proc/key-users; no disk is full"
            ),
            Self::Mappings => format!(
                "{lines} about mappings: mmap fails with ENOMEM at vm.max_map_count (`wc -l /proc/PID/maps` counts them), which \
                 `memwright check` compares; also at a limit of address space (ulimit -v) or the commit limit"
            ),
            Self::Semaphores => format!(
                "{lines} of semaphores that were refused (ENOSPC): the second or fourth number of kernel.sem, by sets that \
                 programs left (ipcs -s, ipcrm -s); where a lock is a file, its disk may be full"
            ),
            Self::Namespaces => format!(
                "{lines} of namespaces that were refused (ENOSPC): user.max_user_namespaces and its like, 0 of which is set on \
                 purpose, or 32 levels of them; no disk is full"
            ),
            Self::JavaThread => format!(
                "{lines} of a JVM that could not create a thread: a limit of tasks (pids.max or TasksMax=, ulimit -u, \
                 kernel.threads-max), or no room for the thread's stack; the heap is not the cause"
            ),
            Self::JavaHeap => format!(
                "{lines} of java.lang.OutOfMemoryError: the limit is the JVM's own (-Xmx), and the kernel had no part in it"
            ),
            Self::OpenFiles => format!(
                "{lines} of programs at a limit of open files: their own (EMFILE, ulimit -n, LimitNOFILE= of the unit), or the \
                 machine's (ENFILE, \"in system\", fs.file-max); find what leaves files or sockets open, or raise it"
            ),
            Self::Hibernation => format!(
                "{lines} about hibernation: the image goes to the area that resume= names (of a file, with resume_offset=), or to \
                 that of the highest priority (/proc/swaps, swapon -p), and to no other, however much of it is free; zram does \
                 not count"
            ),
            Self::SwapSetUp => format!(
                "{lines} of swapon, mkswap or zramctl. 'Operation not permitted' is the limit of swap areas (23 to 32 by version \
                 and configuration): take fewer and larger ones, not one for each CPU. 'Device or resource busy' is udev or \
                 another program that has the device open: wait (udevadm settle), and try again. 'Invalid argument' is a file \
                 with holes, or no header (mkswap). See swapon --show"
            ),
            Self::SystemCall => format!(
                "{lines} of a unit that was ended with SIGSYS (seccomp): SystemCallFilter= of the unit lacks a system call that \
                 this version of the program makes, as process_mrelease(2) of earlyoom: add it, or take the \
                 unit file of the same version. Nobody killed it for its memory"
            ),
            Self::SocketBuffer => format!(
                "{lines} about buffers of sockets (ENOBUFS): what netlink sends faster than a program reads overflows the \
                 program's receive buffer, which net.core.rmem_max caps: raise that, and the program's own setting. On sending, \
                 the device's queue is full (txqueuelen). Memory was not short"
            ),
            Self::Module => format!(
                "{lines} of modprobe or insmod: a module returns ENOMEM for whatever its set-up could not do, such as a table or \
                 device that the kernel refused, which the lines before it tell. A module from outside the kernel may be older \
                 than the kernel: rebuild or update it. Memory was short only where a failed allocation is in the log"
            ),
            Self::DriverPool => format!(
                "{lines} of netmap, whose rings and buffers are from a pool that it takes when it is loaded: load it with a larger \
                 one (ring_num=, buf_num=, if_num=), or use fewer rings. Free memory does not help"
            ),
            Self::Rcu => format!(
                "{lines} with RCU's 'OOM is now expected behavior': its thread got no CPU time; memory was not short"
            ),
            Self::Program => format!(
                "{lines} of programs whose allocation failed (commit limit, ulimit -v, a limit of their own); not a kill"
            ),
            Self::Driver => format!(
                "{lines} of drivers. The kernel reports its own failed allocations with zones and sizes, and has none here: look \
                 for a limit or pool of the driver's own"
            ),
        }
    }
}

fn is_shortage_of_memory(message: &str) -> bool {
    const WORDS: [&str; 6] = [
        "cannot allocate memory",
        "out of memory",
        "std::bad_alloc",
        "memoryerror",
        "allowed memory size",
        "virtual memory exhausted",
    ];
    // Lines without any of these letters are the rule.
    let has_start =
        message.contains("emory") || message.contains("alloc") || message.contains("MEM");
    has_start && {
        let lower = message.to_lowercase();
        WORDS.iter().any(|word| lower.contains(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_from_a_lack_of_memory() {
        let check = |message: &str, kind| assert_eq!(OwnShortage::of(message), kind, "{message}");
        check(
            "vfio_pin_page_external: Task qemu (7) RLIMIT_MEMLOCK (65536) exceeded",
            Some(OwnShortage::LockedMemory),
        );
        check("cma: Failed to reserve 512 MiB", Some(OwnShortage::ContiguousMemory));
        check(
            "[drm:vc4_bo_create [vc4]] *ERROR* Failed to allocate from CMA:",
            Some(OwnShortage::ContiguousArea),
        );
        check(
            "Error: ENOSPC: System limit for number of file watchers reached, watch '/a'",
            Some(OwnShortage::FileWatches),
        );
        check(
            "Failed to watch /a; upper limit on inotify watches reached!",
            Some(OwnShortage::FileWatches),
        );
        check(
            "Failed to add /run/a to directory watch: Too many open files",
            Some(OwnShortage::WatchInstances),
        );
        check(
            "failed to create fsnotify watcher: too many open files",
            Some(OwnShortage::WatchInstances),
        );
        check(
            "unable to join session keyring: unable to create session key: disk quota exceeded",
            Some(OwnShortage::Keys),
        );
        check("-bash: fork: retry: Resource temporarily unavailable", Some(OwnShortage::Tasks));
        check(
            "runtime: failed to create new OS thread (have 9 already; errno=11)",
            Some(OwnShortage::Tasks),
        );
        check("accept4() failed (24: Too many open files)", Some(OwnShortage::OpenFiles));
        check(
            "java.lang.OutOfMemoryError: unable to create native thread",
            Some(OwnShortage::JavaThread),
        );
        for message in [
            "java.lang.OutOfMemoryError: Map failed",
            "max virtual memory areas vm.max_map_count [65530] is too low, increase to at least [262144]",
            "[main] \"vm.max_map_count is too low\"",
        ] {
            check(message, Some(OwnShortage::Mappings));
        }
        check("vm.max_map_count = 262144", None);
        for message in [
            "FATAL:  could not create semaphores: No space left on device",
            "(28)No space left on device: AH00023: Couldn't create the rewrite-map mutex",
        ] {
            check(message, Some(OwnShortage::Semaphores));
        }
        check(
            "error: failed to start the child: fork/exec /proc/self/exe: no space left on device",
            Some(OwnShortage::Namespaces),
        );
        check("bwrap: unshare user ns: No space left on device", Some(OwnShortage::Namespaces));
        for message in [
            "swapon: /dev/zram27: swapon failed: Operation not permitted",
            "zramctl: /dev/zram0: failed to reset: Device or resource busy",
        ] {
            check(message, Some(OwnShortage::SwapSetUp));
        }
        let message = "earlyoom.service: Main process exited, code=dumped, status=31/SYS";
        check(message, Some(OwnShortage::SystemCall));
        let message = "Netlink receive failure: Out of memory";
        check(message, Some(OwnShortage::SocketBuffer));
        let module = "modprobe: ERROR: could not insert 'a': ";
        check(&format!("{module}Cannot allocate memory"), Some(OwnShortage::Module));
        check(&format!("{module}Exec format error"), None);
        check("ERROR:  out of memory", Some(OwnShortage::Program));
        let message = "a 0000:01:00.0: failed to allocate a ring";
        check(message, None);
        assert_eq!(OwnShortage::of_kernel(message), Some(OwnShortage::Driver));
        check("write failed: No space left on device", None);
        check("memory is fine", None);
    }
}
