//! All functions of the kernel, compressed: 1.3 MiB for 120,000. Reading /proc/kallsyms takes 0.1 s of CPU time, and
//! seconds on a machine that is short of CPUs, which is when names are wanted.

use crate::kallsyms::{KALLSYMS, hidden, plainer, symbol_of};
use mw_model::Missing;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader, Read};

const MODULES: &str = "/proc/modules";
/// Names that are compressed together, 0.8 KiB on average: most lookups read a block for one name.
const BLOCK: usize = 32;
const MAX_BLOCK_BYTES: usize = 32 << 10;
/// More functions than any kernel has, and a longer file than it shows.
const MAX_FUNCTIONS: usize = 1 << 20;
const MAX_FILE_BYTES: u64 = 256 << 20;
const COMPRESSION_LEVEL: i32 = 3;

#[derive(Debug, Default)]
pub(crate) struct KernelFunctions {
    /// Address of the first, and distance of each from there on, ascending. One without a name is a hole.
    base: u64,
    begins: Vec<u32>,
    blocks: NameBlocks,
    /// Addresses of the modules, and their names.
    modules_from: u64,
    modules: u64,
}

/// The names of [`BLOCK`] functions each, a line each, compressed one by one.
#[derive(Debug, Default)]
struct NameBlocks {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFunction {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
}

/// A line of kallsyms: a place in the text of all names, and the number of its module, 0 for none.
struct FunctionEntry {
    begin: u64,
    name: (u32, u32),
    module: u32,
}

impl KernelFunctions {
    /// Reads the names of all functions.
    ///
    /// # Errors
    /// Where the file cannot be read or hides its addresses.
    pub(crate) fn load() -> Result<Self, Missing> {
        let modules = modules();
        let failed = |error: std::io::Error| Missing::failed(KALLSYMS, error.to_string());
        let file = mw_sys::kernel_file::open(KALLSYMS).map_err(failed)?;
        Ok(Self { modules, ..Self::read(file)? })
    }

    fn read(kallsyms: impl Read) -> Result<Self, Missing> {
        let (mut entries, mut names) = (Vec::new(), String::new());
        let mut reader = BufReader::with_capacity(64 << 10, kallsyms.take(MAX_FILE_BYTES));
        let (mut line, mut tag, mut module) = (String::new(), String::new(), 0);
        let failed = |error: std::io::Error| Missing::failed(KALLSYMS, error.to_string());
        while reader.read_line(&mut line).map_err(failed)? > 0 {
            if let Some((begin, name, of)) = symbol_of(&line)
                && begin != 0
                && !is_made_at_run_time(of)
                && entries.len() < MAX_FUNCTIONS
            {
                if of != tag {
                    of.clone_into(&mut tag);
                    module += 1;
                }
                let module = if of.is_empty() { 0 } else { module };
                let at = u32::try_from(names.len()).unwrap_or(u32::MAX);
                names.push_str(name);
                let length = u32::try_from(name.len()).unwrap_or(0);
                entries.push(FunctionEntry { begin, name: (at, length), module });
            }
            line.clear();
        }
        if entries.is_empty() {
            return Err(hidden());
        }
        entries.sort_by_key(|entry| entry.begin);
        Ok(Self::pack(&entries, &names))
    }

    fn pack(entries: &[FunctionEntry], names: &str) -> Self {
        let page = mw_sys::page_bytes() as u64;
        let base = entries.first().map_or(0, |first| first.begin);
        let of_modules = entries.iter().filter(|entry| entry.module != 0);
        let modules_from = of_modules.map(|entry| entry.begin).min().unwrap_or(u64::MAX);
        let compressor = zstd::bulk::Compressor::new(COMPRESSION_LEVEL).ok();
        let mut packed = Packer { compressor, base, ..Packer::default() };
        let text = |entry: &FunctionEntry| {
            let (at, length) = (entry.name.0 as usize, entry.name.1 as usize);
            names.get(at..at.saturating_add(length)).unwrap_or_default()
        };
        for (index, entry) in entries.iter().enumerate() {
            let next = entries.get(index + 1);
            packed.add(entry.begin, text(entry));
            if next.is_none_or(|next| next.module != entry.module) {
                // What lies behind a module's last function is another's, or was made since.
                let end = (entry.begin / page + 1) * page;
                if next.is_none_or(|next| end < next.begin) {
                    packed.add(end, "");
                }
            }
        }
        packed.finish(modules_from)
    }

