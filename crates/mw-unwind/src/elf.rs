//! An ELF file that nobody vouches for: its sections and symbols, read by offset within limits.

use object::read::elf::{ElfFile64, ProgramHeader};
use object::read::{ReadCache, ReadCacheOps, ReadRef};
use object::{CompressionFormat, Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Longest file that is looked at.
const MAX_FILE_BYTES: u64 = 8 << 30;
/// Longest section that is read, decompressed.
const MAX_SECTION_BYTES: u64 = 64 << 20;

/// Symbols that distributions leave in stripped files: a compressed ELF file with a symbol table alone.
const STRIPPED_SYMBOLS: &str = ".gnu_debugdata";
/// Longest such file. That of a large library has some hundred kilobytes.
const MAX_STRIPPED_SYMBOLS_BYTES: u64 = 8 << 20;
/// The most memory for its dictionary, in KiB: `xz` needs 9 MiB unless told otherwise. It is freed with the section.
const MAX_XZ_KIB: u32 = 10 << 10;

/// Mappings begin at multiples of the smallest page.
const SEGMENT_ALIGNMENT: u64 = 4096;
/// Parts of a file that are loaded; most have four.
const MAX_SEGMENTS: usize = 256;

/// A file whose sections are read where they are needed.
pub(crate) struct ElfSource {
    cache: ReadCache<PositionedFile>,
    budget: ReadBudget,
}

/// Bytes that may still be read or decompressed, of all files together.
#[derive(Debug, Clone)]
pub(crate) struct ReadBudget(Rc<Cell<u64>>);

impl ReadBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Rc::new(Cell::new(bytes)))
    }

    pub(crate) fn left_bytes(&self) -> u64 {
        self.0.get()
    }

    fn take(&self, bytes: u64) -> Result<(), ()> {
        let left = self.0.get().checked_sub(bytes).filter(|_| bytes <= MAX_SECTION_BYTES);
        left.map(|left| self.0.set(left)).ok_or(())
    }
}

/// What is parsed of it.
pub(crate) type ParsedElf<'a> = ElfFile64<'a, Endianness, BoundedReads<'a>>;

impl ElfSource {
    pub(crate) fn new(file: File, budget: &ReadBudget) -> Option<Self> {
        let bytes = file.metadata().ok()?.len();
        (bytes <= MAX_FILE_BYTES).then(|| Self {
            cache: ReadCache::new(PositionedFile { file, bytes, at: 0, budget: budget.clone() }),
            budget: budget.clone(),
        })
    }

    pub(crate) fn budget(&self) -> &ReadBudget {
        &self.budget
    }

    /// The file's headers; none where it is no 64-bit ELF file.
    pub(crate) fn parse(&self) -> Option<ParsedElf<'_>> {
        ElfFile64::parse(BoundedReads(self)).ok()
    }
}

/// Reads by offset, so that no other user of the file is disturbed.
struct PositionedFile {
    file: File,
    bytes: u64,
    at: u64,
    budget: ReadBudget,
}

impl ReadCacheOps for PositionedFile {
    fn len(&mut self) -> Result<u64, ()> {
        Ok(self.bytes)
    }

    fn seek(&mut self, pos: u64) -> Result<u64, ()> {
        self.at = pos;
        Ok(pos)
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, ()> {
        self.budget.take(buf.len() as u64)?;
        let read = self.file.read_at(buf, self.at).map_err(|_| ())?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ()> {
        self.budget.take(buf.len() as u64)?;
        self.file.read_exact_at(buf, self.at).map_err(|_| ())?;
        self.at = self.at.saturating_add(buf.len() as u64);
        Ok(())
    }
}

/// Reads that are refused beyond the limits, before there is memory for them.
#[derive(Clone, Copy)]
pub(crate) struct BoundedReads<'a>(&'a ElfSource);

impl<'a> ReadRef<'a> for BoundedReads<'a> {
    fn len(self) -> Result<u64, ()> {
        (&self.0.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // The cache has memory for a piece before it reads it.
        let fits = size <= MAX_SECTION_BYTES;
        if !fits {
            return Err(());
        }
        (&self.0.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        // A name: the cache reads it in pieces until it ends.
        const NAME_BYTES: u64 = 4 << 10;
        let end = range.end.min(range.start.saturating_add(NAME_BYTES));
        (&self.0.cache).read_bytes_at_until(range.start..end, delimiter)
    }
}

/// A part of a file that is loaded to be executed, from the beginning of its first page on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadedSegment {
    offset: u64,
    bytes: u64,
    address: u64,
}

impl LoadedSegment {
    /// The address, as the file has it, of an offset in the file.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let within = offset.checked_sub(self.offset).filter(|within| *within < self.bytes)?;
        Some(self.address.wrapping_add(within))
    }
}

