//! Threads without the C library, for code that runs inside other programs.
//!
//! pthread_create(3) allocates with the program's own allocator, which may be the caller, and keeps
//! lists that a vfork(2) child shares with its parent. clone(2) does neither. Such a thread has no
//! thread-local storage of its own but the caller's.

use crate::region::Region;
use crate::signals::{ALL_SIGNALS, swap_signal_mask};
use rustix::thread::futex;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicU32, Ordering};

/// The maximum number of threads of one call, the caller's included.
const MAX_THREADS: usize = 17;

/// The size of each stack, between two inaccessible pages: one below against overflow into the next
/// stack, and one above so that the mapping is never merged with adjacent memory.
pub(crate) const STACK_BYTES: usize = 128 << 10;

/// As for pthread_create(3), except for the C library's own bookkeeping.
const FLAGS: c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_CHILD_CLEARTID;

pub(crate) type Body<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// The argument of a thread.
pub(crate) struct Start<'a> {
    /// Shown by ps(1) and top(1).
    pub(crate) name: &'static CStr,
    pub(crate) number: usize,
    pub(crate) body: &'a Body<'a>,
    /// The number of threads, once all are created; 0 before.
    pub(crate) gate: &'a AtomicU32,
    /// Nonzero until the kernel clears it at the thread's end.
    pub(crate) alive: AtomicU32,
}

impl Start<'_> {
    /// Waits until the kernel reports that the thread is gone.
    pub(crate) fn wait_for_end(&self) {
        loop {
            let alive = self.alive.load(Ordering::Acquire);
            if alive == 0 {
                break;
            }
            // The kernel wakes waiters of this process and of others (no PRIVATE).
            let _ = futex::wait(&self.alive, futex::Flags::empty(), alive, None);
        }
    }
}

/// Creates up to `wanted` - 1 threads, fewer where the kernel refuses more. Each runs `worker` with its
/// number (from 1) and the number of workers, while this thread runs `own` with the number of workers.
/// Returns when all have ended. All signals are blocked in the threads.
///
/// # Safety
/// The threads share this thread's thread-local storage. `worker` and `own` must therefore not keep
/// state there that another of them could see inconsistent: system calls whose `errno` is not read are
/// fine, as is a library call that one makes while no other makes any. A panic in `worker` ends the
/// process.
#[allow(unsafe_code, reason = "what the closures do cannot be checked here")]
pub unsafe fn run_bare_threads(wanted: usize, worker: &Body<'_>, own: &mut dyn FnMut(usize)) {
    let wanted = wanted.clamp(1, MAX_THREADS);
    let gate = AtomicU32::new(0);
    let starts: [Start<'_>; MAX_THREADS] = std::array::from_fn(|number| Start {
        name: c"mw-worker",
        number,
        body: worker,
        gate: &gate,
        alive: AtomicU32::new(0),
    });
    let stacks = (wanted > 1).then(|| stacks(wanted - 1)).flatten();
    let workers = match &stacks {
        Some(stacks) => start_all(&starts, wanted, stacks),
        None => 1,
    };
    // Also when `own` panics: the threads use what is on this stack.
    let ended = EndAll(&starts);
    gate.store(u32::try_from(workers).unwrap_or(1), Ordering::Release);
    let _ = futex::wake(&gate, futex::Flags::PRIVATE, u32::MAX >> 1);
    own(workers);
    drop(ended);
}

/// Adjacent stacks, each followed by a page that stays inaccessible.
fn stacks(count: usize) -> Option<Region> {
    let page = rustix::param::page_size();
    let each = page + STACK_BYTES;
    let region = Region::reserve(count * each + page, page, page).ok()?;
    let map =
        |number: usize| region.map_anonymous(number * each + page..(number + 1) * each, false).ok();
    (0..count).all(|number| map(number).is_some()).then_some(region)
}

fn start_all(starts: &[Start<'_>], wanted: usize, stacks: &Region) -> usize {
    let each = rustix::param::page_size() + STACK_BYTES;
    let before = swap_signal_mask(ALL_SIGNALS);
    let mut workers = 1;
    for start in starts.iter().take(wanted).skip(1) {
        let top = stacks.as_ptr().as_ptr().wrapping_add(start.number * each);
        start.alive.store(1, Ordering::Relaxed);
        // SAFETY: the stack is this thread's alone and stays mapped until `alive` is 0, as do
        // `start` and what it borrows: `EndAll` waits for that. The kernel stores there when the
        // thread is gone (clone(2), CLONE_CHILD_CLEARTID).
        #[allow(unsafe_code, reason = "clone(2) has no safe wrapper")]
        let made = unsafe { clone_thread(top, start) };
        if made < 0 {
            start.alive.store(0, Ordering::Relaxed);
            break;
        }
        workers += 1;
    }
    swap_signal_mask(before);
    workers
}

/// clone(2), directly: sanitizers interpose the C library's function and take the thread for a process.
///
/// # Safety
/// `top` is the end of an unused stack, aligned to 16 bytes; it and `start` outlive the thread.
#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "a thread begins on a stack of its own, which no function can return to"
)]
pub(crate) unsafe fn clone_thread(top: *mut u8, start: &Start<'_>) -> isize {
    let made: isize;
    // SAFETY: the new thread has these registers but for its stack, and leaves by exit(2) without
    // coming back; in this one the kernel changes rcx, r11 and the result alone (clone(2)).
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call {enter}",
            "xor edi, edi",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            enter = sym enter,
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone as isize => made,
            in("rdi") FLAGS as usize,
            in("rsi") top,
            in("rdx") 0_usize,
            in("r10") start.alive.as_ptr(),
            in("r8") 0_usize,
            in("r12") std::ptr::from_ref(start),
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    made
}

