//! Delivery of the segments of one request, which the thread that probes publishes without a lock.

use crate::clock::{NANOS_PER_MICRO, nanos};
use mw_model::SegmentDelivery;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Instant;

const MICROS_PER_MILLI: u64 = 1000;

/// Written by the thread that probes alone; one system call after each wait for a socket, and four a second
/// while it lasts.
#[derive(Debug, Default)]
pub(crate) struct DeliveryCell {
    /// Segments that were sent again on this connection, when it was read last.
    of_connection: AtomicU32,
    /// True if the request waited for a TCP socket.
    is_known: AtomicBool,
    retransmitted: AtomicU32,
    retransmitting_us: AtomicU64,
    unacknowledged: AtomicU32,
    round_trip_us: AtomicU64,
}

/// Counts at the beginning of a wait.
pub(crate) struct SocketWait {
    begun: Instant,
    of_connection: u32,
    retransmitted: u32,
    retransmitting_us: u64,
}

impl DeliveryCell {
    /// A request begins, on a new connection or on the last one.
    pub(crate) fn begin_request(&self) {
        self.is_known.store(false, SeqCst);
        self.retransmitted.store(0, SeqCst);
        self.retransmitting_us.store(0, SeqCst);
    }

    /// A connection begins.
    pub(crate) fn begin_connection(&self) {
        self.of_connection.store(0, SeqCst);
    }

    /// A wait for a socket begins.
    pub(crate) fn begin_wait(&self) -> SocketWait {
        SocketWait {
            begun: Instant::now(),
            of_connection: self.of_connection.load(SeqCst),
            retransmitted: self.retransmitted.load(SeqCst),
            retransmitting_us: self.retransmitting_us.load(SeqCst),
        }
    }

    /// Notes the state of a socket that is or was waited for; one that is not of TCP is left out.
    pub(crate) fn note(&self, socket: BorrowedFd<'_>, wait: &SocketWait) {
        let Ok(segments) = mw_sys::tcp_segments(socket) else { return };
        self.of_connection.store(segments.retransmitted, SeqCst);
        let again = segments.retransmitted.saturating_sub(wait.of_connection);
        if again > 0 {
            let waited_us = nanos(wait.begun.elapsed()) / NANOS_PER_MICRO;
            self.retransmitted.store(wait.retransmitted.saturating_add(again), SeqCst);
            let all_us = wait.retransmitting_us.saturating_add(waited_us);
            self.retransmitting_us.store(all_us, SeqCst);
        }
        self.unacknowledged.store(segments.unacknowledged, SeqCst);
        self.round_trip_us.store(nanos(segments.round_trip) / NANOS_PER_MICRO, SeqCst);
        self.is_known.store(true, SeqCst);
    }

    /// Delivery of the request, without its peer; `None` where it waited for no TCP socket.
    pub(crate) fn read(&self) -> Option<SegmentDelivery> {
        self.is_known.load(SeqCst).then(|| SegmentDelivery {
            peer: None,
            retransmitted: self.retransmitted.load(SeqCst),
            retransmitting_ms: self.retransmitting_us.load(SeqCst) / MICROS_PER_MILLI,
            unacknowledged: self.unacknowledged.load(SeqCst),
            round_trip_us: self.round_trip_us.load(SeqCst),
        })
    }

    /// Takes over what is known of a request.
    pub(crate) fn store(&self, delivery: Option<SegmentDelivery>) {
        let is_known = delivery.is_some();
        let delivery = delivery.unwrap_or_default();
        self.retransmitted.store(delivery.retransmitted, SeqCst);
        let micros = delivery.retransmitting_ms.saturating_mul(MICROS_PER_MILLI);
        self.retransmitting_us.store(micros, SeqCst);
        self.unacknowledged.store(delivery.unacknowledged, SeqCst);
        self.round_trip_us.store(delivery.round_trip_us, SeqCst);
        self.is_known.store(is_known, SeqCst);
    }
}
