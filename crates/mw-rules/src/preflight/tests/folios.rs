//! Requests for folios below a huge page.

use super::machine::Machine;
use super::{GIB, IDLE, answer, measured};
use mw_model::{
    Absence, Answer, Calibration, Missing, Preflight, Reading, Request, Snapshot, Thp, ThpSize,
    Window,
};
use mw_proc::buddyinfo::Buddyinfo;
use mw_proc::choice::Choice;
use mw_proc::version::KernelVersion;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn choice(text: &str) -> Choice {
    Choice::parse(text.as_bytes()).unwrap()
}

/// A switch file with this value.
fn selected(value: &str) -> Choice {
    choice(&format!("[{value}]"))
}

/// Switches of all sizes, and of 64 KiB, 256 KiB and 2 MiB: private, shared.
fn switches(all: (&str, &str), sizes: &[(u64, &str, &str)]) -> Thp {
    let size = |(kib, private, shared): &(u64, &str, &str)| ThpSize {
        page_bytes: kib * KIB,
        enabled: selected(private),
        shmem_enabled: Some(selected(shared)),
    };
    Thp {
        enabled: selected(all.0),
        shmem_enabled: Some(selected(all.1)),
        defrag: selected("madvise"),
        sizes: sizes.iter().map(size).collect(),
        ..Thp::default()
    }
}

const ALLOWED: &[(u64, &str, &str)] =
    &[(64, "madvise", "advise"), (256, "madvise", "never"), (2048, "inherit", "inherit")];

/// 14 GiB are free: 4 GiB in blocks of 64 KiB, 3 GiB of 256 KiB, 1 GiB of 4 MiB, the rest in base pages.
fn machine(kernel: KernelVersion, thp: Thp) -> Machine {
    let mut machine = Machine::new(&[IDLE]).build();
    let line = format!(
        "Node 0, zone Normal {} 0 0 0 {} 0 {} 0 0 0 {}\n",
        6 * GIB / 4096,
        4 * GIB / (64 * KIB),
        3 * GIB / (256 * KIB),
        GIB / (4 * MIB)
    );
    let mut buddyinfo = Buddyinfo::default();
    buddyinfo.parse_into(line.as_bytes()).unwrap();
    let snapshot = &mut machine.snapshot;
    snapshot.sample.buddyinfo = Reading::Value(buddyinfo);
    snapshot.origin.kernel = Some(kernel);
    snapshot.thp = Reading::Value(thp);
    machine
}

const NEW: KernelVersion = KernelVersion::new(6, 18, 0);

fn fragmented() -> Machine {
    machine(NEW, switches(("madvise", "advise"), ALLOWED))
}

fn ask(machine: &Machine, request: &str, calibration: Option<&Calibration>) -> Preflight {
    let request: Request = request.parse().unwrap();
    answer(&Window::new(machine.snapshot.clone()), &request, calibration).unwrap()
}

/// Promise (Findings): `check --for SIZE,page=…` counts free blocks above the watermarks and names the switch that
/// forbids a size; what it promises on the running kernel, segments of both kinds get.
#[test]
fn one_size_is_available_as_far_as_blocks_of_it_are_free() {
    for (request, expected, available_gib) in [
        ("7G,page=64k", Answer::Yes, 8),
        ("9G,page=64k", Answer::Slowly, 8),
        ("3G,page=256k", Answer::Yes, 4),
        ("5G,page=256k", Answer::Slowly, 4),
    ] {
        let preflight = ask(&fragmented(), request, None);
        assert_eq!(preflight.answer, expected, "{request}: {preflight:#?}");
        let [supply] = &preflight.folios[..] else { panic!("{:?}", preflight.folios) };
        assert_eq!(supply.free_bytes, available_gib * GIB, "{request}");
        let all = supply.private.bytes == preflight.request.size_bytes;
        assert_eq!((all, preflight.obstacles.is_empty()), (expected == Answer::Yes, all));
    }
    let lacks = ask(&fragmented(), "9G,page=64k", None);
    assert_eq!(lacks.obstacles[0].what, "free blocks for folios of 64k (defrag is madvise)");
    assert!(lacks.obstacles[0].lift.contains("page=best"), "{:?}", lacks.obstacles);
    let elsewhere = ask(&fragmented(), "1G,page=64k,node=1", None);
    assert_eq!(elsewhere.answer, Answer::No, "there is no such node");
}

#[test]
fn shared_memory_has_switches_of_its_own() {
    let preflight = ask(&fragmented(), "1G,page=256k", None);
    let supply = &preflight.folios[0];
    assert_eq!((supply.private.bytes, supply.shared.bytes), (GIB, 0));
    let why = supply.shared.why_none.as_deref().unwrap();
    assert!(why.contains("hugepages-256kB/shmem_enabled is never (write advise"), "{why}");
    let denied = machine(NEW, switches(("madvise", "deny"), ALLOWED));
    let denied = ask(&denied, "1G,page=64k", None);
    let supply = &denied.folios[0];
    let why = supply.shared.why_none.as_deref().unwrap();
    assert!(why.contains("shmem_enabled is deny, which overrides"), "{why}");
}

