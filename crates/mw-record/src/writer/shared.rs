//! State that the writer's thread and its users share.

use crate::RecordError;
use crossbeam_queue::ArrayQueue;
use mw_model::{HolderSize, Incident, ProcessKill};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes of the columns that may wait for the writer.
pub(super) const MAX_LAYOUTS: usize = 16;

/// State that the writer's thread and its users share.
#[derive(Debug)]
pub(super) struct WriterState {
    pub(super) free: ArrayQueue<QueuedRow>,
    pub(super) full: ArrayQueue<QueuedRow>,
    pub(super) layouts: Mutex<Layouts>,
    pub(super) commands: Mutex<VecDeque<WriterCommand>>,
    pub(super) trouble: Mutex<Option<String>>,
    pub(super) dropped: AtomicU64,
    /// The highest number that an incident has.
    pub(super) last_incident: AtomicU64,
    pub(super) stop: AtomicBool,
    /// It did not end in time.
    pub(super) given_up: AtomicBool,
}

/// Lists of columns that the writer has not seen, each with its number.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    pub(super) count: u64,
    pub(super) new: Vec<(u64, Vec<String>)>,
}

#[derive(Debug)]
pub(super) struct QueuedRow {
    pub(super) layout: u64,
    pub(super) unix_ms: u64,
    pub(super) values: Box<[u64]>,
}

#[derive(Debug)]
pub(super) enum WriterCommand {
    /// Whoever waits for the result is told it.
    Incident(Box<Incident>, Option<Sender<Result<(), RecordError>>>),
    Capture(u64, Vec<u8>),
    Sizes(u64, Vec<HolderSize>),
    Kills(Vec<ProcessKill>),
}

/// Takes a lock that no holder leaves in disorder.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