#[cfg(target_arch = "aarch64")]
#[allow(
    unsafe_code,
    reason = "a thread begins on a stack of its own, which no function can return to"
)]
pub(crate) unsafe fn clone_thread(top: *mut u8, start: &Start<'_>) -> isize {
    let made: isize;
    // SAFETY: the new thread has these registers but for its stack, and leaves by exit(2) without
    // coming back; in this one the kernel changes the result alone (clone(2)).
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "bl {enter}",
            "mov x0, xzr",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            enter = sym enter,
            exit = const libc::SYS_exit,
            inlateout("x0") FLAGS as usize => made,
            in("x1") top,
            in("x2") 0_usize,
            in("x3") 0_usize,
            in("x4") start.alive.as_ptr(),
            in("x8") libc::SYS_clone,
            in("x20") std::ptr::from_ref(start),
            lateout("lr") _,
        );
    }
    made
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "clone(2) has no safe wrapper")]
pub(crate) unsafe fn clone_thread(top: *mut u8, start: &Start<'_>) -> isize {
    extern "C" fn begin(start: *mut std::ffi::c_void) -> c_int {
        enter(start.cast());
        0
    }
    let none = std::ptr::null_mut::<libc::pid_t>();
    let given = std::ptr::from_ref(start).cast_mut().cast();
    let alive = start.alive.as_ptr();
    // SAFETY: the caller answers for the stack and for what the thread is given.
    unsafe { libc::clone(begin, top.cast(), FLAGS, given, none, none, alive) as isize }
}

extern "C" fn enter(start: *const Start<'_>) {
    // SAFETY: `start_all` passes a pointer to a `Start` that outlives this thread, and of which
    // there are shared references alone.
    #[allow(unsafe_code, reason = "what clone(2) was given")]
    let start = unsafe { &*start };
    let _ = rustix::thread::set_name(start.name);
    let mut workers = start.gate.load(Ordering::Acquire);
    while workers == 0 {
        let _ = futex::wait(start.gate, futex::Flags::PRIVATE, 0, None);
        workers = start.gate.load(Ordering::Acquire);
    }
    (start.body)(start.number, workers as usize);
}

/// Waits until no thread uses this process's memory any more.
struct EndAll<'a>(&'a [Start<'a>]);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Start::wait_for_end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn run(wanted: usize, worker: &Body<'_>, own: &mut dyn FnMut(usize)) {
        // SAFETY: the closures below touch atomics alone.
        #[allow(unsafe_code, reason = "what is tested")]
        unsafe {
            run_bare_threads(wanted, worker, own);
        }
    }

    #[test]
    fn all_run_at_once_and_are_gone_afterwards() {
        for wanted in [0, 1, 2, 5, 16, 99] {
            let (met, had) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let meet = |workers: usize| {
                met.fetch_add(1, Ordering::SeqCst);
                while met.load(Ordering::SeqCst) < workers {
                    std::hint::spin_loop();
                }
            };
            let own = &mut |workers| {
                had.store(workers, Ordering::SeqCst);
                meet(workers);
            };
            run(wanted, &|_, workers| meet(workers), own);
            assert_eq!(had.into_inner(), wanted.clamp(1, MAX_THREADS));
            assert_eq!(met.into_inner(), wanted.clamp(1, MAX_THREADS));
        }
    }

    #[test]
    fn a_panic_of_the_caller_waits_for_the_others() {
        let done = AtomicUsize::new(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let count = |_, _| {
                done.fetch_add(1, Ordering::SeqCst);
            };
            run(4, &count, &mut |_| panic!("expected"));
        }));
        assert!(panicked.is_err());
        assert_eq!(done.into_inner(), 3);
    }

    #[test]
    fn signals_are_blocked_in_the_threads_and_as_before_in_the_caller() {
        let before = swap_signal_mask(0);
        let seen = AtomicUsize::new(0);
        let note = |_, _| {
            let mask = swap_signal_mask(ALL_SIGNALS);
            seen.store(mask as usize, Ordering::SeqCst);
        };
        run(2, &note, &mut |_| ());
        assert_eq!(swap_signal_mask(before), 0);
        // SIGKILL and SIGSTOP cannot be blocked.
        let never = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
        assert_eq!(seen.into_inner() as u64 | never, ALL_SIGNALS);
    }
}
