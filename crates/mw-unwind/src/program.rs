//! Files that a process executes, and the functions in them.

use crate::elf::{self, ElfSource, LoadedSegment, ReadBudget};
use crate::go::go_names;
use crate::inlined::inlined_names;
use mw_critical_path::{CodeMapping, Tid};
use mw_sys::guarded;
use object::Object;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Files of one process that are opened.
const MAX_FILES: usize = 64;
/// Debug information of packages, by build id.
const DEBUG_DIRECTORY: &str = "/usr/lib/debug/.build-id";
/// Bytes of a build id: 20, as a rule.
const MAX_BUILD_ID: usize = 64;

/// Files of one process.
pub(crate) struct ProgramFiles {
    process: Tid,
    lives: bool,
    budget: ReadBudget,
    files: BTreeMap<(Vec<u8>, u64), Option<Rc<ProgramFile>>>,
}

/// A file that is executed, and the one that has its debug information.
pub(crate) struct ProgramFile {
    elf: ElfSource,
    segments: Vec<LoadedSegment>,
    debug: Option<ElfSource>,
}

impl ProgramFiles {
    pub(crate) fn new(process: Tid, lives: bool, budget: &ReadBudget) -> Self {
        Self { process, lives, budget: budget.clone(), files: BTreeMap::new() }
    }

    pub(crate) fn budget(&self) -> &ReadBudget {
        &self.budget
    }

    /// The file of a mapping, where it can be read and is the one that was mapped.
    pub(crate) fn find(&mut self, mapping: &CodeMapping) -> Option<Rc<ProgramFile>> {
        if mapping.inode == 0 {
            return None;
        }
        let key = (mapping.path.clone(), mapping.inode);
        if let Some(known) = self.files.get(&key) {
            return known.clone();
        }
        if self.files.len() >= MAX_FILES {
            return None;
        }
        let opened = self.open(mapping).and_then(|file| ProgramFile::new(file, &self.budget));
        let opened = opened.map(Rc::new);
        self.files.insert(key, opened.clone());
        opened
    }

    /// Opens the file through the mapping, also where its name leads to another one now; or by its name.
    fn open(&self, mapping: &CodeMapping) -> Option<File> {
        let CodeMapping { start, end, .. } = mapping;
        let mapped = format!("/proc/{}/map_files/{start:x}-{end:x}", self.process);
        let by_mapping = self.lives.then(|| guarded::open(Path::new(&mapped)).ok()).flatten();
        by_mapping.or_else(|| {
            let named =
                guarded::open(Path::new(std::ffi::OsStr::from_bytes(&mapping.path))).ok()?;
            (named.metadata().ok()?.ino() == mapping.inode).then_some(named)
        })
    }
}

impl ProgramFile {
    fn new(file: File, budget: &ReadBudget) -> Option<Self> {
        let elf = ElfSource::new(file, budget)?;
        let parsed = elf.parse()?;
        let segments = elf::loaded_segments(&parsed);
        let path = debug_path(parsed.build_id().ok().flatten().unwrap_or_default());
        let debug = path.and_then(|path| guarded::open(&path).ok());
        let debug = debug.and_then(|debug| ElfSource::new(debug, budget));
        Some(Self { elf, segments, debug })
    }

    /// The address, as the file has it, of one within a mapping of it.
    pub(crate) fn address(&self, mapping: &CodeMapping, address: u64) -> Option<u64> {
        let within = address.checked_sub(mapping.start)?;
        let offset = mapping.file_offset.checked_add(within)?;
        self.segments.iter().find_map(|segment| segment.address(offset))
    }

    /// A section: its address, as the file has it, and its bytes.
    pub(crate) fn section(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        elf::section(&self.elf.parse()?, name, self.elf.budget())
    }

