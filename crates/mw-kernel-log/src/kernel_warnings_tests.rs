use super::*;

fn read(lines: &[&str]) -> KernelWarnings {
    let mut warnings = KernelWarnings::default();
    for line in lines {
        assert!(warnings.read(line), "{line}");
    }
    warnings
}

#[test]
fn the_limit_is_named_with_who_met_it() {
    let tasks = read(&["cgroup: fork rejected by pids controller in /system.slice/ci.service"]);
    let headline = tasks.headline().unwrap();
    assert!(headline.ends_with("limit of tasks (pids.max) of /system.slice/ci.service"));
    let line = "nvme 0000:01:00.0: swiotlb buffer is full (sz: 4096 bytes), total 32768 (slots), used 32760 (slots)";
    let headline = read(&[line, line]).headline().unwrap();
    assert!(headline.contains("nvme 0000:01:00.0 found no free bounce buffer"), "{headline}");
    assert!(headline.ends_with("32760 of 32768 slots in use"), "{headline}");
    let old = read(&["DMA: Out of SW-IOMMU space for 65536 bytes at device 0000:03:00.0"]);
    assert!(old.headline().unwrap().contains("0000:03:00.0 found no free bounce buffer"));
}

#[test]
fn limits_of_devices_name_the_device() {
    let line = "nvme nvme0: min host memory (64 MiB) above limit (32 MiB).";
    let headline = read(&[line]).headline().unwrap();
    assert!(
        headline.contains("nvme nvme0 got no host memory buffer: it wants 64 MiB, and may have 32"),
        "{headline}"
    );
    let line = "mlx5_core 0000:61:00.0: mlx5_cmd_check:795:(pid 53945): ALLOC_UAR(0x802) op_mod(0x0) failed, status \
                limits exceeded(0x8), syndrome (0x5a7939)";
    let headline = read(&[line]).headline().unwrap();
    assert!(
        headline.contains("mlx5_core 0000:61:00.0 is at a limit of its own: ALLOC_UAR"),
        "{headline}"
    );
    let line = "EXT4-fs (xvda9): Remounting filesystem read-only";
    let headline = read(&[line]).headline().unwrap();
    assert!(
        headline.ends_with("the file system on xvda9 became read-only after an error"),
        "{headline}"
    );
}

#[test]
fn addresses_of_the_pci_bus_are_no_memory() {
    for line in [
        "pci 0000:05:00.0: BAR 6: no space for [mem size 0x00100000 pref]",
        "pci 0000:05:00.0: ROM [mem size 0x00100000 pref]: can't assign; no space",
    ] {
        let warnings = read(&[line]);
        assert_eq!(warnings.headline(), None, "other warnings come first");
        let aside = warnings.aside().unwrap();
        assert!(aside.starts_with("the bridge above pci 0000:05:00.0 has no"), "{aside}");
        assert!(aside.ends_with("no memory is missing"), "{aside}");
    }
    let window = "pcieport 0000:00:1c.0: bridge window [io size 0x1000]: can't assign; no space";
    assert!(!KernelWarnings::default().read(window), "usual at ports without a device");
}

#[test]
fn per_cpu_memory_for_a_request_that_may_not_wait_is_told_from_a_shortage() {
    let line =
        "percpu: allocation failed, size=9352 align=8 atomic=1, atomic alloc failed, no space left";
    let headline = read(&[line]).headline().unwrap();
    assert!(headline.contains("a gap of 9352 bytes for a request that may not"), "{headline}");
    let line = "percpu: allocation failed, size=8 align=8 atomic=0, failed to populate";
    let headline = read(&[line]).headline().unwrap();
    assert!(headline.ends_with("an allocation of per-CPU memory failed"), "{headline}");
}

