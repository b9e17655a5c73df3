//! Return addresses of a user stack.

use crate::code::ProcessCode;
use crate::program::ProgramFiles;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
    UnwindRegsNative, Unwinder, UnwinderNative,
};
use mw_critical_path::{CodeMapping, UserRegisters, UserStack};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Frames of a stack that are found.
const MAX_FRAMES: usize = 48;
const WORD_BYTES: u64 = 8;

/// Frames of a stack, innermost first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundFrames {
    /// Of each an address within the instruction that runs or has called the next frame.
    pub(crate) addresses: Vec<u64>,
    pub(crate) end: StackEnd,
}

/// End of the frames that were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum StackEnd {
    /// The first function of the thread, or more frames than are kept.
    #[default]
    Whole,
    /// The end of the copy of the stack.
    OfCopy,
    /// The caller could not be found.
    NotUnwound,
}

/// Unwinds stacks of one process.
pub(crate) struct ProcessUnwinder<'a> {
    code: &'a ProcessCode,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// Beginnings of the mappings that the unwinder knows.
    known: BTreeSet<u64>,
}

impl<'a> ProcessUnwinder<'a> {
    pub(crate) fn new(code: &'a ProcessCode) -> Self {
        Self {
            code,
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            known: BTreeSet::new(),
        }
    }

    /// Frames by the unwind information of the files, or by frame pointers where they have none; where the copy of the
    /// stack ends, it goes on as the kernel found it by frame pointers.
    pub(crate) fn frames(&mut self, stack: &UserStack, files: &mut ProgramFiles) -> FoundFrames {
        self.learn(stack, files);
        let mut found = FoundFrames::default();
        let ip = stack.registers.instruction_pointer;
        let mut read = |address: u64| word(stack, address).ok_or(());
        let (unwinder, cache) = (&self.unwinder, &mut self.cache);
        let mut frames = unwinder.iter_frames(ip, registers(stack.registers), cache, &mut read);
        let mut last = ip;
        while found.addresses.len() < MAX_FRAMES {
            match frames.next() {
                Ok(Some(frame)) if self.code.find(frame.address_for_lookup()).is_some() => {
                    last = address(frame);
                    found.addresses.push(frame.address_for_lookup());
                }
                Ok(None) => break,
                Err(framehop::Error::CouldNotReadStack(at)) if at >= end(stack) => {
                    found.end = StackEnd::OfCopy;
                    self.go_on(&mut found, last, stack);
                    break;
                }
                // It is no code: what was taken for a return address is none.
                Ok(Some(_)) | Err(_) => {
                    found.end = StackEnd::NotUnwound;
                    break;
                }
            }
        }
        found
    }

    /// Appends the callers of `last` that the kernel found.
    fn go_on(&self, found: &mut FoundFrames, last: u64, stack: &UserStack) {
        let kernel = &stack.by_frame_pointers;
        let Some(at) = kernel.iter().position(|address| *address == last) else { return };
        let outer = kernel.iter().skip(at + 1).map(|address| address.saturating_sub(1));
        let is_code = |address: &u64| self.code.find(*address).is_some();
        let left = MAX_FRAMES.saturating_sub(found.addresses.len());
        let outer = outer.take_while(is_code).take(left);
        found.addresses.extend(outer);
    }

    /// Adds the unwind information of all files that the stack may have return addresses of.
    fn learn(&mut self, stack: &UserStack, files: &mut ProgramFiles) {
        let UserRegisters { instruction_pointer, link, .. } = stack.registers;
        let words = stack.copy.iter().chain([&instruction_pointer, &link]);
        let needed: BTreeSet<u64> =
            words.filter_map(|word| Some(self.code.find(*word)?.start)).collect();
        for start in needed {
            let Some(mapping) = self.code.find(start).filter(|_| self.known.insert(start)) else {
                continue;
            };
            if let Some(module) = module(mapping, files) {
                self.unwinder.add_module(module);
            }
        }
    }
}

fn module(mapping: &CodeMapping, files: &mut ProgramFiles) -> Option<Module<Arc<[u8]>>> {
    let file = files.find(mapping)?;
    let at = file.address(mapping, mapping.start)?;
    let part = |name: &str| -> Option<(std::ops::Range<u64>, Arc<[u8]>)> {
        let (begin, bytes) = file.section(name)?;
        Some((begin..begin.saturating_add(bytes.len() as u64), Arc::from(bytes)))
    };
    let (eh_frame_svma, eh_frame) = part(".eh_frame")?;
    let (eh_frame_hdr_svma, eh_frame_hdr) = part(".eh_frame_hdr").unzip();
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_svma: Some(eh_frame_svma),
        eh_frame: Some(eh_frame),
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..ExplicitModuleSectionInfo::default()
    };
    let base = mapping.start.wrapping_sub(at);
    Some(Module::new(String::new(), mapping.start..mapping.end, base, sections))
}

/// The first address behind the copy.
fn end(stack: &UserStack) -> u64 {
    stack.registers.stack_pointer.saturating_add(stack.copy.len() as u64 * WORD_BYTES)
}

/// The word of the stack at an address, where the copy has it.
fn word(stack: &UserStack, address: u64) -> Option<u64> {
    let offset = address.checked_sub(stack.registers.stack_pointer)?;
    if !offset.is_multiple_of(WORD_BYTES) {
        return None;
    }
    stack.copy.get(usize::try_from(offset / WORD_BYTES).ok()?).copied()
}

fn address(frame: FrameAddress) -> u64 {
    match frame {
        FrameAddress::InstructionPointer(address) => address,
        FrameAddress::ReturnAddress(address) => address.get(),
    }
}

#[cfg(target_arch = "aarch64")]
fn registers(of: UserRegisters) -> UnwindRegsNative {
    UnwindRegsNative::new(of.link, of.stack_pointer, of.frame_pointer)
}

#[cfg(not(target_arch = "aarch64"))]
fn registers(of: UserRegisters) -> UnwindRegsNative {
    UnwindRegsNative::new(of.instruction_pointer, of.stack_pointer, of.frame_pointer)
}
