//! What a program file is, from its ELF header, its program headers and its notes.

/// The most program headers that are looked at.
const MAX_HEADERS: usize = 64;

const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const SHARED_OBJECT: u16 = 3;

/// Machine that runs it: the class (32 or 64 bits), the order of bytes and the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ElfMachine {
    class: u8,
    order: u8,
    processor: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecutableKind {
    /// A program that libraries are loaded into.
    Dynamic(ElfMachine),
    /// A program that is all of one piece.
    Static(ElfMachine),
    /// A program that the Go compiler made, which asks the kernel itself.
    Go(ElfMachine),
    /// A shared library.
    Library(ElfMachine),
    /// A text that another program reads.
    Script,
    /// None of these, or not readable.
    Unknown,
}

/// Kind of a file that begins with these bytes. The headers and notes of a program are in its first
/// pages.
pub(super) fn kind(start: &[u8]) -> ExecutableKind {
    if start.starts_with(b"#!") {
        return ExecutableKind::Script;
    }
    read(start).unwrap_or(ExecutableKind::Unknown)
}

fn read(start: &[u8]) -> Option<ExecutableKind> {
    let file = ElfFile { bytes: start, order: *start.get(5)?, wide: *start.get(4)? == 2 };
    if !start.starts_with(b"\x7fELF") || !matches!(file.order, 1 | 2) {
        return None;
    }
    let machine = ElfMachine { class: *start.get(4)?, order: file.order, processor: file.u16(18)? };
    let (headers, size, count) = if file.wide {
        (file.u64(32)?, file.u16(54)?, file.u16(56)?)
    } else {
        (u64::from(file.u32(28)?), file.u16(42)?, file.u16(44)?)
    };
    let (mut interpreted, mut go) = (false, false);
    for number in 0..usize::from(count).min(MAX_HEADERS) {
        let at = usize::try_from(headers).ok()?.checked_add(number * usize::from(size))?;
        match file.u32(at)? {
            PT_INTERP => interpreted = true,
            PT_NOTE => go |= file.is_note_of_go(at),
            _ => {}
        }
    }
    Some(match (go, interpreted) {
        (true, _) => ExecutableKind::Go(machine),
        (false, true) => ExecutableKind::Dynamic(machine),
        (false, false) if file.u16(16)? == SHARED_OBJECT => ExecutableKind::Library(machine),
        (false, false) => ExecutableKind::Static(machine),
    })
}

/// The beginning of an ELF file.
struct ElfFile<'a> {
    bytes: &'a [u8],
    /// 1: the least significant byte comes first.
    order: u8,
    /// True if it has 64 bits.
    wide: bool,
}

impl ElfFile<'_> {
    /// True if the notes of this header have one whose name is `Go`.
    fn is_note_of_go(&self, header: usize) -> bool {
        let place = if self.wide {
            self.u64(header + 8).zip(self.u64(header + 32))
        } else {
            let narrow = self.u32(header + 4).zip(self.u32(header + 16));
            narrow.map(|(offset, bytes)| (u64::from(offset), u64::from(bytes)))
        };
        let notes = place.and_then(|(offset, bytes)| {
            let start = usize::try_from(offset).ok()?;
            self.bytes.get(start..start.checked_add(usize::try_from(bytes).ok()?)?)
        });
        notes.is_some_and(|notes| notes.windows(4).any(|name| name == b"Go\0\0"))
    }

    fn u16(&self, at: usize) -> Option<u16> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.order == 1 { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.order == 1 { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let bytes = *self.bytes.get(at..)?.first_chunk()?;
        Some(if self.order == 1 { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn this_program_is_dynamic_and_text_is_none() {
        let own = own();
        let ExecutableKind::Dynamic(machine) = kind(&own) else { panic!("{:?}", kind(&own)) };
        assert_eq!(machine.class, 2);
        assert_eq!(kind(b"#!/bin/sh\n"), ExecutableKind::Script);
        assert_eq!(kind(b""), ExecutableKind::Unknown);
        assert_eq!(kind(b"\x7fELF"), ExecutableKind::Unknown);
    }

    #[test]
    fn a_cut_or_damaged_file_is_no_panic() {
        let own = own();
        for length in 0..600 {
            kind(&own[..length]);
        }
        let mut damaged = own[..4096].to_vec();
        for at in 4..300 {
            for value in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut damaged[at], value);
                kind(&damaged);
                damaged[at] = before;
            }
        }
    }

    #[test]
    fn what_go_made_is_told_by_its_note() {
        let mut file = vec![0; 256];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[16] = 2;
        file[18] = 62;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        let machine = ElfMachine { class: 2, order: 1, processor: 62 };
        assert_eq!(kind(&file), ExecutableKind::Static(machine));
        file[64] = 4;
        file[72] = 128;
        file[96] = 16;
        file[140..144].copy_from_slice(b"Go\0\0");
        assert_eq!(kind(&file), ExecutableKind::Go(machine));
    }
}
