//! Names of the functions of user stacks, found on a thread of its own.

use crate::code::ProcessCode;
use crate::demangle::{cut, demangled};
use crate::elf::ReadBudget;
use crate::frames::{FoundFrames, ProcessUnwinder, StackEnd};
use crate::jit::compiled_names;
use crate::program::ProgramFiles;
use mw_critical_path::{CodeMapping, PathSummary, Tid, Trace, UserPlace, UserStack, UserStackId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Limits of naming the functions of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamingLimits {
    pub time: Duration,
    /// Bytes that are read of files or decompressed, and held in memory meanwhile.
    pub bytes: u64,
}

impl NamingLimits {
    /// For a process that only traces.
    pub const COMMAND: Self = Self { time: Duration::from_secs(5), bytes: 96 << 20 };
    /// For the recorder, which is resident and bounded in memory.
    pub const RECORDER: Self = Self { time: Duration::from_secs(2), bytes: 24 << 20 };
}

/// Functions of a stack that are kept, innermost first.
const MAX_FUNCTIONS: usize = 16;
/// As many frames say where a task is; why there are no more is no remark then.
const ENOUGH_FRAMES: usize = 5;
/// Enough for the deepest name that is demangled.
pub(crate) const STACK_BYTES: usize = 2 << 20;

/// A stack by names.
#[derive(Debug, Clone, Default)]
struct NamedStack {
    functions: Vec<String>,
    missing: Option<String>,
}

/// User stacks of one process.
struct StacksOfProcess {
    process: Tid,
    stacks: Vec<(UserStackId, UserStack)>,
    traced: Option<Vec<CodeMapping>>,
}

/// Names the functions of the user stacks of paths. It takes at most the time of the limits, whatever file
/// systems do.
pub fn name_functions(paths: &mut [&mut PathSummary], trace: &Trace, limits: NamingLimits) {
    let requests = requests(paths, trace);
    if requests.is_empty() {
        return;
    }
    let (named, receiver) = channel();
    let deadline = Instant::now() + limits.time;
    let thread = std::thread::Builder::new();
    let thread = thread.name(mw_sys::HELPER_THREAD_NAME.into()).stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        let budget = ReadBudget::new(limits.bytes);
        for request in requests {
            // Nobody waits any longer.
            if Instant::now() >= deadline || named.send(name_stacks(&request, &budget)).is_err() {
                return;
            }
        }
    });
    let mut names: BTreeMap<UserStackId, NamedStack> = BTreeMap::new();
    while let Ok(more) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        names.extend(more);
    }
    drop(spawned);
    for place in paths.iter_mut().flat_map(|path| path.user_places_mut()) {
        fill(place, &names);
    }
}

fn requests(paths: &mut [&mut PathSummary], trace: &Trace) -> Vec<StacksOfProcess> {
    let places = paths.iter_mut().flat_map(|path| path.user_places_mut());
    let ids: BTreeSet<UserStackId> =
        places.flat_map(|place| place.stacks.iter().map(|(id, _)| *id)).collect();
    let mut by_process: BTreeMap<Tid, Vec<(UserStackId, UserStack)>> = BTreeMap::new();
    for id in ids {
        if let Some(stack) = trace.user_stack(id) {
            by_process.entry(stack.process).or_default().push((id, stack.clone()));
        }
    }
    let request = |(process, stacks)| StacksOfProcess {
        process,
        stacks,
        traced: trace.code.get(&process).cloned(),
    };
    by_process.into_iter().map(request).collect()
}

/// The functions in which most of the time was spent.
fn fill(place: &mut UserPlace, names: &BTreeMap<UserStackId, NamedStack>) {
    let mut times: BTreeMap<&[String], (u64, Option<&String>)> = BTreeMap::new();
    for (id, time) in &place.stacks {
        let Some(stack) = names.get(id) else { continue };
        let entry = times.entry(&stack.functions).or_default();
        entry.0 += time;
        entry.1 = entry.1.or(stack.missing.as_ref());
    }
    let most =
        times.into_iter().max_by_key(|(functions, (time, _))| (!functions.is_empty(), *time));
    if let Some((functions, (_, missing))) = most {
        (place.functions, place.missing) = (functions.to_vec(), missing.cloned());
    } else if !place.stacks.is_empty() {
        place.missing = Some("the files of its program could not be read in time".to_owned());
    }
}

