mod edges;
mod folios;
mod growth;
mod machine;
mod time;

use super::{add_time, assess};
use machine::{Machine, Memory};
use mw_model::{
    Answer, Backing, Calibration, Cgroup, Cgroups, Confidence, HugePool, MemoryFilesystem, Missing,
    Node, PageSize, Preflight, Reading, Request, Snapshot, Window, derived,
};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::dentry_state::DentryState;
use mw_proc::inode_state::InodeState;
use mw_proc::meminfo::Meminfo;
use mw_proc::version::KernelVersion;

const GIB: u64 = 1 << 30;

/// The answer in words.
fn answer(
    window: &Window,
    request: &Request,
    calibration: Option<&Calibration>,
) -> Result<Preflight, Missing> {
    let mut assessment = assess(window, request)?;
    if let Some(calibration) = calibration {
        add_time(&mut assessment, window, calibration);
    }
    Ok(mw_render::preflight_words::describe(&assessment))
}

/// 0.3 ns a byte is 322 ms a GiB.
fn measured() -> Calibration {
    Calibration {
        took_ms: 20.0,
        measured_bytes: 48 << 20,
        base_ns_per_byte: Some(0.3),
        thp_ns_per_byte: Some(0.1),
        folio_ns_per_byte: None,
        hugetlb_ns_per_byte: Some(0.1),
        base_lock_ns_per_byte: Some(0.1),
        thp_lock_ns_per_byte: Some(0.0),
        spread: 1.1,
        crowding: 1.0,
        backing: Backing::default(),
    }
}

/// 16 GiB, most of it free.
const IDLE: Memory =
    Memory { total: 16384, free: 14336, file: 1024, dirty: 0, anon: 512, shmem: 0 };

fn check(preflight: &Preflight, expected: Answer, summary: &str) {
    assert_eq!(preflight.answer, expected, "{preflight:#?}");
    assert_eq!(preflight.summary, summary);
    let blocked = preflight.obstacles.iter().any(|obstacle| obstacle.blocks);
    assert_eq!(blocked, expected == Answer::No);
    assert_eq!(preflight.time.is_none(), expected == Answer::No);
    assert!(preflight.obstacles.iter().all(|obstacle| !obstacle.lift.is_empty()));
}

#[test]
fn an_idle_machine_says_yes_and_how_long() {
    let preflight = Machine::new(&[IDLE]).ask("8G,lock");
    check(&preflight, Answer::Yes, "yes: 8 GiB locked in 2.8 to 4.6 s (one thread)");
    assert_eq!(preflight.time.unwrap().confidence, Confidence::High);
    assert!(preflight.unseen.is_empty(), "{:?}", preflight.unseen);
    let preflight = Machine::new(&[IDLE, IDLE]).ask("16G");
    check(
        &preflight,
        Answer::Yes,
        "yes: 16 GiB in 3.9 to 7.2 s (one thread), from node 0 (13.9 GiB) and node 1 (2.1 GiB)",
    );
}

#[test]
fn node_0_full_of_tmpfs_leaves_node_1() {
    let full = Memory { free: 128, file: 64, shmem: 15360, ..IDLE };
    let tmpfs = |snapshot: &mut Snapshot| {
        snapshot.filesystems = Reading::Value(vec![MemoryFilesystem {
            target: "/mnt/ram".to_owned(),
            fstype: "tmpfs".to_owned(),
            used_bytes: Some(15 * GIB),
            ..MemoryFilesystem::default()
        }]);
    };
    let machine = || Machine::new(&[full, IDLE]).with(tmpfs);
    let preflight = machine().ask("8G,lock");
    assert_eq!(preflight.answer, Answer::Yes);
    assert!(preflight.summary.ends_with("from node 0 (0.0 GiB) and node 1 (8.0 GiB)"));
    let holder = &preflight.nodes[0].unreclaimable[0];
    assert_eq!(holder.bytes, 15 * GIB);
    assert_eq!(holder.holder, "tmpfs and shared memory: tmpfs /mnt/ram, 15 GiB in total");

    let bound = machine().ask("8G,lock,node=0");
    assert_eq!(bound.answer, Answer::No);
    assert!(bound.summary.starts_with("no: 8 GiB locked from node 0: memory of node 0 has "));
    assert!(bound.obstacles[0].lift.contains("/mnt/ram"), "{:?}", bound.obstacles);

    for (mode, expected) in [("0", Answer::Yes), ("1", Answer::Yes), ("4", Answer::Slowly)] {
        let preflight = machine().sysctl("vm.zone_reclaim_mode", mode).ask("8G,lock");
        assert_eq!(preflight.answer, expected, "mode {mode}");
        let named = preflight.obstacles.iter().any(|o| o.what.contains("zone_reclaim_mode"));
        assert_eq!(named, mode != "0");
    }
}