    /// Passes the functions that `wanted`, ascending, lie in to `found`; the others.
    pub(crate) fn find(&self, wanted: &[u64], mut found: impl FnMut(FoundFunction)) -> Vec<u64> {
        let are_same_modules = self.modules_from == u64::MAX || self.modules == modules();
        let mut others = Vec::new();
        let Some(mut names) = NameReader::new(&self.blocks) else { return wanted.to_vec() };
        for address in wanted {
            let place = self.place(*address);
            let Some((at, begin, end)) =
                place.filter(|_| are_same_modules || *address < self.modules_from)
            else {
                others.push(*address);
                continue;
            };
            match names.name(at).filter(|name| !name.is_empty()) {
                Some(name) => found(FoundFunction { begin, end, name: name.to_owned() }),
                None => others.push(*address),
            }
        }
        others
    }

    /// The number of the function that an address lies in, where it begins and ends.
    fn place(&self, address: u64) -> Option<(usize, u64, u64)> {
        let offset = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let after = self.begins.partition_point(|begin| *begin <= offset);
        let at = after.checked_sub(1)?;
        let (begin, end) = (self.begins.get(at)?, self.begins.get(after)?);
        let absolute = |offset: &u32| self.base.saturating_add(u64::from(*offset));
        Some((at, absolute(begin), absolute(end)))
    }
}

impl NameBlocks {
    /// Adds a block; one that could not be compressed has no names.
    fn push(&mut self, packed: &[u8]) {
        self.bytes.extend_from_slice(packed);
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    fn get(&self, block: usize) -> Option<&[u8]> {
        let before = block.checked_sub(1).and_then(|before| self.ends.get(before));
        let (begin, end) = (before.copied().unwrap_or(0), *self.ends.get(block)?);
        self.bytes.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)
    }
}

/// The block of names that was read last.
struct NameReader<'a> {
    blocks: &'a NameBlocks,
    decompressor: zstd::bulk::Decompressor<'static>,
    /// The number of that block, and its text.
    block: Option<usize>,
    text: Vec<u8>,
}

impl<'a> NameReader<'a> {
    fn new(blocks: &'a NameBlocks) -> Option<Self> {
        let decompressor = zstd::bulk::Decompressor::new().ok()?;
        Some(Self { blocks, decompressor, block: None, text: Vec::with_capacity(MAX_BLOCK_BYTES) })
    }

    /// The name of a function by its number.
    fn name(&mut self, at: usize) -> Option<&str> {
        let block = at / BLOCK;
        if self.block != Some(block) {
            self.block = None;
            self.decompressor.decompress_to_buffer(self.blocks.get(block)?, &mut self.text).ok()?;
            self.block = Some(block);
        }
        str::from_utf8(self.text.split(|byte| *byte == b'\n').nth(at % BLOCK)?).ok()
    }
}

#[derive(Default)]
struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    packed: Vec<u8>,
    base: u64,
    begins: Vec<u32>,
    blocks: NameBlocks,
    /// Names that are not compressed yet.
    names: Vec<String>,
}

impl Packer {
    fn add(&mut self, begin: u64, name: &str) {
        // A kernel and its modules lie within 4 GiB.
        let Ok(begin) = u32::try_from(begin.saturating_sub(self.base)) else { return };
        if self.begins.last() == Some(&begin) {
            if let Some(last) = self.names.last_mut().filter(|last| plainer(name, last)) {
                name.clone_into(last);
            }
            return;
        }
        if self.names.len() == BLOCK {
            self.compress();
        }
        self.begins.push(begin);
        self.names.push(name.to_owned());
    }

