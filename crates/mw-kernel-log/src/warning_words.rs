//! What warnings of the kernel mean, and what to do about them.

use crate::kernel_warnings::{KernelWarning, WarningLines};

impl KernelWarning {
    /// The warning in the first line of the answer.
    pub(crate) fn headline(self, lines: &WarningLines) -> String {
        let first = lines.first.as_deref();
        match self {
            Self::Tasks => format!(
                "fork was refused at the limit of tasks (pids.max) of {}",
                first.unwrap_or("a cgroup")
            ),
            Self::BounceBuffers => {
                let slots = lines.amount.as_ref();
                let slots = slots.map_or(String::new(), |slots| format!(", {slots} slots in use"));
                format!(
                    "{} found no free bounce buffer (swiotlb){slots}",
                    first.unwrap_or("a device")
                )
            }
            Self::OrphanedSockets => {
                "TCP reset connections that their programs had closed (net.ipv4.tcp_max_orphans)"
                    .to_owned()
            }
            Self::SocketMemory => {
                "buffers of TCP sockets reached their limit (net.ipv4.tcp_mem)".to_owned()
            }
            Self::OpenFiles => "open files reached their limit (fs.file-max)".to_owned(),
            Self::TrackedConnections => {
                "packets were dropped at the limit of tracked connections (nf_conntrack_max)"
                    .to_owned()
            }
            Self::HotAdd => {
                "the guest could not add memory that Hyper-V gave it (hot add failed)".to_owned()
            }
            Self::Commit => format!(
                "overcommit refused {} {} in one request",
                first.unwrap_or("a program"),
                lines.amount.as_deref().unwrap_or("memory")
            ),
            Self::DataSize => format!(
                "{} reached its limit of private memory (ulimit -d){}",
                first.unwrap_or("a program"),
                lines.amount.as_ref().map_or(String::new(), |amount| format!(": {amount}"))
            ),
            Self::Neighbours => {
                "the table of network neighbours is full (neigh.default.gc_thresh3)".to_owned()
            }
            Self::Percpu => "an allocation of per-CPU memory failed".to_owned(),
            Self::PercpuAtomic => format!(
                "no mapped area of per-CPU memory had a gap of {} for a request that may not wait",
                lines.amount.as_deref().unwrap_or("its size")
            ),
            Self::SuspendedPool => format!(
                "ZFS suspended pool {} after errors of its devices",
                first.unwrap_or("of a failed device")
            ),
            Self::Graphics => {
                "memory was used up, and the graphics driver (i915) had nothing to free".to_owned()
            }
            Self::UnalignedRange => format!(
                "memory that was plugged in was refused: it does not begin on a boundary of {}",
                lines.amount.as_deref().unwrap_or("a block")
            ),
            Self::CorrectedErrors => {
                format!("the hardware corrected memory errors at {}", first.unwrap_or("a module"))
            }
            Self::UncorrectedErrors => format!(
                "memory is faulty: errors at {} could not be corrected",
                first.unwrap_or("a module")
            ),
            Self::CorruptPages => {
                "memory is corrupt: entries of page tables or page states are wrong".to_owned()
            }
            Self::Crash => format!(
                "the kernel crashed{}: {}",
                lines.amount.as_ref().map_or(String::new(), |place| format!(" in {place}")),
                first.unwrap_or("it does not say where")
            ),
            Self::SwapRead => format!(
                "pages in swap could not be read back from device {}",
                first.unwrap_or("of the swap area")
            ),
            Self::SwapWrite => {
                format!(
                    "pages could not be swapped out to device {}",
                    first.unwrap_or("of the area")
                )
            }
            Self::ZramRead => {
                "zram could not decompress pages that it holds: they are lost".to_owned()
            }
            Self::ZramCompressor => {
                format!("zram could not start its compressor {}", first.unwrap_or("algorithm"))
            }
            Self::SwapArea => {
                format!("a swap area was refused: {}", first.unwrap_or("it is not one"))
            }
            Self::MemoryLimited => format!(
                "the kernel was started with {} of memory (mem= of its command line)",
                first.unwrap_or("a part")
            ),
            Self::NoHighMemory => format!(
                "a 32-bit kernel without high memory uses {} of the machine's memory only",
                first.unwrap_or("a part")
            ),
            Self::Initramfs => {
                "the initramfs did not fit into memory: not all of its files were unpacked"
                    .to_owned()
            }
            Self::CoherentPool => format!(
                "the pool for atomic DMA{} was too small for a driver",
                lines.amount.as_ref().map_or(String::new(), |size| format!(" ({size})"))
            ),
            Self::PercpuSize => format!(
                "{} asked for {} for each CPU, more than the per-CPU allocator serves",
                first.unwrap_or("a program"),
                lines.amount.as_deref().unwrap_or("memory")
            ),
            Self::ListenQueue => format!(
                "connections to port {} were dropped: its queue of half-open connections was full",
                first.unwrap_or("of a server")
            ),
            Self::SynCookies => format!(
                "requests for connections to port {} came faster than they were completed, and were answered with cookies",
                first.unwrap_or("of a server")
            ),
            Self::NestedCgroup => {
                "a memory cgroup was created below one that does not count it (memory.use_hierarchy)"
                    .to_owned()
            }
            Self::LeftObjects => format!(
                "a module leaked memory: it left objects in its slab cache {}",
                first.unwrap_or("behind")
            ),
            Self::ModuleLeak => {
                format!("{} reports that it leaked memory", first.unwrap_or("a module"))
            }
            Self::Usercopy => match first.filter(|what| !what.contains(' ')) {
                Some(cache) => format!(
                    "the kernel refused to copy an object of slab cache {cache} to or from a program"
                ),
                None => format!(
                    "the kernel refused to copy memory to or from a program: {}",
                    first.unwrap_or("it does not say which")
                ),
            },
            Self::LargeBlock => format!(
                "{} asked for a block that is larger than any of the page allocator",
                first.unwrap_or("a program")
            ),
            Self::CrashKernel => {
                "no memory in one piece was found for the crash kernel (crashkernel=)".to_owned()
            }
            Self::LargeRequest => format!(
                "ZFS asked for {} in one piece, got it, and reports that",
                lines.amount.as_deref().unwrap_or("much")
            ),
            Self::SinglePages => format!(
                "a table of {} found no free block in one piece, and is in single pages instead (vmalloc)",
                first.unwrap_or("a module")
            ),
            Self::HostMemoryBuffer => format!(
                "{} got no host memory buffer: {}",
                first.unwrap_or("an NVMe drive"),
                lines.amount.as_deref().unwrap_or("it wants more than it may have")
            ),
            Self::ReadOnly => format!(
                "the file system on {} became read-only after an error",
                first.unwrap_or("a device")
            ),
            Self::AdapterLimit => format!(
                "{} is at a limit of its own{}",
                first.unwrap_or("a network adapter"),
                lines
                    .amount
                    .as_ref()
                    .map_or(String::new(), |command| format!(": {command} failed"))
            ),
            Self::BusAddresses => format!(
                "the bridge above {} has no room for its addresses; no memory is missing",
                first.unwrap_or("a PCI device")
            ),
            Self::UncoveredMemory => format!(
                "the kernel gave up {} of memory at boot: the CPU's MTRRs do not cover it",
                lines.amount.as_deref().unwrap_or("a part")
            ),
            Self::MixedIo => format!(
                "{} writes a file with direct I/O that is read through the page cache at the same time; no memory is short",
                first.unwrap_or("a program")
            ),
            Self::BusyRange => {
                "pages of a contiguous range (CMA) were busy at that moment, and the kernel tries others"
                    .to_owned()
            }
            Self::CaptureKernel => {
                "this is the kernel that saves the dump of a crashed one (kdump)".to_owned()
            }
            Self::SettingsTable => format!(
                "the kernel refused the sysctl table of a module ({})",
                first.unwrap_or("its name is not in the log")
            ),
            Self::MemfdFlags => format!(
                "a reminder to the authors of {} about flags of memfd_create(2)",
                first.unwrap_or("a program")
            ),
        }
    }

