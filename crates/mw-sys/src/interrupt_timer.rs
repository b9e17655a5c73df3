//! A timer that interrupts waits in the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Interrupts this thread with a signal at an interval until dropped, so that no interruptible wait in
/// the kernel takes longer.
///
/// close(2) of a socket with `SO_LINGER` waits as long as the socket's owner chose, whichever process
/// closes it, and a pending signal ends that wait (net/core/stream.c, `sk_stream_wait_close`). An
/// interval rather than one signal, which would be lost if it came before the wait.
#[must_use = "the timer ends when this is dropped"]
pub struct InterruptTimer {
    timer: libc::timer_t,
    /// The signal goes to the thread that made it.
    _thread: std::marker::PhantomData<*const ()>,
}

impl std::fmt::Debug for InterruptTimer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InterruptTimer").finish_non_exhaustive()
    }
}

impl InterruptTimer {
    /// Starts the timer. `signal` must have a handler, or its default action ends the process.
    ///
    /// # Errors
    /// timer_create(2)'s.
    #[allow(unsafe_code, reason = "no safe wrapper of timer_create(2)")]
    pub fn new(interval: Duration, signal: i32) -> io::Result<Self> {
        let mut event = MaybeUninit::<libc::sigevent>::zeroed();
        // SAFETY: all zeros are a valid sigevent, which consists of numbers and null pointers.
        let event = unsafe { event.assume_init_mut() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer = MaybeUninit::<libc::timer_t>::uninit();
        // SAFETY: `event` is live and initialised, `timer` is written (timer_create(2)).
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, event, timer.as_mut_ptr()) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so it wrote the timer.
        let timer = unsafe { timer.assume_init() };
        let every = libc::timespec {
            tv_sec: i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: interval.subsec_nanos().into(),
        };
        let spec = libc::itimerspec { it_interval: every, it_value: every };
        let wakeups = Self { timer, _thread: std::marker::PhantomData };
        // SAFETY: the timer is this process's, `spec` is live, the old value is not requested
        // (timer_settime(2)).
        let set = unsafe { libc::timer_settime(timer, 0, &raw const spec, std::ptr::null_mut()) };
        if set < 0 { Err(io::Error::last_os_error()) } else { Ok(wakeups) }
    }
}

impl Drop for InterruptTimer {
    fn drop(&mut self) {
        // SAFETY: the timer is this process's and nobody uses it again (timer_delete(2)).
        #[allow(unsafe_code, reason = "no safe wrapper of timer_delete(2)")]
        unsafe {
            libc::timer_delete(self.timer)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::set_socket_linger;
    use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv};
    use std::io::{IoSlice, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;
    use std::time::Instant;

    #[test]
    fn dropping_a_socket_that_lingers_is_cut_short() {
        extern "C" fn ignore(_: libc::c_int) {}
        let handler: extern "C" fn(libc::c_int) = ignore;
        #[allow(unsafe_code, reason = "no safe wrapper of signal(2)")]
        // SAFETY: the handler does nothing; no other test uses this signal (signal(2)).
        unsafe {
            libc::signal(libc::SIGURG, handler as libc::sighandler_t)
        };
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _unread = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&stream, Some(Duration::from_secs(20))).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [stream.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let flags = SendFlags::empty();
        rustix::net::sendmsg(&theirs, &[IoSlice::new(b"x")], &mut control, flags).unwrap();
        drop(stream);
        let start = Instant::now();
        let wakeups = InterruptTimer::new(Duration::from_millis(50), libc::SIGURG).unwrap();
        // Without room for descriptors: the kernel drops what came, and nobody else has it.
        recv(&ours, &mut [0; 8][..], RecvFlags::empty()).unwrap();
        drop(wakeups);
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(40), "it did not linger: {took:?}");
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}