fn name_stacks(request: &StacksOfProcess, budget: &ReadBudget) -> Vec<(UserStackId, NamedStack)> {
    let code = ProcessCode::of(request.process, request.traced.as_ref());
    let mut files = ProgramFiles::new(request.process, code.lives, budget);
    let mut unwinder = ProcessUnwinder::new(&code);
    let found: Vec<(UserStackId, FoundFrames)> = request
        .stacks
        .iter()
        .map(|(id, stack)| (*id, unwinder.frames(stack, &mut files)))
        .collect();
    let addresses: BTreeSet<u64> =
        found.iter().flat_map(|(_, of)| of.addresses.iter().copied()).collect();
    let names = AddressNames::find(request.process, &code, &mut files, &addresses);
    found.into_iter().map(|(id, frames)| (id, names.of(&frames, &code))).collect()
}

/// Addresses within mappings of one file.
type FileAddresses<'a> = Vec<(&'a CodeMapping, u64)>;

/// Names by address; of inlined functions first.
struct AddressNames {
    names: BTreeMap<u64, Vec<String>>,
}

impl AddressNames {
    fn find(
        process: Tid,
        code: &ProcessCode,
        files: &mut ProgramFiles,
        addresses: &BTreeSet<u64>,
    ) -> Self {
        let mut names: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut of_files: BTreeMap<(&[u8], u64), FileAddresses<'_>> = BTreeMap::new();
        let mut compiled: Vec<u64> = Vec::new();
        for address in addresses {
            match code.find(*address) {
                Some(mapping) if mapping.inode != 0 => {
                    let of_file = of_files.entry((&mapping.path, mapping.inode)).or_default();
                    of_file.push((mapping, *address));
                }
                _ => compiled.push(*address),
            }
        }
        for of_file in of_files.into_values() {
            let Some(file) = of_file.first().and_then(|(mapping, _)| files.find(mapping)) else {
                continue;
            };
            let placed = |(mapping, address): &(&CodeMapping, u64)| {
                Some((*address, file.address(mapping, *address)?))
            };
            let (here, there): (Vec<u64>, Vec<u64>) = of_file.iter().filter_map(placed).unzip();
            let named = file.function_names(&there).into_iter();
            let named = named.map(|of| of.iter().map(|name| demangled(name)).collect());
            names.extend(here.into_iter().zip(named));
        }
        if !compiled.is_empty() {
            let named = compiled_names(process, &compiled, files.budget()).into_iter();
            let named = named.map(|name| name.iter().map(|name| demangled(name)).collect());
            names.extend(compiled.into_iter().zip(named));
        }
        Self { names }
    }

    fn of(&self, found: &FoundFrames, code: &ProcessCode) -> NamedStack {
        let mut functions: Vec<String> = Vec::new();
        let mut unnamed: Option<String> = None;
        for address in &found.addresses {
            match self.names.get(address).filter(|names| !names.is_empty()) {
                Some(names) => functions.extend(names.iter().cloned()),
                None => {
                    let file = code.find(*address).map(file_name).unwrap_or_default();
                    functions.push(format!("({file})"));
                    unnamed.get_or_insert(file);
                }
            }
        }
        functions.truncate(MAX_FUNCTIONS);
        // The same file twice tells nothing more.
        functions.dedup();
        let missing = match unnamed {
            Some(file) => Some(format!(
                "no symbols of {file}: install its debug symbols (-dbgsym, -debuginfo)"
            )),
            None => not_unwound(found, code),
        };
        NamedStack { functions, missing }
    }
}

/// Reason why no callers were found further out.
fn not_unwound(found: &FoundFrames, code: &ProcessCode) -> Option<String> {
    let Some(last) = found.addresses.last() else {
        return Some("its program is not known: the process has ended".to_owned());
    };
    match found.end {
        _ if found.addresses.len() >= ENOUGH_FRAMES => None,
        StackEnd::Whole => None,
        StackEnd::OfCopy => Some("its callers are beyond what is copied of the stack".to_owned()),
        StackEnd::NotUnwound => {
            let file = code.find(*last).map(file_name).unwrap_or_default();
            Some(format!("no frame pointers and no unwind information in {file}"))
        }
    }
}

/// Name of a mapped file without its directory.
fn file_name(mapping: &CodeMapping) -> String {
    let path = mapping.path.strip_suffix(b" (deleted)").unwrap_or(&mapping.path);
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match name {
        b"" => "compiled code".to_owned(),
        name => cut(&String::from_utf8_lossy(name)),
    }
}