    fn compress(&mut self) {
        let names = self.names.join("\n");
        self.packed.clear();
        if let Some(compressor) = &mut self.compressor {
            self.packed.reserve(zstd::zstd_safe::compress_bound(names.len()));
            let _ = compressor.compress_to_buffer(names.as_bytes(), &mut self.packed);
        }
        self.blocks.push(&self.packed);
        self.names.clear();
    }

    fn finish(mut self, modules_from: u64) -> KernelFunctions {
        self.compress();
        self.begins.shrink_to_fit();
        self.blocks.bytes.shrink_to_fit();
        let Self { base, begins, blocks, .. } = self;
        KernelFunctions { base, begins, blocks, modules_from, modules: 0 }
    }
}

/// BPF programs and trampolines come and go.
fn is_made_at_run_time(module: &str) -> bool {
    module == "bpf" || module.starts_with("__builtin__")
}

/// Modules and their addresses.
fn modules() -> u64 {
    let text = mw_sys::kernel_file::read_to_string(MODULES).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    for line in text.lines() {
        // The number of its users changes.
        let mut words = line.split_ascii_whitespace();
        (words.next(), words.next(), words.next_back()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 t __se_alias
ffffffff81000100 t compact_zone
ffffffff81000400 t isolate_migratepages_block.isra.0
ffffffff82000000 D some_data
ffffffffc0000000 t nf_hook\t[nf_tables]
ffffffffc0002100 t nf_late\t[nf_tables]
ffffffffc0000800 t nf_mid\t[nf_tables]
ffffffffc0004000 t bpf_prog_1\t[bpf]
";

    #[track_caller]
    fn check(address: u64, name: Option<&str>) {
        let table = KernelFunctions::read(TABLE.as_bytes()).unwrap();
        let table = KernelFunctions { modules: modules(), ..table };
        let mut found = Vec::new();
        let others = table.find(&[address], |function| found.push(function));
        assert_eq!(found.first().map(|function| function.name.as_str()), name, "{address:#x}");
        assert_eq!(others.len(), usize::from(name.is_none()));
        assert!(found.iter().all(|of| (of.begin..of.end).contains(&address)), "{found:?}");
    }

    #[test]
    fn what_is_not_certain_is_not_found() {
        check(0xffff_ffff_8100_0100, Some("compact_zone"));
        check(0xffff_ffff_8100_0450, Some("isolate_migratepages_block"));
        check(0xffff_ffff_8100_1000, None);
        check(0xffff_ffff_c000_0000, Some("nf_hook"));
        check(0xffff_ffff_c000_2000, Some("nf_mid"));
        check(0xffff_ffff_c000_2fff, Some("nf_late"));
        check(0xffff_ffff_c000_4010, None);
        check(0x1000, None);
    }

    #[test]
    fn other_modules_than_were_read_are_not_named() {
        let table = KernelFunctions::read(TABLE.as_bytes()).unwrap();
        let table = KernelFunctions { modules: modules().wrapping_add(1), ..table };
        let wanted = [0xffff_ffff_8100_0100, 0xffff_ffff_c000_0000];
        assert_eq!(table.find(&wanted, drop), [wanted[1]]);
    }

    #[test]
    fn many_functions_are_named_in_every_block() {
        let line = |number: u64| format!("{:016x} T function_{number}\n", 0x1000 + number * 16);
        let text: String = (0..3000).map(line).collect();
        let table = KernelFunctions::read(text.as_bytes()).unwrap();
        let wanted: Vec<u64> = (0..2999).map(|number| 0x1008 + number * 16).collect();
        let mut names = Vec::new();
        assert!(table.find(&wanted, |function| names.push(function.name)).is_empty());
        let expected: Vec<String> = (0..2999).map(|number| format!("function_{number}")).collect();
        assert_eq!(names, expected);
    }
}