#[test]
fn a_pool_that_is_short_says_by_how_much() {
    let pool = HugePool {
        page_bytes: 2 << 20,
        total_pages: 7168,
        free_pages: 6656,
        reserved_pages: 512,
        ..HugePool::default()
    };
    let preflight = Machine::new(&[IDLE, IDLE]).pool(pool).ask("20G,huge=2M");
    check(
        &preflight,
        Answer::No,
        "no: 20 GiB on 2 MiB huge pages: the pool has 12 GiB, 8 GiB missing; 27.8 GiB can be reserved \
         now",
    );
    assert_eq!(
        preflight.obstacles[0].lift,
        "run memwright make-room 20G,huge=2M, or write 11264 to \
         /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, preferably at boot"
    );
    let preflight = Machine::new(&[IDLE]).pool(pool).ask("15G,huge=2M");
    assert_eq!(
        preflight.obstacles[0].lift,
        "request less, or add memory: this machine has 16 GiB in total"
    );
    let preflight = Machine::new(&[IDLE]).pool(pool).ask("12G,lock,huge=2M");
    check(
        &preflight,
        Answer::Yes,
        "yes: 12 GiB locked on 2 MiB huge pages in 966 ms to 1.8 s (one thread)",
    );
    let more = HugePool { overcommit_pages: 1024, ..pool };
    assert_eq!(Machine::new(&[IDLE]).pool(more).ask("13G,huge=2M").answer, Answer::Slowly);
    assert_eq!(Machine::new(&[IDLE]).pool(more).ask("20G,huge=2M").answer, Answer::No);
    assert_eq!(Machine::new(&[IDLE]).pool(pool).ask("1G,huge=1G").answer, Answer::No);
}

#[test]
fn a_bound_request_counts_the_nodes_share_of_the_pool() {
    let pool = |free_pages| HugePool {
        page_bytes: 2 << 20,
        total_pages: free_pages,
        free_pages,
        ..HugePool::default()
    };
    let node = |id, free| Node { id, hugepages: vec![pool(free)], ..Node::default() };
    let machine = || {
        Machine::new(&[IDLE, IDLE])
            .pool(pool(4096))
            .with(|s| s.nodes = Reading::Value(vec![node(0, 3072), node(1, 1024)]))
    };
    assert_eq!(machine().ask("4G,huge=2M,node=0").answer, Answer::Yes);
    assert_eq!(machine().ask("4G,huge=2M,node=1").answer, Answer::No);
    let both = machine().ask("8G,huge=2M");
    assert_eq!(both.answer, Answer::Yes);
    assert_eq!(both.nodes.iter().map(|n| n.taken_bytes).collect::<Vec<_>>(), [6 * GIB, 2 * GIB]);
}

#[test]
fn strict_overcommit_refuses_what_was_promised_to_others() {
    let machine = || Machine::new(&[IDLE]).sysctl("vm.overcommit_memory", "2");
    let preflight = machine().ask("7G");
    check(
        &preflight,
        Answer::No,
        "no: 7 GiB: commit limit (vm.overcommit_memory is 2) has 6 GiB, 1 GiB missing",
    );
    assert_eq!(machine().ask("6078M").answer, Answer::Yes);
    let reserved = machine().sysctl("vm.admin_reserve_kbytes", "1048576").ask("6G");
    assert_eq!(reserved.answer, Answer::No);
}