#[test]
fn a_crash_of_the_kernel_is_no_kill_and_no_fault_of_a_program() {
    let headline = |line: &str| read(&[line]).headline().unwrap();
    let bug = "kernel BUG at include/linux/scatterlist.h:115!";
    assert_eq!(headline(bug), format!("the kernel crashed: {}", bug.trim_end_matches('!')));
    let line = "general protection fault, probably for non-canonical address 0x1: 0000 [#1] SMP";
    assert!(headline(line).starts_with("the kernel crashed: general protection fault"));
    let line = "traps: web[812] general protection fault ip:7f00 sp:7f01 error:0 in libc.so.6";
    assert!(!KernelWarnings::default().read(line));
}

#[test]
fn a_suspended_pool_is_named() {
    let line = "WARNING: Pool 'backup' has encountered an uncorrectable I/O failure and has been suspended.";
    assert!(
        read(&[line])
            .headline()
            .unwrap()
            .ends_with("ZFS suspended pool backup after errors of its devices")
    );
}

#[test]
fn a_refused_program_is_named_with_what_it_asked_for() {
    let headline = |line: &str| read(&[line]).headline().unwrap();
    let line = "__vm_enough_memory: pid: 7, comm: a, bytes: 1, bytes: 51539607552 not enough memory for the allocation";
    assert!(headline(line).ends_with("overcommit refused a, bytes: 1 48 GiB in one request"));
    let old = "__vm_enough_memory: pid: 7, comm: rpc.statd, no enough memory for the allocation";
    assert!(headline(old).ends_with("overcommit refused rpc.statd memory in one request"));
    let line = "mmap: a b (7): VmData 8760119296 exceed data ulimit 8589934592. Update limits or use boot option \
                ignore_rlimit_data.";
    assert!(
        headline(line)
            .contains("a b reached its limit of private memory (ulimit -d): 8.2 GiB of 8 GiB")
    );
    let line = "neighbour: arp_cache: neighbor table overflow!";
    assert!(headline(line).contains("gc_thresh3"));
    let line =
        "percpu: allocation failed, size=8 align=8 atomic=0, alloc from reserved chunk failed";
    assert!(headline(line).contains("per-CPU memory"));
}

#[test]
fn the_most_frequent_refusal_is_the_headline_and_each_has_a_note() {
    let both = read(&[
        "TCP: out of memory -- consider tuning tcp_mem",
        "TCP: too many orphaned sockets",
        "TCP: too many orphaned sockets",
    ]);
    assert!(both.headline().unwrap().contains("tcp_max_orphans"));
    assert_eq!(both.notes().count(), 2);
}

#[test]
fn faults_of_memory_name_the_module_and_the_block() {
    let headline = |line: &str| read(&[line]).headline().unwrap();
    for line in [
        "EDAC MC0: 4 CE error on DIMM#0 (channel:2 slot:0 page:0x0 offset:0x0)",
        "EDAC MC0: 1 CE memory read error on DIMM#0 (channel:0 slot:0)",
        "EDAC MC1: CE page 0x1, offset 0x0, grain 8, row 4, channel 1, label \"DIMM#0\": amd64",
    ] {
        assert!(headline(line).ends_with("corrected memory errors at DIMM#0"), "{line}");
    }
    let line = "Memory failure: 0x12345: recovery action for dirty LRU page: Recovered";
    assert!(headline(line).contains("memory is faulty"));
    let line = "Block size [0x40000000] unaligned hotplug range: start 0xc8000000, size 0x40000000";
    assert!(headline(line).ends_with("a boundary of 1 GiB"));
    assert!(read(&[line]).notes().next().unwrap().contains("put this at 0xc8000000. "));
    let line = "BUG: Bad page map in process a  pte:806a0000 pmd:387c2831";
    assert!(headline(line).contains("memory is corrupt"));
}

#[test]
fn swap_that_fails_names_the_device() {
    let headline = |line: &str| read(&[line]).headline().unwrap();
    assert!(headline("Read-error on swap-device (8:0:353315392)").contains("device 8:0"));
    assert!(headline("Write-error on swap-device (259:1:8)").contains("device 259:1"));
    assert!(headline("zram: Decompression failed! err=-22, page=73880").contains("zram"));
    let line = "zram: Cannot initialise zstd compressing backend";
    assert!(headline(line).ends_with("zram could not start its compressor zstd"));
    assert!(headline("swapon: swapfile has holes").ends_with(": swapfile has holes"));
    let line =
        "BTRFS warning (device sda1): swapfile must not be copy-on-write (inode 257 of root 5)";
    assert!(headline(line).contains("refused: swapfile must not be copy-on-write"));
}