    /// What it means, and what to do.
    pub(crate) fn note(self, lines: &WarningLines) -> String {
        let first = lines.first.as_deref();
        match self {
            Self::Tasks => format!(
                "{} is at its limit of tasks (pids.max, TasksMax= of the unit), which is no limit of memory, whatever its \
                 programs print; raise it, or find what starts so many threads",
                first.unwrap_or("a cgroup")
            ),
            Self::BounceBuffers => format!(
                "{} could not map a buffer for DMA. A driver that does not unmap its buffers uses all up in time; swiotlb= at \
                 boot reserves more",
                first.unwrap_or("a device")
            ),
            Self::OrphanedSockets => "connections whose program has closed them wait for their peers; raise \
                 net.ipv4.tcp_max_orphans, or find who closes them with data unsent. Before Linux 3.3 the same line is written \
                 at net.ipv4.tcp_mem (mem of /proc/net/sockstat)"
                .to_owned(),
            Self::SocketMemory => "buffers of TCP sockets are at the third value of net.ipv4.tcp_mem; find the program (ss \
                 -tm), or raise it"
                .to_owned(),
            Self::OpenFiles => "open files are at fs.file-max; find the program that holds them, or raise it".to_owned(),
            Self::TrackedConnections => "connection tracking is full; raise net.netfilter.nf_conntrack_max, or find what \
                 opens the connections"
                .to_owned(),
            Self::HotAdd => "Hyper-V's dynamic memory gives the guest memory while it runs, and the guest could not add it \
                 (hv_balloon, hot add): it keeps the size that it was started with. Start it with its full memory, or switch \
                 dynamic memory off"
                .to_owned(),
            Self::Commit => "overcommit refuses a request that is larger than memory and swap together \
                 (vm.overcommit_memory=0), or beyond the commit limit (vm.overcommit_memory=2: CommitLimit of \
                 /proc/meminfo), however much memory is free; find why the program asks for so much at once: some size a \
                 table by their limit of open files (ulimit -n)"
                .to_owned(),
            Self::DataSize => format!(
                "private writable mappings of {} are limited by RLIMIT_DATA, touched or not, while memory is free; raise it \
                 (ulimit -d, LimitDATA= of the unit). The kernel logs the first of these only",
                first.unwrap_or("a program")
            ),
            Self::Neighbours => "packets to new neighbours fail with ENOBUFS although memory is free; raise \
                 net.ipv4.neigh.default.gc_thresh3, of IPv6 net.ipv6.neigh.default.gc_thresh3"
                .to_owned(),
            Self::Percpu => "each cgroup, BPF map and network device takes per-CPU memory on every CPU; modules have a part of \
                 fixed size (percpu_alloc= does not enlarge it)"
                .to_owned(),
            Self::PercpuAtomic => format!(
                "memory is not short: such a request takes {} on every CPU in one piece from areas that are mapped already, \
                 and the kernel maps further ones in the background. Its caller is in the lines beside; an update of it may \
                 ask for less, or wait",
                lines.amount.as_deref().unwrap_or("its size")
            ),
            Self::SuspendedPool => format!(
                "whatever uses pool {} waits, without a time limit, until its devices answer again; connect them and run \
                 zpool clear, or restart the machine. Memory is not short",
                first.unwrap_or("NAME")
            ),
            Self::Graphics => "each is a start of the OOM killer, which asks the graphics driver before it kills; the driver \
                 does not hold the memory. Where no kill follows, the requests may not use the file system (GFP_NOFS, GFP_NOIO: \
                 swap on a file system or a ZFS volume, network block devices), so that nobody ends and the machine may hang; \
                 find what grew before, and keep swap off such devices"
                .to_owned(),
            Self::UnalignedRange => format!(
                "the kernel adds memory in whole blocks, each at a multiple of its size; the hypervisor put this at {}. Align it \
                 there, or use a kernel with smaller blocks (arm64 with 4 KiB pages: 128 MiB since 5.12, 1 GiB before)",
                first.unwrap_or("another address")
            ),
            Self::CorrectedErrors => format!(
                "nothing is lost and memory is not short; {} is failing: replace it before errors cannot be corrected \
                 (edac-util, ras-mc-ctl --summary count them)",
                first.unwrap_or("the module")
            ),
            Self::UncorrectedErrors => "the kernel takes such pages out of use and kills who has them; replace the module. More \
                 memory or other settings do not help"
                .to_owned(),
            Self::CorruptPages => "the hardware is faulty or overclocked, or a driver writes where it must not; test the memory \
                 (memtest86+) at its normal speed. Memory is not short"
                .to_owned(),
            Self::Crash => "a defect of the kernel, a driver or the hardware, and no shortage of memory. Where each crash is at \
                 another place, test the memory (memtest86+); else look for a newer kernel, or report it with its call trace"
                .to_owned(),
            Self::SwapRead => "the disk, its cable or its controller fails, and the errors of the block device stand beside these \
                 lines: save the data, replace it, and move swap to another device. Programs that need such a page are killed \
                 (SIGBUS). Memory is not short"
                .to_owned(),
            Self::SwapWrite => "the pages stay in memory, and reclaim frees nothing: a disk fails or is full (a thin volume, a file \
                 over the network); the errors of the block device stand beside these lines"
                .to_owned(),
            Self::ZramRead => "a program that needs such a page is killed (SIGBUS). Memory is faulty, or the kernel is: 32-bit ARM \
                 with CONFIG_ZSMALLOC_PGTABLE_MAPPING (before 5.11) reads wrong pages. Try another compressor or kernel, and test \
                 the memory; zram is not full"
                .to_owned(),
            Self::ZramCompressor => format!(
                "no memory is missing, although the caller sees ENOMEM: the kernel was built without {0}, or its module is not \
                 loaded. Load it (modprobe {0}) before the device is set up, or choose another compressor \
                 (/sys/block/zram0/comp_algorithm lists them)",
                first.unwrap_or("the compressor")
            ),
            Self::SwapArea => "the machine runs without this swap (/proc/swaps has what it has). Write a file in full (dd \
                 if=/dev/zero of=FILE bs=1M count=MIB), not with fallocate or truncate, on btrfs after chattr +C; then mkswap \
                 FILE and swapon FILE. An area that was made with pages of another size needs a new mkswap"
                .to_owned(),
            Self::MemoryLimited => "remove mem= from the kernel's command line (the boot loader, its script, /proc/cmdline) and \
                 restart. The rest of the memory is not faulty, and nothing has taken it"
                .to_owned(),
            Self::NoHighMemory => "use a 64-bit kernel, or one with CONFIG_HIGHMEM4G, beyond 4 GiB HIGHMEM64G (PAE). The rest is not \
                 faulty, and nothing has taken it"
                .to_owned(),
            Self::Initramfs => "files are missing then, often /init, and the kernel panics without it: give the machine or guest \
                 more memory (-m of QEMU, dom0_mem= of Xen), or make the initramfs smaller. It is not damaged"
                .to_owned(),
            Self::CoherentPool => "drivers take memory for DMA from it where they may not wait; raise coherent_pool= on the kernel's \
                 command line (coherent_pool=1M). Other memory is no help"
                .to_owned(),
            Self::PercpuSize => "the program or module that asked (Comm: of the lines below) has to ask for less; no memory is \
                 missing"
                .to_owned(),
            Self::ListenQueue => format!(
                "the queue has as many places as the backlog that the program on port {} asks listen(2) for, at most \
                 net.core.somaxconn: raise both. net.ipv4.tcp_syncookies = 1 answers instead of dropping. Where nstat counts \
                 TcpExtListenOverflows, the program accepts too slowly; else it may be a flood. Memory is not short",
                first.unwrap_or("PORT")
            ),
            Self::SynCookies => "the queue of half-open connections was full, and nobody was refused. A burst of clients or a scan \
                 does that; with a small backlog of the program (listen(2)) it is frequent"
                .to_owned(),
            Self::NestedCgroup => "without memory.use_hierarchy the use of a cgroup of version 1 is not counted in its parent, so \
                 that a limit of the parent does not hold for it. Write 1 to memory.use_hierarchy of the root before cgroups are \
                 created; newer kernels (5.11) always count so. Memory is not short"
                .to_owned(),
            Self::LeftObjects => format!(
                "objects of {} were still in use when its module was unloaded: a leak of the module. What has leaked is lost \
                 until the next boot; update the module, or report it. Memory is not short",
                first.unwrap_or("the cache")
            ),
            Self::ModuleLeak => format!(
                "{} counts its objects, and some were left when it was unloaded: a leak of the module. What has leaked is lost \
                 until the next boot; update the module, or report it",
                first.unwrap_or("the module")
            ),
            Self::Usercopy => "a defect of the kernel or of a module, and no shortage of memory: the kernel checks what it copies \
                 (hardened usercopy), refuses what may not leave it, and stops the program. Of a cache, its module has to allow \
                 the copy (kmem_cache_create_usercopy). Update the kernel or the module, or report it"
                .to_owned(),
            Self::LargeBlock => "memory is neither short nor fragmented: the kernel refuses such a size at once (MAX_ORDER; 4 MiB \
                 on most machines with pages of 4 KiB, 1 MiB on s390x). The program or driver has to ask for a smaller buffer, \
                 or for several"
                .to_owned(),
            Self::CrashKernel => "a crash leaves no dump (kdump); nothing else lacks memory. Ask for less, or for an area above 4 GiB \
                 (crashkernel=SIZE,high, which takes a small one below as well). Where the kernel itself is placed at random \
                 (KASLR), the same size fits at some boots and not at others"
                .to_owned(),
            Self::LargeRequest => "a request above ZFS's own mark (spl_kmem_alloc_warn) is a warning for its authors; the line has \
                 no consequence. It comes from sizes that grow with the number of CPUs, and later versions avoid it"
                .to_owned(),
            Self::SinglePages => "the request for one block failed, was made another way and succeeded: harmless. A table that is set \
                 larger than is needed (nf_conntrack_max, its hashsize) asks for such blocks"
                .to_owned(),
            Self::HostMemoryBuffer => "the drive wants its tables in the machine's memory (a host memory buffer), more than it may have: it is slow, or \
                 some hang after hours. Raise nvme.max_host_mem_size_mb= on the kernel's command line; memory is not short"
                .to_owned(),
            Self::ReadOnly => "the lines before it name the error: after errors of the disk, check the disk. Where it was ENOMEM (error \
                 -12, or a kill in a cgroup at that moment), the disk is sound, and some kernels take a shortage for damage: \
                 update the kernel. In either case check the file system (fsck) before it is mounted again"
                .to_owned(),
            Self::AdapterLimit => "programs see ENOMEM ('Cannot allocate memory'), although memory is not short: the adapter has no more \
                 of such resources. Fewer processes for each adapter, or a larger window of its firmware (for UARs: mlxconfig, \
                 LOG_BAR_SIZE), then a restart"
                .to_owned(),
            Self::BusAddresses => "these are addresses on the PCI bus, and the firmware gave the bridge too small a window. BAR 6 is \
                 the ROM of a card, which a driver hardly ever needs; where another BAR is missing, the device does not work: \
                 pci=realloc on the kernel's command line, newer firmware, or 'above 4G decoding' in its settings"
                .to_owned(),
            Self::UncoveredMemory => "the memory is not faulty, and nothing has taken it. Firmware or the hypervisor sets memory type \
                 registers (MTRRs) that leave it out, or an old kernel reads them wrongly: update firmware, hypervisor and \
                 kernel. disable_mtrr_trim on the kernel's command line keeps the memory, which is slow where it is uncached in \
                 fact"
                .to_owned(),
            Self::MixedIo => "the line with File: names the file, and a process that wrote it. Who reads it may see old data: have both use the \
                 page cache, or both direct I/O; the program may have a setting or an update for it. Neither memory nor the disk is \
                 at fault"
                .to_owned(),
            Self::BusyRange => "each line is one attempt to move pages out of a range, for CMA, huge pages or virtio-mem; it is no failure and \
                 no shortage. A driver that gets no memory of CMA falls back to ordinary memory, or reports an error of its own. Where \
                 nothing needs CMA, switch it off (cma=0 at boot)"
                .to_owned(),
            Self::CaptureKernel => "it has only what crashkernel= of the first kernel reserved: where its initramfs or its programs \
                 do not fit, enlarge the reservation (crashkernel=SIZE), or make the initramfs smaller"
                .to_owned(),
            Self::SettingsTable => "a module from outside the kernel is built for another version: update or rebuild it. What it \
                 returns then may be ENOMEM ('Cannot allocate memory'), although memory is not short"
                .to_owned(),
            Self::MemfdFlags => "the kernel prints it once: the program passes neither MFD_EXEC nor MFD_NOEXEC_SEAL, and works as \
                 before. There is nothing to do"
                .to_owned(),
        }
    }
}