#[test]
fn the_heuristic_refuses_one_mapping_beyond_all_memory() {
    let preflight = Machine::new(&[IDLE]).ask("17G");
    assert_eq!(preflight.answer, Answer::No);
    assert!(preflight.obstacles.iter().any(|o| o.what == "vm.overcommit_memory is 0"));
    let preflight = Machine::new(&[IDLE]).sysctl("vm.overcommit_memory", "1").ask("17G");
    assert_eq!(preflight.obstacles.len(), 1, "{:?}", preflight.obstacles);
    assert_eq!(preflight.obstacles[0].what, "memory");
}

#[test]
fn a_limit_up_the_tree_counts() {
    let group = |path: &str, max, current| Cgroup {
        path: path.to_owned(),
        max_bytes: max,
        current_bytes: Some(current),
        ..Cgroup::default()
    };
    let groups = || {
        vec![
            group("/system/db", None, GIB),
            group("/system", Some(4 * GIB), GIB),
            group("/", None, 2 * GIB),
        ]
    };
    let preflight = Machine::new(&[IDLE]).groups(groups()).ask("4G");
    check(
        &preflight,
        Answer::No,
        "no: 4 GiB: memory limit of cgroup /system has 3 GiB, 1.0 GiB missing",
    );
    assert_eq!(Machine::new(&[IDLE]).groups(groups()).ask("2G").answer, Answer::Yes);
    let with_page_tables = Machine::new(&[IDLE]).groups(groups()).ask("3G");
    assert_eq!(with_page_tables.answer, Answer::No, "its page tables are charged as well");
    let swapping = Machine::new(&[IDLE]).groups(groups()).swap(4096);
    assert_eq!(swapping.ask("4G").answer, Answer::Slowly, "the group may swap");
    let mut cached = groups();
    cached[1].stat.inactive_file_bytes = Some(GIB);
    assert_eq!(Machine::new(&[IDLE]).groups(cached).ask("3G,lock").answer, Answer::Yes);
    let mut high = groups();
    high[0].high_bytes = Some(2 * GIB);
    let slowed = Machine::new(&[IDLE]).groups(high).ask("2G");
    assert_eq!(slowed.answer, Answer::Slowly);
    assert_eq!(slowed.time, None, "as long as it exceeds the limit");
    assert!(slowed.obstacles.iter().any(|o| o.what == "memory.high of cgroup /system/db"));
}

#[test]
fn memlock_binds_who_lacks_the_capability() {
    const LIMIT: &str = "Max locked memory  8388608  8388608  bytes\n";
    let machine = |capabilities| {
        Machine::new(&[IDLE]).limits(LIMIT).with(|s| s.origin.effective_capabilities = capabilities)
    };
    let preflight = machine(Some(0)).ask("1G,lock");
    check(&preflight, Answer::No, "no: 1 GiB locked: RLIMIT_MEMLOCK has 8 MiB, 1016 MiB missing");
    assert_eq!(machine(Some(0)).ask("1G").answer, Answer::Yes);
    assert_eq!(machine(Some(1 << 14)).ask("1G,lock").answer, Answer::Yes);
    let unknown = machine(None).ask("1G,lock");
    assert!(unknown.obstacles[0].what.contains("unless"), "{:?}", unknown.obstacles);
    assert_eq!(unknown.answer, Answer::Yes);
}