#[test]
fn memory_that_is_not_used_is_told_from_memory_that_is_missing() {
    let headline = |line: &str| read(&[line]).headline().unwrap();
    assert!(headline("Memory limited to 4096MB").contains("4096MB of memory (mem="));
    assert!(headline("Warning only 887MB will be used.").contains("887MB"));
    assert!(headline("Initramfs unpacking failed: write error").contains("initramfs"));
    let line = "ERROR: 256 KiB atomic DMA coherent pool is too small!";
    assert!(headline(line).contains("256 KiB"));
    let line = "illegal size (32792) or align (8) for percpu allocation";
    assert!(headline(line).contains("32792 bytes"));
    let line = "memfd_create() without MFD_EXEC nor MFD_NOEXEC_SEAL, pid=779 'systemd'";
    let reminder = read(&[line]);
    assert_eq!(reminder.headline(), None);
    assert!(reminder.reminder().unwrap().contains("nothing is wrong"));
    assert!(reminder.reminder().unwrap().contains("systemd"));
    let line = "Large kmem_alloc(73728, 0x1000), please file an issue at:";
    assert!(read(&[line]).reminder().unwrap().contains("ZFS asked for 72 KiB"));
    let table = read(&["nf_conntrack: falling back to vmalloc."]);
    assert_eq!(table.headline(), None);
    assert!(table.reminder().unwrap().contains("nf_conntrack"));
    let line = "WARNING: BIOS bug: CPU MTRRs don't cover all of memory, losing 33408MB of RAM.";
    assert!(headline(line).contains("gave up 32.6 GiB"));
    let line = "sysctl table check failed: net/a/(null) No proc_handler";
    assert!(headline(line).contains("net/a"));
    let line = "crashkernel reservation failed - No suitable area found.";
    assert!(headline(line).contains("crashkernel="));
}

#[test]
fn other_lines_refuse_nothing() {
    let mut warnings = KernelWarnings::default();
    for line in [
        "swiotlb: Reserved memory: created",
        "hv_balloon: Using Dynamic Memory",
        "a[7]: memfd_create() requires MFD_NOEXEC_SEAL with vm.memfd_noexec=2",
        "",
    ] {
        assert!(!warnings.read(line), "{line}");
    }
    assert_eq!(warnings.headline(), None);
}

#[test]
fn who_asked_for_too_much_at_once_is_in_the_call_trace() {
    let mut warnings = read(&[
        "WARNING: CPU: 30 PID: 9311 at mm/page_alloc.c:3189 __alloc_pages_nodemask+0x45c/0xbe0",
    ]);
    warnings.read_program("CPU: 30 PID: 9311 Comm: a card Kdump: loaded Not tainted 3.10.0 #1");
    warnings.read_program("CPU: 30 PID: 9311 Comm: other Not tainted 3.10.0 #1");
    let headline = warnings.headline().unwrap();
    assert!(headline.contains("a card asked for a block that is larger"), "{headline}");
    let mut other = KernelWarnings::default();
    for function in ["free_one_page", "__alloc_pages_slowpath.constprop.0"] {
        let line = format!("WARNING: CPU: 1 PID: 1 at mm/page_alloc.c:801 {function}+0x1/0x2");
        assert!(!other.read(&line), "{line}");
    }
    // As Linux 6.19 writes it.
    let line =
        "WARNING: mm/page_alloc.c:5216 at __alloc_frozen_pages_noprof+0x1/0x2, CPU#1: a card/272";
    let headline = read(&[line]).headline().unwrap();
    assert!(headline.contains("a card asked for a block that is larger"), "{headline}");
}

