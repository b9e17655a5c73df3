//! Names of kernel functions for addresses, from /proc/kallsyms.
//!
//! The table of all functions is held compressed, where it was loaded. For what it does not have the file streams past
//! the addresses that are wanted once.

use crate::kallsyms::{KALLSYMS, hidden, plainer, symbol_of};
use crate::kernel_functions::{FoundFunction, KernelFunctions};
use mw_model::Missing;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::sync::{Mutex, PoisonError};

/// The name of what has none.
pub(crate) const UNKNOWN: &str = "[unknown]";
/// Functions whose names are remembered.
const MAX_KNOWN: usize = 16_384;
/// Longer lines are no symbol of ours.
const MAX_LINE_BYTES: u64 = 1024;

/// Names that were looked up, each once.
#[derive(Debug, Default)]
pub struct Symbols {
    names: Vec<String>,
    by_name: HashMap<String, u32>,
    /// The functions that were looked up, by where they begin: where each ends, and its name.
    functions: BTreeMap<u64, (u64, u32)>,
    all: Option<KernelFunctions>,
}

/// A function that an address lies in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FunctionRange {
    begin: u64,
    /// Address of the next one.
    end: u64,
    name: String,
}

impl Symbols {
    /// Reads the names of all functions, of which 1.3 MiB are kept, in 0.1 to 0.2 s of CPU time: `shared` is locked
    /// only to take them. Until then, and where they cannot be read, [`Self::learn`] reads what it needs.
    pub fn load(shared: &Mutex<Self>) {
        let all = KernelFunctions::load().ok();
        shared.lock().unwrap_or_else(PoisonError::into_inner).all = all;
    }

