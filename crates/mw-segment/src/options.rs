//! What is asked for.

use crate::cancel::Cancel;
use crate::error::Error;
use crate::progress::Progress;
use crate::segment::Segment;
use crate::segment_kind::{Kind, Page, Placement};

/// The most threads that work for one operation, the caller's included, unless more are asked for.
pub const MAX_WORKERS: usize = 16;

/// What a segment is to be like. [`Options::create`] makes it.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) bytes: usize,
    pub(crate) kind: Kind,
    pub(crate) page: Page,
    pub(crate) lenient: bool,
    pub(crate) locked: bool,
    pub(crate) placement: Placement,
    pub(crate) workers: usize,
    pub(crate) stripe_bytes: Option<usize>,
    pub(crate) name: Option<String>,
    pub(crate) key: i32,
    pub(crate) kept: bool,
    pub(crate) cancel: Cancel,
}

impl Options {
    /// A memfd segment of at least `bytes`, rounded up to whole pages, of the best pages that this
    /// machine can give at once, not locked.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes,
            kind: Kind::Memfd,
            page: Page::Auto,
            lenient: false,
            locked: false,
            placement: Placement::Local,
            workers: MAX_WORKERS,
            stripe_bytes: None,
            name: None,
            key: 0,
            kept: false,
            cancel: Cancel::new(),
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The size of its pages. A size that cannot be had is an error, unless
    /// [`lenient`](Self::lenient).
    #[must_use]
    pub fn page(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    /// Whether smaller pages will do where those asked for cannot be had; what it came to is in
    /// [`Segment::page`].
    #[must_use]
    pub fn lenient(mut self, lenient: bool) -> Self {
        self.lenient = lenient;
        self
    }

    /// Whether it is locked in memory. [`Kind::Ism`] always is; pages of the pool need no lock.
    #[must_use]
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// Where its pages come from.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// The most threads that work on it, the caller's included. The processors that the caller may
    /// use limit it as well.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The size of the stripes of a memfd or hugetlb segment, rounded up to whole chunks (4 MiB) or
    /// pages, which is otherwise chosen by size and workers. Their files can then be sealed: they are made to be
    /// handed on, see [`Segment::into_files`].
    #[must_use]
    pub fn stripe_bytes(mut self, stripe_bytes: usize) -> Self {
        self.stripe_bytes = Some(stripe_bytes);
        self
    }

    /// The name of a [`Kind::Posix`] segment, with or without the leading slash.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The key of a System V segment, for others to find it by; it must not exist. 0 is none.
    #[must_use]
    pub fn key(mut self, key: i32) -> Self {
        self.key = key;
        self
    }

    /// Whether a named segment stays when it is dropped, or when the program is killed.
    #[must_use]
    pub fn kept(mut self, kept: bool) -> Self {
        self.kept = kept;
        self
    }

    /// What cancels its creation.
    #[must_use]
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Checks limits and options without creating anything, as [`create`](Self::create) does first.
    ///
    /// # Errors
    /// As [`create`](Self::create), as far as can be known in advance.
    pub fn check(&self) -> Result<(), Error> {
        Segment::check(self)
    }

    /// Creates the segment: reserved, placed, locked if wanted, and populated.
    ///
    /// # Errors
    /// [`Error`] says which limit was met; nothing is left behind.
    pub fn create(&self) -> Result<Segment, Error> {
        self.create_with(&mut |_| ())
    }

    /// As [`create`](Self::create), and tells of progress some twenty times a second, on this
    /// thread.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_with(&self, progress: &mut dyn FnMut(&Progress)) -> Result<Segment, Error> {
        Segment::create(self, progress)
    }
}