#[test]
fn what_a_module_left_behind_is_named_by_its_cache() {
    for line in [
        "BUG a_cache (Tainted: G B): Objects remaining in a_cache on __kmem_cache_shutdown()",
        "BUG a_cache (Not tainted): Objects remaining on __kmem_cache_shutdown()",
        "kmem_cache_destroy a_cache: Slab cache still has objects when called from f+0x1/0x2 [m]",
    ] {
        let headline = read(&[line]).headline().unwrap();
        assert!(headline.ends_with("it left objects in its slab cache a_cache"), "{headline}");
    }
    let crashed = read(&[
        "kernel BUG at mm/usercopy.c:99!",
        "usercopy: Kernel memory exposure attempt detected from SLUB object 'a_cache' (offset 4, size 4)!",
    ]);
    assert!(crashed.headline().unwrap().contains("an object of slab cache a_cache"));
    let stack =
        "usercopy: Kernel memory overwrite attempt detected to process stack (offset 0, size 8)!";
    let headline = read(&[stack]).headline().unwrap();
    assert!(headline.ends_with("overwrite attempt detected to process stack"), "{headline}");
}

#[test]
fn a_listen_queue_is_named_by_its_port() {
    for address in ["9002", "[::]:9002", "0.0.0.0:9002"] {
        let line = format!(
            "TCP: request_sock_TCP: Possible SYN flooding on port {address}. Dropping request.  Check SNMP counters."
        );
        let headline = read(&[&line]).headline().unwrap();
        assert!(headline.contains("connections to port 9002 were dropped"), "{headline}");
        let answered = read(&[&line.replace("Dropping request", "Sending cookies")]);
        assert!(answered.headline().is_none());
        assert!(answered.reminder().unwrap().contains("port 9002"));
    }
    let nested = read(&["cgroup: \"memory\" requires setting use_hierarchy to 1 on the root"]);
    assert!(nested.headline().is_none() && nested.reminder().unwrap().contains("use_hierarchy"));
}

#[test]
fn pages_of_cma_that_are_busy_are_no_failure() {
    let busy = read(&["alloc_contig_range: [83e4d9, 83e4da) PFNs busy"]);
    assert!(busy.headline().is_none());
    assert!(busy.reminder().unwrap().contains("the kernel tries others"));
}

#[test]
fn a_crash_is_told_with_its_function() {
    let mut crash =
        read(&["Unable to handle kernel NULL pointer dereference at virtual address 00000000"]);
    crash.read_program("LR is at other+0x344/0x820 [other]");
    crash.read_program("PC is at zs_map_object+0xac/0x1dc [zsmalloc]");
    crash.read_program("PC is at another+0xac/0x1dc");
    let headline = crash.headline().unwrap();
    assert!(
        headline.starts_with("the kernel crashed in zs_map_object() of module zsmalloc: "),
        "{headline}"
    );
    let mut nowhere = read(&["BUG: unable to handle page fault for address: ffff"]);
    nowhere.read_program("RIP: 0010:0x0");
    nowhere.read_program("RIP: 0010:native_queued_spin_lock_slowpath+0x6e/0x1d0");
    assert!(nowhere.headline().unwrap().starts_with("the kernel crashed: "), "of a later report");
    let mut crash = read(&["BUG: unable to handle page fault for address: ffff"]);
    crash.read_program("RIP: 0010:skb_release_data+0x10/0x20");
    assert!(crash.headline().unwrap().starts_with("the kernel crashed in skb_release_data(): "));
}

#[test]
fn who_mixes_two_ways_of_io_is_named() {
    let mut mixed = read(&[
        "Page cache invalidation failure on direct I/O.  Possible data corruption due to collision with buffered I/O!",
    ]);
    mixed.read_program("File: /var/cache/a.ndf PID: 5552 Comm: LIBUV WORKER");
    assert!(mixed.headline().is_none());
    assert!(mixed.aside().unwrap().starts_with("LIBUV WORKER writes a file with direct I/O"));
}
