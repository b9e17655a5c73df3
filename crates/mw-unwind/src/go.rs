//! Names of Go functions by `.gopclntab`, which a stripped program has as well, since it unwinds its own stacks by it
//! (Go's src/debug/gosym/pclntab.go). Functions that were inlined are not in it.
//!
//! Only the few entries that are looked up are read: the table of a large program has tens of megabytes.

use crate::elf::ParsedElf;
use object::read::ReadRef;
use object::{Object, ObjectSection};

/// Names of the section; the second where the program is loaded at any address.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Size of a pointer, in the programs that are read.
const POINTER_BYTES: u64 = 8;
/// The function at which programs begin that Go's own linker has made.
const ENTRY: &str = "_rt0_";
/// Longest name that is read.
const MAX_NAME_BYTES: u64 = 4 << 10;

/// Names of the functions at these addresses.
pub(crate) fn go_names(elf: &ParsedElf<'_>, addresses: &[u64]) -> Vec<Option<String>> {
    let table = table(elf);
    let name = |address: &u64| table.as_ref().and_then(|table| table.name(*address));
    addresses.iter().map(name).collect()
}

fn table<'a>(elf: &ParsedElf<'a>) -> Option<FunctionTable<impl ReadRef<'a>>> {
    let section = SECTIONS.iter().find_map(|name| elf.section_by_name(name))?;
    let (begin, bytes) = section.file_range()?;
    let table = FunctionTable::new(elf.data(), (begin, bytes))?;
    if !table.has_offsets() || table.text != 0 {
        return Some(table);
    }
    // Go 1.26 does not say where its functions begin. They are not all of the text where another linker made the
    // program, which does not begin at a function of Go then.
    let text = elf.section_by_name(".text")?.address();
    let table = FunctionTable { text, ..table };
    table.name(elf.entry()).is_some_and(|name| name.starts_with(ENTRY)).then_some(table)
}

/// Layout of the table, by its first version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableLayout {
    Go1_2,
    Go1_16,
    /// Addresses are offsets from the beginning of the text. Go 1.20 changed only the number.
    Go1_18,
}

/// The functions of a program in the order of their addresses, in a part of a file.
#[derive(Debug, Clone, Copy)]
struct FunctionTable<R> {
    data: R,
    begin: u64,
    bytes: u64,
    layout: TableLayout,
    count: u64,
    /// The address that addresses count from.
    text: u64,
    /// Offsets in the part of the file.
    names: u64,
    functions: u64,
    entries: u64,
}

impl<'a, R: ReadRef<'a>> FunctionTable<R> {
    fn new(data: R, (begin, bytes): (u64, u64)) -> Option<Self> {
        let layout = TableLayout::Go1_2;
        let (count, text, names, functions, entries) = (0, 0, 0, 0, 0);
        let table = Self { data, begin, bytes, layout, count, text, names, functions, entries };
        let layout = match table.number(0, 4)? {
            0xffff_fffb => TableLayout::Go1_2,
            0xffff_fffa => TableLayout::Go1_16,
            0xffff_fff0 | 0xffff_fff1 => TableLayout::Go1_18,
            _ => return None,
        };
        if table.number(7, 1)? != POINTER_BYTES {
            return None;
        }
        let word = |index: u64| table.number(8 + index * POINTER_BYTES, POINTER_BYTES);
        let count = word(0)?;
        let table = Self { layout, count, ..table };
        Some(match layout {
            TableLayout::Go1_2 => Self { entries: 8 + POINTER_BYTES, ..table },
            TableLayout::Go1_16 => {
                Self { names: word(2)?, functions: word(6)?, entries: word(6)?, ..table }
            }
            TableLayout::Go1_18 => Self {
                text: word(2)?,
                names: word(3)?,
                functions: word(7)?,
                entries: word(7)?,
                ..table
            },
        })
    }

    fn has_offsets(&self) -> bool {
        self.layout == TableLayout::Go1_18
    }

    /// Size of a number in an entry, which has two: an address, and the offset of the function's description.
    fn number_bytes(&self) -> u64 {
        if self.has_offsets() { 4 } else { POINTER_BYTES }
    }

    /// Name of the function that an address is in.
    fn name(&self, address: u64) -> Option<String> {
        let address = address.checked_sub(self.text)?;
        let (mut first, mut end) = (0, self.count);
        // The last function that begins at the address or before it.
        while end - first > 1 {
            let middle = first + (end - first) / 2;
            if self.entry(middle)?.0 <= address { first = middle } else { end = middle }
        }
        let (begins, function) = self.entry(first).filter(|_| self.count > 0)?;
        let ends = self.number(self.place(first.checked_add(1)?)?, self.number_bytes())?;
        if !(begins..ends).contains(&address) {
            return None;
        }
        let description = self.functions.checked_add(function)?;
        let name = self.number(description.checked_add(self.number_bytes())?, 4)?;
        self.text_at(self.names.checked_add(name)?)
    }

    /// Offset of an entry.
    fn place(&self, index: u64) -> Option<u64> {
        self.entries.checked_add(index.checked_mul(2 * self.number_bytes())?)
    }

    fn entry(&self, index: u64) -> Option<(u64, u64)> {
        let (place, bytes) = (self.place(index)?, self.number_bytes());
        Some((self.number(place, bytes)?, self.number(place.checked_add(bytes)?, bytes)?))
    }

    fn number(&self, at: u64, bytes: u64) -> Option<u64> {
        at.checked_add(bytes).filter(|end| *end <= self.bytes)?;
        let read = self.data.read_bytes_at(self.begin.checked_add(at)?, bytes).ok()?;
        Some(read.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn text_at(&self, at: u64) -> Option<String> {
        let begin = self.begin.checked_add(at).filter(|_| at < self.bytes)?;
        let end = self.begin.checked_add(self.bytes)?.min(begin.checked_add(MAX_NAME_BYTES)?);
        let name = self.data.read_bytes_at_until(begin..end, 0).ok()?;
        let name = String::from_utf8_lossy(name);
        (!name.is_empty()).then(|| name.into_owned())
    }
}

#[cfg(test)]
#[path = "go_tests.rs"]
mod tests;
