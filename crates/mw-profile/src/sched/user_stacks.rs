//! User stacks by number, each kept once, and the files that processes mapped to execute them.
//!
//! A thread that is found with the same registers and return addresses again is where it was: the first copy of its
//! stack serves for all of them, so that a loop of waits is kept once.

use super::options::UserStackOptions;
use crate::records::{ExecutableMapping, PerfSample};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use mw_critical_path::{CodeMapping, Tid, UserRegisters, UserStack, UserStackId};
use mw_sys::RecordedRegister;
use std::collections::BTreeMap;
use std::hash::BuildHasher;

/// Mappings that are kept, of all processes and of one.
const MAX_MAPPINGS: usize = 1 << 14;
const MAX_MAPPINGS_OF_PROCESS: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct UserStackTable {
    options: UserStackOptions,
    /// Of each stack the addresses by frame pointers, then the copy.
    words: Vec<u64>,
    /// The first stack is empty.
    stacks: Vec<KeptUserStack>,
    ids: HashTable<UserStackId>,
    hasher: DefaultHashBuilder,
    code: HashMap<Tid, Vec<CodeMapping>>,
    mappings: usize,
}

/// A stack whose addresses are `begin..copy` of the words, and its copy `copy..end`.
#[derive(Debug, Clone, Copy, Default)]
struct KeptUserStack {
    task: Tid,
    process: Tid,
    registers: UserRegisters,
    begin: usize,
    copy: usize,
    end: usize,
}

impl UserStackTable {
    pub(super) fn new(options: UserStackOptions) -> Self {
        let mut words = vec![u64::MAX; options.resident_words];
        words.clear();
        Self {
            options,
            words,
            stacks: vec![KeptUserStack::default()],
            ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            code: HashMap::new(),
            mappings: 0,
        }
    }

    /// Forgets everything. Memory beyond what is kept from the start is released.
    pub(super) fn clear(&mut self) {
        if self.words.len() > self.options.resident_words {
            *self = Self::new(self.options);
            return;
        }
        self.words.clear();
        self.stacks.truncate(1);
        self.ids.clear();
        self.code.clear();
        self.mappings = 0;
    }

    /// The number of the user stack of a task that was sampled.
    pub(super) fn of_running(&mut self, sample: &PerfSample<'_>) -> UserStackId {
        let is_left_out = self.options.in_kernel_alone && sample.stack().next().is_none();
        if is_left_out { UserStackId::default() } else { self.id(sample) }
    }

    /// The number of the user stack of a sample.
    pub(super) fn id(&mut self, sample: &PerfSample<'_>) -> UserStackId {
        let none = UserStackId::default();
        let Some(state) = sample.user_state().filter(|_| sample.pid != 0) else {
            return none;
        };
        let register = |register| state.register(register).unwrap_or(0);
        let registers = UserRegisters {
            instruction_pointer: register(RecordedRegister::InstructionPointer),
            stack_pointer: register(RecordedRegister::StackPointer),
            frame_pointer: register(RecordedRegister::FramePointer),
            link: register(RecordedRegister::Link),
        };
        let begin = self.words.len();
        if begin >= self.options.words {
            return none;
        }
        self.words.extend(sample.user_stack());
        let (task, process, copy) = (sample.tid, sample.pid, self.words.len());
        let found = KeptUserStack { task, process, registers, begin, copy, end: copy };
        let Self { words, stacks, ids, hasher, .. } = self;
        let hash = hash(hasher, words, &found);
        let is_same = |id: &UserStackId| kept(stacks, *id).is_some_and(|of| of.is(&found, words));
        if let Some(id) = ids.find(hash, is_same) {
            words.truncate(begin);
            return *id;
        }
        let of_copy = state.copy.chunks_exact(8).filter_map(|word| word.try_into().ok());
        words.extend(of_copy.map(u64::from_ne_bytes));
        let id = UserStackId(u32::try_from(stacks.len()).unwrap_or(0));
        stacks.push(KeptUserStack { end: words.len(), ..found });
        ids.insert_unique(hash, id, |id| {
            kept(stacks, *id).map_or(0, |of| self::hash(hasher, words, of))
        });
        id
    }

    /// Notes what a process has mapped.
    pub(super) fn map(&mut self, mapping: &ExecutableMapping<'_>) {
        if self.mappings >= MAX_MAPPINGS {
            return;
        }
        let of_process = self.code.entry(mapping.pid).or_default();
        if of_process.len() < MAX_MAPPINGS_OF_PROCESS {
            self.mappings += 1;
            of_process.push(CodeMapping {
                start: mapping.start,
                end: mapping.start.saturating_add(mapping.bytes),
                file_offset: mapping.file_offset,
                device: mapping.device,
                inode: mapping.inode,
                path: mapping.path.to_vec(),
            });
        }
    }

    /// Forgets what a process had mapped: it runs another program.
    pub(super) fn unmap_all(&mut self, process: Tid) {
        let before = self.code.remove(&process).map_or(0, |mappings| mappings.len());
        self.mappings = self.mappings.saturating_sub(before);
    }

    /// Adds the stacks that a copy does not have yet, and replaces its mappings.
    pub(super) fn copy(
        &self,
        into: &mut Vec<UserStack>,
        code: &mut BTreeMap<Tid, Vec<CodeMapping>>,
    ) {
        let words = |begin, end| self.words.get(begin..end).unwrap_or_default().to_vec();
        let new = self.stacks.iter().skip(into.len());
        into.extend(new.map(|of| UserStack {
            process: of.process,
            by_frame_pointers: words(of.begin, of.copy),
            registers: of.registers,
            copy: words(of.copy, of.end),
        }));
        *code = self.code.iter().map(|(pid, mappings)| (*pid, mappings.clone())).collect();
    }
}

impl KeptUserStack {
    /// True if this is the place that another stack, of which no copy is kept yet, was found at.
    fn is(&self, other: &Self, words: &[u64]) -> bool {
        let place = |of: &Self| (of.task, of.process, of.registers);
        place(self) == place(other)
            && words.get(self.begin..self.copy) == words.get(other.begin..other.copy)
    }
}

fn kept(stacks: &[KeptUserStack], id: UserStackId) -> Option<&KeptUserStack> {
    stacks.get(usize::try_from(id.0).ok()?)
}

fn hash(hasher: &DefaultHashBuilder, words: &[u64], of: &KeptUserStack) -> u64 {
    hasher.hash_one((of.task, of.registers, words.get(of.begin..of.copy)))
}