#[test]
fn swap_makes_a_no_slow_and_a_lock_keeps_it_out() {
    let busy = Memory { total: 16384, free: 512, file: 1024, dirty: 0, anon: 14336, shmem: 0 };
    let none = Machine::new(&[busy]).ask("8G");
    assert_eq!(none.answer, Answer::No);
    assert!(none.summary.starts_with("no: 8 GiB: memory has 1."), "{}", none.summary);
    let holder = &none.nodes[0].unreclaimable[0];
    assert_eq!(holder.holder, "anonymous memory of processes (no swap)");
    let swapping = Machine::new(&[busy]).swap(16384).ask("8G");
    assert_eq!(swapping.answer, Answer::Slowly);
    assert!(swapping.obstacles.iter().any(|o| o.what == "swap"));
    assert_eq!(swapping.time.unwrap().confidence, Confidence::Low);
    // Its own pages may be swapped out as well, unless they are locked.
    let large = || Machine::new(&[Memory { anon: 1024, ..busy }]).swap(15000);
    assert_eq!(large().ask("15G").answer, Answer::Slowly);
    assert_eq!(large().ask("15G,lock").answer, Answer::No);
}

/// Promise (Fixing): No remedy is proposed that cannot help: more than the machine has, swap for locked memory, a
/// nonexistent node.
#[test]
fn no_remedy_is_advised_that_cannot_help() {
    let lifts = |machine: Machine, request: &str| -> Vec<String> {
        let preflight = machine.ask(request);
        assert_eq!(preflight.answer, Answer::No, "{request}");
        preflight.obstacles.into_iter().map(|obstacle| obstacle.lift).collect()
    };
    // More than there is in all: no setting and no limit helps.
    let whole = "request less, or add memory: this machine has 16 GiB in total";
    for mode in ["0", "1", "2"] {
        let machine = Machine::new(&[IDLE]).sysctl("vm.overcommit_memory", mode);
        let machine = machine.sysctl("kernel.shmmax", "33554432");
        assert!(lifts(machine, "64G").iter().all(|lift| lift == whole), "mode {mode}");
    }
    let bound = lifts(Machine::new(&[IDLE, IDLE]), "20G,node=1");
    assert_eq!(bound, ["request less, or add memory: node 1 has 16 GiB in total"]);
    // Swap makes no room for locked memory beyond what others could give up.
    let ramfs = Memory { total: 16384, free: 1024, file: 0, dirty: 0, anon: 256, shmem: 0 };
    assert!(!lifts(Machine::new(&[ramfs]), "8G,lock")[0].contains("add swap"));
    assert!(lifts(Machine::new(&[ramfs]), "8G")[0].contains("add swap"));
    // The shell raises a limit up to the hard one; beyond that it needs root.
    let limited = |hard: &str| {
        let text = format!("Max data size  1048576  {hard}  bytes\n");
        lifts(Machine::new(&[IDLE]).limits(&text), "1G")[0].clone()
    };
    assert!(limited("unlimited").starts_with("raise it with ulimit -d"));
    assert!(limited("1048576").starts_with("raise the hard limit too, which needs root"));
}

/// Promise (Fixing): Where the kernel's reserve is what is missing, its setting is the remedy, with a value that suffices and
/// is no less than the kernel's own choice.
#[test]
fn a_reserve_that_is_in_the_way_is_lowered() {
    let lift = |kib: &str| {
        let preflight = Machine::new(&[IDLE]).sysctl("vm.min_free_kbytes", kib).ask("15G,lock");
        assert_eq!(preflight.answer, Answer::No);
        preflight.obstacles[0].lift.clone()
    };
    assert!(lift("4194304").starts_with("sysctl vm.min_free_kbytes="), "{}", lift("4194304"));
    assert!(lift("65536").starts_with("free some of the unreclaimable memory"));
}

#[test]
fn dirty_memory_is_slow_and_clean_memory_is_not() {
    let cached = Memory { total: 16384, free: 1024, file: 14336, dirty: 0, anon: 256, shmem: 0 };
    assert_eq!(Machine::new(&[cached]).ask("8G,lock").answer, Answer::Yes);
    let dirty = Machine::new(&[Memory { dirty: 12288, ..cached }]).ask("8G,lock");
    assert_eq!(dirty.answer, Answer::Unknown, "the disk takes 40 s, reclaim retries for one");
    assert!(dirty.summary.contains("have to be written back first"), "{}", dirty.summary);
    let waiting = dirty.obstacles.iter().find(|o| o.what == "dirty memory");
    assert!(waiting.is_some_and(|o| o.needed_bytes.is_some_and(|bytes| bytes > 4 * GIB)));
    assert!(dirty.time.unwrap().likely_ms > 40_000.0, "a disk's speed");
}

