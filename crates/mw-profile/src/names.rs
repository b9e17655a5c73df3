//! Names of threads (`comm`), read when a thread is first seen and each kept once.

use mw_critical_path::outside_number;
use std::collections::HashMap;

/// Threads whose name is remembered.
const MAX_THREADS: usize = 8192;
const MAX_NAMES: usize = 4096;
/// Names that are read from /proc between two refills.
const READS: u32 = 512;

#[derive(Debug)]
pub(crate) struct Names {
    texts: Vec<Box<str>>,
    by_text: HashMap<Box<str>, u32>,
    by_thread: HashMap<u32, u32>,
    /// As it was before names were last forgotten: for threads that are gone since.
    older: HashMap<u32, u32>,
    reads_left: u32,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Names {
    /// The name of idle CPUs, and of tasks outside of a nested PID namespace where only the header numbers them.
    pub(crate) const IDLE: u32 = 0;
    /// The name of threads that ended before it could be read.
    pub(crate) const GONE: u32 = 1;
    /// The name of tasks outside of this PID namespace: /proc does not have them.
    const OUTSIDE: u32 = 2;

    pub(crate) fn new(is_nested: bool) -> Self {
        let mut names = Self {
            texts: Vec::new(),
            by_text: HashMap::new(),
            by_thread: HashMap::new(),
            older: HashMap::new(),
            reads_left: READS,
        };
        names.intern(if is_nested { "[idle, or outside this PID namespace]" } else { "[idle]" });
        names.intern("[gone]");
        names.intern("[outside this PID namespace]");
        names
    }

    /// The index of a thread's name; reads /proc where it is not known, a bounded number of
    /// times between two [`Self::refill`]s.
    pub(crate) fn index(&mut self, tid: u32) -> u32 {
        if tid == 0 {
            return Self::IDLE;
        }
        if outside_number(tid).is_some() {
            return Self::OUTSIDE;
        }
        if let Some(name) = self.by_thread.get(&tid) {
            return *name;
        }
        let older = self.older.get(&tid).copied().unwrap_or(Self::GONE);
        if self.reads_left == 0 {
            return older;
        }
        self.reads_left -= 1;
        match mw_sys::kernel_file::read_to_string(format!("/proc/{tid}/comm")) {
            Ok(comm) => self.learn(tid, comm.trim_end_matches('\n')),
            Err(_) => older,
        }
    }

    /// A thread has this name; its number.
    pub(crate) fn learn(&mut self, tid: u32, text: &str) -> u32 {
        let name = self.intern(text);
        if self.by_thread.len() >= MAX_THREADS {
            self.forget_threads();
        }
        self.by_thread.insert(tid, name);
        name
    }

    fn intern(&mut self, text: &str) -> u32 {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        if self.texts.len() >= MAX_NAMES {
            return Self::GONE;
        }
        let name = u32::try_from(self.texts.len()).unwrap_or(Self::GONE);
        self.texts.push(text.into());
        self.by_text.insert(text.into(), name);
        name
    }

    /// The text of a name.
    pub(crate) fn text(&self, name: u32) -> &str {
        self.texts.get(name as usize).map_or("[gone]", |text| text)
    }

    /// Allows reading again.
    pub(crate) fn refill(&mut self) {
        self.reads_left = READS;
    }

    /// Forgets which living thread has which name: numbers are used again.
    pub(crate) fn forget_threads(&mut self) {
        self.older = std::mem::take(&mut self.by_thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_names() {
        let mut names = Names::default();
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let comm = std::fs::read_to_string(format!("/proc/{own}/comm")).unwrap();
        let name = names.index(own);
        assert_eq!(names.text(name), comm.trim_end());
        assert_eq!(names.index(own), name);
        assert_eq!(names.index(0), Names::IDLE);
        assert_eq!(names.index(u32::MAX), Names::GONE);
    }

    #[test]
    fn a_task_outside_of_the_namespace_is_nobody_in_proc() {
        let mut names = Names::new(true);
        let name = names.index(mw_critical_path::outside_tid(1));
        assert_eq!(names.text(name), "[outside this PID namespace]");
        let name = names.index(0);
        assert_eq!(names.text(name), "[idle, or outside this PID namespace]");
    }

    #[test]
    fn a_thread_that_is_gone_keeps_its_name_for_a_while() {
        let mut names = Names::default();
        let name = names.learn(u32::MAX, "dd");
        names.forget_threads();
        assert_eq!((names.index(u32::MAX), names.text(name)), (name, "dd"));
        names.forget_threads();
        assert_eq!(names.index(u32::MAX), Names::GONE);
    }

    #[test]
    fn reading_is_bounded() {
        let mut names = Names::default();
        for tid in 0..READS {
            names.index(u32::MAX - tid);
        }
        let own = std::process::id();
        assert_eq!(names.index(own), Names::GONE);
        names.refill();
        assert_ne!(names.index(own), Names::GONE);
    }
}
