//! Names of inlined functions, from DWARF.

use crate::elf::{ParsedElf, ReadBudget, section};
use addr2line::gimli::{self, DwarfSections, EndianSlice, RunTimeEndian};
use object::{Endianness, Object, ObjectSection};

/// Debug information may take such a part of what may still be read; where it is more, only symbols name functions.
const DEBUG_PART: u64 = 2;
/// Inlined functions at one address.
const MAX_INLINED: usize = 16;

/// Names of the functions at each address, the innermost inlined one first; none without debug information.
pub(crate) fn inlined_names(
    elf: &ParsedElf<'_>,
    addresses: &[u64],
    budget: &ReadBudget,
) -> Vec<Vec<String>> {
    named(elf, addresses, budget).unwrap_or_else(|| vec![Vec::new(); addresses.len()])
}

fn named(elf: &ParsedElf<'_>, addresses: &[u64], budget: &ReadBudget) -> Option<Vec<Vec<String>>> {
    elf.section_by_name(".debug_info")?;
    let of_debug = elf
        .sections()
        .filter(|section| section.name_bytes().is_ok_and(|name| name.starts_with(b".debug_")));
    if of_debug.map(|section| section.size()).sum::<u64>() > budget.left_bytes() / DEBUG_PART {
        return None;
    }
    let sections = DwarfSections::load(|id| -> Result<Vec<u8>, gimli::Error> {
        Ok(section(elf, id.name(), budget).map(|(_, bytes)| bytes).unwrap_or_default())
    });
    let sections = sections.ok()?;
    let endian = match elf.endian() {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let dwarf = sections.borrow(|bytes: &Vec<u8>| EndianSlice::new(bytes, endian));
    let context = addr2line::Context::from_dwarf(dwarf).ok()?;
    Some(addresses.iter().map(|address| names(&context, *address).unwrap_or_default()).collect())
}

fn names<R: gimli::Reader>(context: &addr2line::Context<R>, address: u64) -> Option<Vec<String>> {
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut names = Vec::new();
    while let Some(frame) = frames.next().ok()?.filter(|_| names.len() < MAX_INLINED) {
        names.push(frame.function?.raw_name().ok()?.into_owned());
    }
    Some(names)
}