#[test]
fn huge_pages_that_must_be_compacted_for_are_slow() {
    let scattered = || {
        let mut machine = Machine::new(&[IDLE]).build();
        let mut buddyinfo = Buddyinfo::default();
        buddyinfo.parse_into(b"Node 0, zone Normal 3670016 0 0 0 0 0 0 0 0 0 0\n").unwrap();
        machine.snapshot.sample.buddyinfo = Reading::Value(buddyinfo);
        machine
    };
    let preflight = scattered().ask_as_it_is("4G,huge=thp");
    assert_eq!(preflight.answer, Answer::Slowly);
    assert!(preflight.obstacles[0].what.contains("defrag is madvise"));
    let compacting = preflight.time.unwrap().likely_ms;
    let deferring = scattered()
        .thp("always [madvise] never", "always [defer] never")
        .ask_as_it_is("4G,huge=thp");
    assert!(deferring.time.unwrap().likely_ms < compacting / 5.0);
    assert_eq!(scattered().ask_as_it_is("4G").answer, Answer::Yes);
    let off = Machine::new(&[IDLE]).thp("always madvise [never]", "[never]").ask("1G,huge=thp");
    assert_eq!(off.answer, Answer::Slowly);
    assert_eq!(off.obstacles[0].what, "transparent huge pages are disabled");
}

#[test]
fn a_segment_of_system_v_is_warned_about() {
    let preflight = Machine::new(&[IDLE]).sysctl("kernel.shmmax", "33554432").ask("1G");
    assert_eq!(preflight.answer, Answer::Yes);
    assert_eq!(preflight.obstacles[0].what, "kernel.shmmax");
    assert!(!preflight.obstacles[0].blocks);
}

#[test]
fn a_node_that_is_not_there_is_refused() {
    let preflight = Machine::new(&[IDLE]).ask("1G,node=3");
    assert_eq!(preflight.answer, Answer::No);
    assert_eq!(preflight.summary, "no: 1 GiB from node 3: node 3 does not exist");
    assert_eq!(preflight.obstacles[0].lift, "request a node with memory: 0");
}

#[test]
fn without_nodes_and_zones_it_answers_from_the_machine_and_says_so() {
    let mut machine = Machine::new(&[IDLE]).build();
    let sample = &mut machine.snapshot.sample;
    sample.zoneinfo = Reading::default();
    sample.buddyinfo = Reading::default();
    sample.nodes = Vec::new();
    machine.snapshot.nodes = Reading::default();
    let preflight = machine.ask_as_it_is("8G");
    assert_eq!(preflight.answer, Answer::Yes);
    assert_eq!(preflight.unseen.len(), 1, "{:?}", preflight.unseen);
    let time = preflight.time.unwrap();
    assert!(time.basis.contains("some files could not be read"));
}

#[test]
fn kernels_without_memavailable_and_lists_by_kind_are_understood() {
    let mut machine = Machine::new(&[IDLE]).build();
    let old = b"MemTotal: 16777216 kB\nMemFree: 2097152 kB\nCached: 12582912 kB\nSwapTotal: 0 kB\n";
    let sample = &mut machine.snapshot.sample;
    sample.meminfo = Reading::Value(Meminfo::parse(old).unwrap());
    sample.zoneinfo = Reading::default();
    machine.snapshot.origin.kernel = Some(KernelVersion::new(2, 6, 18));
    let preflight = machine.ask_as_it_is("8G");
    assert_eq!(preflight.answer, Answer::Yes, "{preflight:#?}");
    assert!(preflight.nodes[0].clean_bytes > 5 * GIB);
}