#[test]
fn a_size_that_is_not_allowed_names_its_switch() {
    let preflight = ask(&fragmented(), "1G,page=128k", None);
    assert_eq!(preflight.answer, Answer::Slowly);
    assert_eq!(preflight.obstacles[0].what, "folios of 128k are not allowed for private memory");
    let lift = &preflight.obstacles[0].lift;
    assert!(lift.contains("this kernel has no "), "no file of that size: {lift}");
    let inherits = [(64, "inherit", "never")];
    let off = machine(NEW, switches(("never", "never"), &inherits));
    let lift = ask(&off, "1G,page=64k", None).obstacles[0].lift.clone();
    assert!(lift.contains("hugepages-64kB/enabled is inherit (write madvise"), "{lift}");
}

#[test]
fn older_kernels_say_what_they_lack() {
    let without = Thp { sizes: Vec::new(), ..switches(("always", "advise"), &[]) };
    let old = machine(KernelVersion::new(6, 1, 0), without);
    let preflight = ask(&old, "1G,page=64k", None);
    assert!(preflight.obstacles[0].lift.contains("(needs Linux 6.8)"), "{preflight:#?}");
    let shared = preflight.folios[0].shared.why_none.as_deref().unwrap();
    assert!(shared.contains("(needs Linux 6.11)"), "{shared}");
    let unguarded = machine(KernelVersion::new(6, 12, 0), switches(("madvise", "advise"), ALLOWED));
    let unguarded = ask(&unguarded, "1G,page=64k", None);
    let supply = &unguarded.folios[0];
    let private = supply.private.why_none.as_deref().unwrap();
    assert!(private.starts_with("larger ones are enabled as well"), "{private}");
    assert_eq!(supply.shared.bytes, GIB, "memfds are populated through shifted windows");
}

#[test]
fn the_best_pages_are_divided_by_size() {
    let preflight = ask(&fragmented(), "9G,page=best", None);
    assert_eq!(preflight.answer, Answer::Yes);
    let shares: Vec<_> = preflight
        .folios
        .iter()
        .filter(|supply| supply.private.bytes > 0)
        .map(|supply| (supply.page_bytes, supply.private.bytes))
        .collect();
    let reserve = 17 * 4 * MIB;
    let expected = [(2 * MIB, GIB - reserve), (256 * KIB, 3 * GIB), (64 * KIB, 4 * GIB)];
    assert_eq!(shares, expected);
    let sizes = "956 MiB in 2 MiB, 3 GiB in 256 KiB, 4 GiB in 64 KiB, 1.1 GiB in base pages";
    assert!(preflight.summary.ends_with(sizes), "{}", preflight.summary);
    let off = machine(NEW, switches(("never", "never"), &[(64, "never", "never")]));
    let none = ask(&off, "1G,page=best", None);
    assert_eq!(none.answer, Answer::Yes, "base pages are the best");
    assert_eq!(none.obstacles[0].what, "no size of folios is allowed for private memory");
    assert!(none.summary.ends_with(": 1 GiB in base pages"), "{}", none.summary);
}

#[test]
fn the_time_is_that_of_measured_folios() {
    let base_pages = measured();
    let calibration = Calibration { folio_ns_per_byte: Some(0.15), ..measured() };
    let time = |request: &str, calibration| ask(&fragmented(), request, Some(calibration)).time;
    let folios = time("4G,page=64k", &calibration).unwrap();
    assert!(folios.likely_ms > 600.0 && folios.likely_ms < 700.0, "{folios:?}");
    assert_eq!(time("4G,page=64k", &base_pages), None, "not measured");
    let best = ask(&fragmented(), "4G,page=best", Some(&calibration));
    assert_eq!(best.time, None);
    assert!(best.unseen[0].why.contains("several sizes"), "{:?}", best.unseen);
    assert_eq!(time("9G,page=64k", &calibration), None, "a part consists of smaller pages");
}

#[test]
fn what_was_not_read_makes_the_answer_unknown() {
    let unknown = |change: &dyn Fn(&mut Snapshot)| {
        let mut machine = fragmented();
        change(&mut machine.snapshot);
        ask(&machine, "1G,page=64k", None)
    };
    let missing = || Missing::failed("file", "permission denied");
    let thp = unknown(&|snapshot| snapshot.thp = Reading::Missing(missing()));
    let blocks = unknown(&|snapshot| snapshot.sample.buddyinfo = Reading::Missing(missing()));
    for preflight in [thp, blocks] {
        assert_eq!(preflight.answer, Answer::Unknown, "{}", preflight.summary);
        assert!(preflight.unseen.iter().any(|missing| missing.absence == Absence::Failed));
    }
    let absent = unknown(&|snapshot| {
        snapshot.thp = Reading::Missing(Missing::absent("enabled", "not in this kernel"));
    });
    assert_eq!(absent.answer, Answer::Slowly, "a kernel without them");
}