/// The parts of a file that are loaded to be executed: at most [`MAX_SEGMENTS`].
pub(crate) fn loaded_segments(elf: &ParsedElf<'_>) -> Vec<LoadedSegment> {
    let endian = elf.endian();
    let headers = elf.elf_program_headers().iter();
    let loaded = headers.filter(|header| {
        let is_executed = header.p_flags(endian).0 & object::elf::PF_X.0 != 0;
        header.p_type(endian) == object::elf::PT_LOAD && is_executed
    });
    let segment = |header: &object::elf::ProgramHeader64<Endianness>| {
        let before = header.p_offset(endian) % SEGMENT_ALIGNMENT;
        LoadedSegment {
            offset: header.p_offset(endian) - before,
            bytes: header.p_filesz(endian).saturating_add(before),
            address: header.p_vaddr(endian).wrapping_sub(before),
        }
    };
    loaded.take(MAX_SEGMENTS).map(segment).collect()
}

/// The bytes of a section, decompressed; none where it is too long.
pub(crate) fn section(
    elf: &ParsedElf<'_>,
    name: &str,
    budget: &ReadBudget,
) -> Option<(u64, Vec<u8>)> {
    let section = elf.section_by_name(name)?;
    let compressed = section.compressed_data().ok()?;
    budget.take(compressed.uncompressed_size).ok()?;
    let bytes = match compressed.format {
        CompressionFormat::None => compressed.data.to_vec(),
        CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            let unpacked = flate2::read::ZlibDecoder::new(compressed.data);
            unpacked.take(compressed.uncompressed_size).read_to_end(&mut bytes).ok()?;
            bytes
        }
        _ => return None,
    };
    Some((section.address(), bytes))
}

/// Names of the functions at these addresses by [`STRIPPED_SYMBOLS`]; none where the file has no such section.
pub(crate) fn stripped_symbol_names(
    elf: &ParsedElf<'_>,
    addresses: &[u64],
    budget: &ReadBudget,
) -> Vec<Option<String>> {
    let symbols = elf.section_by_name(STRIPPED_SYMBOLS).and_then(|section| {
        if budget.left_bytes() < MAX_STRIPPED_SYMBOLS_BYTES {
            return None;
        }
        let compressed = section.data().ok()?;
        let unpacked = lzma_rust2::XzReader::new_mem_limit(compressed, false, MAX_XZ_KIB);
        let mut bytes = Vec::new();
        // Sections are listed at the end of a file: a part of it is of no use.
        let read = unpacked.take(MAX_STRIPPED_SYMBOLS_BYTES).read_to_end(&mut bytes);
        budget.take(bytes.len() as u64).ok()?;
        read.ok().filter(|read| (*read as u64) < MAX_STRIPPED_SYMBOLS_BYTES)?;
        let symbols = ElfFile64::<Endianness, _>::parse(bytes.as_slice()).ok()?;
        Some(symbol_names(&symbols, addresses))
    });
    symbols.unwrap_or_else(|| vec![None; addresses.len()])
}

/// Names of the functions at these addresses, by the symbols that the file has.
pub(crate) fn symbol_names<'a, R: ReadRef<'a>>(
    elf: &ElfFile64<'a, Endianness, R>,
    addresses: &[u64],
) -> Vec<Option<String>> {
    let mut order: Vec<(u64, usize)> =
        addresses.iter().enumerate().map(|(at, address)| (*address, at)).collect();
    order.sort_unstable();
    let mut names: Vec<Option<(bool, String)>> = vec![None; addresses.len()];
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let (begin, bytes) = (symbol.address(), symbol.size());
        if bytes == 0 || symbol.kind() != SymbolKind::Text || symbol.is_undefined() {
            continue;
        }
        let first = order.partition_point(|(address, _)| *address < begin);
        let inside = order.iter().skip(first).take_while(|(address, _)| address - begin < bytes);
        for (_, at) in inside {
            let Some(slot) = names.get_mut(*at) else { continue };
            // Of several names of one function the one that others link is known.
            let is_global = symbol.is_global();
            if slot.as_ref().is_none_or(|(was_global, _)| is_global && !was_global) {
                let name = symbol.name().ok().filter(|name| !name.is_empty());
                *slot = name.map(|name| (is_global, name.to_owned())).or(slot.take());
            }
        }
    }
    names.into_iter().map(|name| name.map(|(_, name)| name)).collect()
}
