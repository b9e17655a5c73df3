//! Segments and fork(2): it stands here because fork is unsafe and `mw-segment` forbids that.

#![allow(clippy::unwrap_used, reason = "tests")]

use mw_segment::{Options, PageSize, Segment, SegmentKind};

const MIB: usize = 1 << 20;

fn segment(kind: SegmentKind) -> Segment {
    Options::new(64 * MIB).kind(kind).page_size(PageSize::Base).create().unwrap()
}

/// Runs `child` in a fork and gives its exit code.
#[allow(unsafe_code, reason = "the test is about fork(2)")]
fn forked(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: this program is a test; what the child calls (glibc's allocator and threads) is
    // made for it by glibc's own fork handlers.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(99);
            // SAFETY: ends the process without the parent's exit handlers (_exit(2)).
            unsafe { libc::_exit(code) }
        }
        pid => {
            let mut status = 0;
            // SAFETY: the pointer is to a live int (waitpid(2)).
            let reaped = unsafe { libc::waitpid(pid, &raw mut status, 0) };
            assert_eq!(reaped, pid);
            assert!(libc::WIFEXITED(status), "the child was killed: {status}");
            libc::WEXITSTATUS(status)
        }
    }
}

#[allow(unsafe_code, reason = "reads the segment's memory")]
fn first_byte(segment: &Segment) -> u8 {
    // SAFETY: the segment is populated, alive, and nobody writes now.
    unsafe { segment.as_ptr().as_ptr().read_volatile() }
}

#[allow(unsafe_code, reason = "writes the segment's memory")]
fn write_first_byte(segment: &Segment, value: u8) {
    // SAFETY: as above, and no reference to it is alive.
    unsafe { segment.as_ptr().as_ptr().write_volatile(value) }
}

/// Promise (Segments): The library works after fork, and the end of a child frees nothing of its parent.
#[test]
fn a_fork_makes_segments_of_its_own_while_the_parent_works() {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                drop(segment(SegmentKind::Memfd));
            }
        });
        for kind in
            [SegmentKind::Anon, SegmentKind::Memfd, SegmentKind::Dism, SegmentKind::Ism].repeat(3)
        {
            let allowed = std::thread::available_parallelism().unwrap().get();
            let code = forked(|| i32::from(segment(kind).times().workers != allowed.min(16)));
            assert_eq!(code, 0, "{kind}");
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_a_fork_drops_stays_with_the_parent() {
    for kind in [SegmentKind::Memfd, SegmentKind::Dism, SegmentKind::Ism, SegmentKind::Anon] {
        let mut mine = Some(segment(kind));
        write_first_byte(mine.as_ref().unwrap(), 42);
        let code = forked(|| {
            let seen = first_byte(mine.as_ref().unwrap());
            drop(mine.take());
            i32::from(seen != 42)
        });
        assert_eq!(code, 0, "{kind}");
        assert_eq!(first_byte(mine.as_ref().unwrap()), 42, "{kind}");
    }
}