/// 16 GiB of which 2 are free and 12 are kernel objects that are counted as reclaimable: so many
/// file names, each with an inode, of which so many are unused.
fn of_objects(dentries: u64, unused: u64) -> Machine {
    let mut machine = Machine::new(&[Memory { free: 2048, file: 0, ..IDLE }]).build();
    let sample = &mut machine.snapshot.sample;
    let mut meminfo = *sample.meminfo.value().unwrap();
    meminfo.kreclaimable_bytes = Some(12 * GIB);
    meminfo.sreclaimable_bytes = Some(12 * GIB);
    meminfo.mem_available_bytes = Some(14 * GIB);
    sample.meminfo = Reading::Value(meminfo);
    machine.snapshot.dentries = Reading::Value(DentryState { dentries, unused, negative: 0 });
    machine.snapshot.inodes = Reading::Value(InodeState { inodes: dentries, unused: 0 });
    machine
}

/// Promise (Findings): Kernel objects in use are not available, unused ones are: in a virtual machine all of ten
/// requests are answered correctly.
#[test]
fn kernel_objects_in_use_are_not_available_and_unused_ones_are() {
    const NAMES: u64 = 15_000_000;
    let ramfs = || of_objects(NAMES, 10_000);
    assert_eq!(ramfs().ask_as_it_is("1G,lock").answer, Answer::Yes);
    let preflight = ramfs().ask_as_it_is("8G,lock");
    assert_eq!(preflight.answer, Answer::No, "{preflight:#?}");
    assert!(preflight.obstacles[0].lift.contains("files of ramfs"), "{:?}", preflight.obstacles);
    let ready = derived::ready_bytes(&ramfs().snapshot).unwrap();
    assert!((2 * GIB..3 * GIB).contains(&ready), "{ready}");

    let backup = || of_objects(NAMES, NAMES - 10_000);
    assert_eq!(backup().ask_as_it_is("8G,lock").answer, Answer::Yes);
    assert!(derived::ready_bytes(&backup().snapshot).unwrap() > 13 * GIB);
    // A kernel or tree that does not say: as MemAvailable has it.
    let mut unknown = ramfs();
    unknown.snapshot.dentries = Reading::default();
    assert_eq!(derived::ready_bytes(&unknown.snapshot), Ok(14 * GIB));
}

#[test]
fn memory_that_is_not_accepted_yet_serves_huge_pages() {
    let mut machine = Machine::new(&[IDLE]).build();
    let sample = &mut machine.snapshot.sample;
    let mut zoneinfo = sample.zoneinfo.value().cloned().unwrap();
    // 12 GiB of the 14 that are free are in no list.
    zoneinfo.zones[0].unaccepted_pages = Some(12 << 18);
    sample.zoneinfo = Reading::Value(zoneinfo);
    let mut buddyinfo = Buddyinfo::default();
    buddyinfo.parse_into(b"Node 0, zone Normal 524288 0 0 0 0 0 0 0 0 0 0\n").unwrap();
    sample.buddyinfo = Reading::Value(buddyinfo);
    let window = Window::new(machine.snapshot.clone());
    let found = crate::check(&window, None).findings;
    assert!(found.iter().all(|finding| finding.rule != "fragmented-node"), "{found:?}");
    assert_eq!(machine.ask_as_it_is("4G,huge=thp").answer, Answer::Yes);
}

#[test]
fn memory_that_was_never_set_up_is_free_and_slow_to_touch() {
    let mut machine = Machine::new(&[IDLE]).build();
    // The zone manages 4 GiB of 16; meminfo counts the rest as free.
    let sample = &mut machine.snapshot.sample;
    let mut zoneinfo = sample.zoneinfo.value().cloned().unwrap();
    zoneinfo.zones[0].managed_pages = Some(1 << 20);
    zoneinfo.zones[0].free_pages = 2 << 18;
    sample.zoneinfo = Reading::Value(zoneinfo);
    let request: Request = "8G".parse().unwrap();
    let window = Window::new(machine.snapshot);
    let backing = Backing {
        virtual_machine: true,
        unbacked_ns_per_byte: Some(3.0),
        unbacked_share: Some(0.0),
        ..Backing::default()
    };
    let preflight =
        answer(&window, &request, Some(&Calibration { backing, ..measured() })).unwrap();
    assert_eq!(preflight.answer, Answer::Yes);
    let time = preflight.time.unwrap();
    assert!((19_000.0..22_000.0).contains(&time.likely_ms), "{time:?}");
    assert!(time.basis.contains("has to back"), "{}", time.basis);
}