    /// Looks up all addresses that are not known yet: 50 to 150 ms of CPU time unless all names were loaded, so never
    /// on a timed path.
    ///
    /// # Errors
    /// Where the file cannot be read or hides its addresses; the names are `[unknown]` then.
    pub(crate) fn learn(&mut self, addresses: impl Iterator<Item = u64>) -> Result<(), Missing> {
        if self.functions.len() > MAX_KNOWN {
            *self = Self { all: self.all.take(), ..Self::default() };
        }
        let mut wanted: Vec<u64> =
            addresses.filter(|address| self.function(*address).is_none()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(());
        }
        if let Some(all) = &self.all {
            let mut found = Vec::with_capacity(wanted.len());
            wanted = all.find(&wanted, |function| found.push(function));
            for FoundFunction { begin, end, name } in found {
                let name = self.intern(name);
                self.functions.insert(begin, (end, name));
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let file = mw_sys::kernel_file::open(KALLSYMS)
            .map_err(|error| Missing::failed(KALLSYMS, error.to_string()))?;
        for function in resolve(file, &wanted)? {
            let name = self.intern(function.name);
            self.functions.insert(function.begin, (function.end, name));
        }
        Ok(())
    }

    /// The number of the name of the function at an address.
    fn function(&self, address: u64) -> Option<u32> {
        let (_, (end, name)) = self.functions.range(..=address).next_back()?;
        (address < *end).then_some(*name)
    }

    fn intern(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(0);
        *self.by_name.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }

    /// The name of the function at an address that was learnt.
    pub(crate) fn name(&self, address: u64) -> &str {
        let index = self.function(address).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.names.get(index)).map_or(UNKNOWN, String::as_str)
    }
}

/// Checks that addresses can be resolved, and resolves none.
///
/// # Errors
/// Why they cannot, and what would make it work.
pub(crate) fn visible() -> Result<(), Missing> {
    let failed = |error: std::io::Error| Missing::failed(KALLSYMS, error.to_string());
    let mut first = String::new();
    let file = mw_sys::kernel_file::open(KALLSYMS).map_err(failed)?;
    // Some kernels' first symbols are per-CPU offsets from 0; a few lines tell.
    let mut reader = BufReader::new(file.take(64 << 10));
    while reader.read_line(&mut first).map_err(failed)? > 0 {
        if symbol(&first).is_some_and(|(address, _)| address != 0) {
            return Ok(());
        }
        first.clear();
    }
    Err(hidden())
}

/// The functions that `wanted`, ascending, lie in, one for each; an address before the first symbol is a function of
/// its own.
fn resolve(kallsyms: impl Read, wanted: &[u64]) -> Result<Vec<FunctionRange>, Missing> {
    // For each address the last symbol at or below it, but above the address before, and the first above it.
    let mut best: Vec<(u64, String)> = vec![(0, String::new()); wanted.len()];
    let mut above = vec![u64::MAX; wanted.len()];
    let mut reader = BufReader::with_capacity(64 << 10, kallsyms);
    let (mut line, mut seen) = (String::new(), false);
    while line_into(&mut reader, &mut line)? {
        let Some((address, name)) = symbol(&line) else { continue };
        seen |= address != 0;
        let next = wanted.partition_point(|wanted| *wanted < address);
        if let Some(end) = next.checked_sub(1).and_then(|before| above.get_mut(before)) {
            *end = (*end).min(address);
        }
        let Some((found, found_name)) = best.get_mut(next) else { continue };
        let better = address > *found || (address == *found && plainer(name, found_name));
        if address != 0 && better {
            *found = address;
            found_name.clear();
            found_name.push_str(name);
        }
    }
    if !seen {
        return Err(hidden());
    }
    let mut end = u64::MAX;
    for above in above.iter_mut().rev() {
        end = end.min(*above);
        *above = end;
    }
    let mut functions: Vec<FunctionRange> = Vec::with_capacity(best.len());
    for (((begin, name), end), address) in best.into_iter().zip(above).zip(wanted) {
        let before = functions.last().filter(|before| before.name != UNKNOWN);
        functions.push(match (begin, before) {
            // What has no symbol since the address before lies in its function.
            (0, Some(before)) => FunctionRange { end, ..before.clone() },
            (0, None) => FunctionRange {
                begin: *address,
                end: address.saturating_add(1),
                name: UNKNOWN.to_owned(),
            },
            _ => FunctionRange { begin, end, name },
        });
    }
    Ok(functions)
}

fn line_into(reader: &mut impl BufRead, line: &mut String) -> Result<bool, Missing> {
    line.clear();
    let failed = |error: std::io::Error| Missing::failed(KALLSYMS, error.to_string());
    Ok(reader.take(MAX_LINE_BYTES).read_line(line).map_err(failed)? > 0)
}

/// The address and the name of a function.
fn symbol(line: &str) -> Option<(u64, &str)> {
    symbol_of(line).map(|(address, name, _)| (address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000100 t compact_zone
ffffffff81000100 t __se_alias
ffffffff81000400 t isolate_migratepages_block.isra.0
ffffffff81000900 T shrink_lruvec
ffffffff82000000 D some_data
ffffffffc0000000 t nf_hook\t[nf_tables]
ffffffffc0000800 t nf_late\t[nf_tables]
ffffffff81000600 t out_of_place
";

    fn check(address: u64, name: &str) {
        let functions = resolve(TABLE.as_bytes(), &[address]).unwrap();
        assert_eq!(functions.len(), 1);
        let FunctionRange { begin, end, name: found } = &functions[0];
        assert_eq!(found, name, "{address:#x}");
        assert!((*begin..*end).contains(&address), "{address:#x} in {begin:#x}..{end:#x}");
    }

    #[test]
    fn an_address_lies_in_the_last_function_at_or_below_it() {
        check(0xffff_ffff_8100_0100, "compact_zone");
        check(0xffff_ffff_8100_03ff, "compact_zone");
        check(0xffff_ffff_8100_0400, "isolate_migratepages_block");
        check(0xffff_ffff_8100_0650, "out_of_place");
        check(0xffff_ffff_8200_0010, "shrink_lruvec");
        check(0xffff_ffff_c000_0900, "nf_late");
        check(0x1000, UNKNOWN);
    }

    #[test]
    fn many_addresses_are_found_in_one_pass() {
        let wanted = [
            0x10,
            0xffff_ffff_8100_0101,
            0xffff_ffff_8100_0102,
            0xffff_ffff_8100_0901,
            0xffff_ffff_c000_0001,
            0xffff_ffff_ffff_0000,
        ];
        let functions = resolve(TABLE.as_bytes(), &wanted).unwrap();
        let one_by_one: Vec<_> = wanted
            .iter()
            .map(|address| resolve(TABLE.as_bytes(), &[*address]).unwrap().remove(0))
            .collect();
        assert_eq!(functions, one_by_one);
        assert_eq!(functions[2].name, "compact_zone");
    }

    #[test]
    fn hidden_addresses_are_said_to_be_hidden() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 t compact_zone\n";
        let missing = resolve(hidden.as_bytes(), &[1]).unwrap_err();
        assert!(missing.why.contains("CAP_SYSLOG"), "{missing}");
    }

    /// Promise (Tracing: why): The names of kernel functions are kept from the start, and never those of modules that
    /// have changed.
    #[test]
    fn this_kernel_names_its_functions() {
        if let Err(missing) = visible() {
            return mw_test::skip(missing);
        }
        let text = std::fs::read_to_string(KALLSYMS).unwrap();
        let (address, name) =
            text.lines().filter_map(symbol).find(|(_, name)| *name == "try_to_free_pages").unwrap();
        let mut symbols = Symbols::default();
        symbols.learn([address, address + 4, address].into_iter()).unwrap();
        assert_eq!((symbols.name(address), symbols.name(address + 4)), (name, name));
        assert_eq!(symbols.name(1), UNKNOWN);
        let loaded = Mutex::new(Symbols::default());
        Symbols::load(&loaded);
        let mut loaded = loaded.into_inner().unwrap();
        let functions = text.lines().filter_map(symbol).filter(|(address, _)| *address != 0);
        let some: Vec<u64> = functions.step_by(500).map(|(address, _)| address + 1).collect();
        loaded.learn(some.iter().copied()).unwrap();
        symbols.learn(some.iter().copied()).unwrap();
        for address in some {
            assert_eq!(loaded.name(address), symbols.name(address), "{address:#x}");
        }
    }
}