    /// Names of the functions at these addresses of the file, mangled; of inlined ones first, the innermost first.
    pub(crate) fn function_names(&self, addresses: &[u64]) -> Vec<Vec<String>> {
        let mut names = vec![Vec::new(); addresses.len()];
        for source in self.debug.iter().chain([&self.elf]) {
            let Some(elf) = source.parse() else { continue };
            fill(&mut names, inlined_names(&elf, addresses, source.budget()));
            let finders: [&dyn Fn() -> Vec<Option<String>>; 3] = [
                &|| elf::symbol_names(&elf, addresses),
                &|| elf::stripped_symbol_names(&elf, addresses, source.budget()),
                &|| go_names(&elf, addresses),
            ];
            for find in finders {
                if names.iter().any(Vec::is_empty) {
                    let found = find().into_iter();
                    fill(&mut names, found.map(|name| name.into_iter().collect()).collect());
                }
            }
        }
        names
    }
}

fn fill(names: &mut [Vec<String>], found: Vec<Vec<String>>) {
    for (names, found) in names.iter_mut().zip(found) {
        if names.is_empty() {
            *names = found;
        }
    }
}

fn debug_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    if build_id.len() > MAX_BUILD_ID {
        return None;
    }
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Path::new(DEBUG_DIRECTORY).join(format!("{first:02x}")).join(rest + ".debug"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn opened(bytes: &[u8]) -> Option<ProgramFile> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        ProgramFile::new(file, &ReadBudget::new(64 << 20))
    }

    /// All that is ever asked of a file.
    fn ask(bytes: &[u8]) {
        let Some(file) = opened(bytes) else { return };
        let mapping = CodeMapping { start: 0x1000, end: u64::MAX, ..CodeMapping::default() };
        let addresses = [0, 0x1000, 0x2340, 0x40_1000, u64::MAX];
        for address in addresses {
            file.address(&mapping, address);
        }
        file.section(".eh_frame");
        file.section(".eh_frame_hdr");
        for names in file.function_names(&addresses) {
            names.iter().for_each(|name| drop(crate::demangle::demangled(name)));
        }
    }

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn files_that_end_anywhere_are_read() {
        let whole = own();
        for length in (0..4096).step_by(61).chain((0..whole.len()).step_by(whole.len() / 16)) {
            ask(&whole[..length]);
        }
        assert!(opened(b"#!/bin/sh").is_none());
        assert!(opened(&whole).is_some());
    }

    /// Offsets, sizes and counts of the headers at their extremes.
    #[test]
    fn headers_that_lie_are_refused() {
        let whole = own();
        let place = u64::from_ne_bytes(whole[40..48].try_into().unwrap());
        let sections = usize::try_from(place).unwrap();
        let headers = (24..64).step_by(8).chain((sections..whole.len() - 8).step_by(40)).take(100);
        for (at, extreme) in headers.zip([u64::MAX, 0, 1 << 40, i64::MAX as u64].iter().cycle()) {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&extreme.to_ne_bytes());
            ask(&bytes);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn damaged_files_are_read(changes in proptest::collection::vec((0_usize..6000, any::<u8>()), 1..40)) {
            let mut bytes = own();
            for (at, byte) in changes {
                // Near the beginning and near the end, where the headers are.
                let at = if at % 2 == 0 { at } else { bytes.len() - 1 - at };
                bytes[at] = byte;
            }
            ask(&bytes);
        }
    }

    #[test]
    fn a_file_takes_no_more_than_the_budget() {
        let budget = ReadBudget::new(64 << 20);
        let mut read = 0;
        while let Some(file) = ProgramFile::new(File::open("/proc/self/exe").unwrap(), &budget) {
            file.function_names(&[0x1000]);
            read += 1;
            assert!(read < 10_000);
        }
    }

    #[test]
    fn debug_files_lie_where_packages_have_them() {
        let path = debug_path(&[0xab, 0x01, 0xff]).unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/ab/01ff.debug"));
        assert_eq!((debug_path(&[1]), debug_path(&[]), debug_path(&[1; 100])), (None, None, None));
    }
}