#[test]
fn without_a_measurement_there_is_no_time_and_without_meminfo_no_answer() {
    let request: Request = "1G".parse().unwrap();
    let window = Window::new(Machine::new(&[IDLE]).build().snapshot);
    let preflight = answer(&window, &request, None).unwrap();
    assert_eq!((preflight.summary.as_str(), preflight.time), ("yes: 1 GiB", None));
    assert!(answer(&Window::default(), &request, None).is_err());
    assert_eq!(request.page, PageSize::Base);
}

#[test]
fn groups_above_a_container_are_named_and_leave_the_answer() {
    let why = Missing::skipped("/sys/fs/cgroup", "hidden by a namespace");
    let groups = Cgroups { above_unseen: Some(why.clone()), ..Cgroups::default() };
    let machine = Machine::new(&[IDLE]).with(|snapshot| snapshot.cgroups = Reading::Value(groups));
    let preflight = machine.ask("8G");
    assert_eq!((preflight.answer, preflight.unseen), (Answer::Yes, vec![why]));
}

#[test]
fn a_limit_that_was_not_seen_makes_the_answer_unknown() {
    let why = || Missing::skipped("/sys/fs/cgroup", "could not be determined");
    let ask = |size: &str, change: fn(&mut Snapshot, Missing)| {
        Machine::new(&[IDLE]).with(|snapshot| change(snapshot, why())).ask(size)
    };
    let changes: [fn(&mut Snapshot, Missing); 4] = [
        |snapshot, why| snapshot.cgroups = Reading::Missing(why),
        |snapshot, why| snapshot.limits = Reading::Missing(why),
        |snapshot, why| {
            snapshot.cgroups = Reading::Value(Cgroups { unseen: vec![why], ..Cgroups::default() });
        },
        |snapshot, why| {
            snapshot.sysctl.values.insert("vm.overcommit_memory".to_owned(), Err(why));
        },
    ];
    for change in changes {
        let preflight = ask("8G", change);
        assert_eq!(preflight.answer, Answer::Unknown, "{preflight:#?}");
        let starts =
            "unknown, because a limit that could not be determined may refuse it; otherwise yes: ";
        assert!(preflight.summary.starts_with(starts), "{}", preflight.summary);
        assert_eq!(preflight.unseen, [why()]);
        assert_eq!(ask("200G", change).answer, Answer::No, "what is surely refused is");
    }
    // Pages of a pool are charged to no memory limit of a cgroup.
    let pool = HugePool {
        page_bytes: 2 << 20,
        total_pages: 4096,
        free_pages: 4096,
        ..HugePool::default()
    };
    let machine = Machine::new(&[IDLE]).pool(pool).with(|s| s.cgroups = Reading::Missing(why()));
    assert_eq!(machine.ask("1G,huge=2M").answer, Answer::Yes);
    // A kernel without cgroups has no limit there.
    let absent = |snapshot: &mut Snapshot| {
        snapshot.cgroups = Reading::Missing(Missing::absent("/proc/self/cgroup", "not built in"));
    };
    assert_eq!(Machine::new(&[IDLE]).with(absent).ask("8G").answer, Answer::Yes);
}

#[test]
fn kernel_memory_of_a_version_1_group_may_be_reclaimed() {
    let group = |kernel| Cgroup {
        path: "/a".to_owned(),
        max_bytes: Some(4 * GIB),
        current_bytes: Some(3 * GIB),
        kernel_bytes: Some(kernel),
        ..Cgroup::default()
    };
    let answer = |kernel| Machine::new(&[IDLE]).groups(vec![group(kernel)]).ask("2G").answer;
    assert_eq!(answer(2 * GIB), Answer::Slowly);
    assert_eq!(answer(0), Answer::No);
}
