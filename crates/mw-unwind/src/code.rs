//! The mappings of a process that may be executed.

use mw_critical_path::{CodeMapping, Tid};
use mw_proc::maps::{self, MappedCode};
use mw_sys::{HelperThread, kernel_file};
use std::collections::BTreeMap;
use std::time::Duration;

/// Mappings of one process that are looked at.
const MAX_MAPPINGS: usize = 1 << 14;

/// Processes of which the code is read at the start.
const MAX_PROCESSES: usize = 64;

/// Time limit for one process of reading its code.
const READ_LIMIT: Duration = Duration::from_millis(100);

/// Files that processes have mapped to execute them, for the case that they end before their stacks are named.
pub fn mapped_code(processes: &[Tid]) -> BTreeMap<Tid, Vec<CodeMapping>> {
    let Ok(mut helper) = HelperThread::new(READ_LIMIT, |process, (): &()| read(process)) else {
        return BTreeMap::new();
    };
    let requests: Vec<(Tid, ())> =
        processes.iter().take(MAX_PROCESSES).map(|process| (*process, ())).collect();
    let read = helper.run(&requests).into_iter().zip(processes);
    read.filter_map(|(code, process)| Some((*process, code?))).collect()
}

/// Code of one process, in the order of addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProcessCode {
    mappings: Vec<CodeMapping>,
    /// The process was there when they were read: its files are reached through it.
    pub(crate) lives: bool,
}

impl ProcessCode {
    /// The mappings as the kernel lists them; of a process that has ended as they were traced.
    pub(crate) fn of(process: Tid, traced: Option<&Vec<CodeMapping>>) -> Self {
        let mapped = read(process);
        // A process that is ending has no mappings.
        let lives = !mapped.is_empty();
        let mut mappings = traced.filter(|_| !lives).cloned().unwrap_or(mapped);
        mappings.sort_by_key(|mapping| mapping.start);
        Self { mappings, lives }
    }

    /// The mapping of an address.
    pub(crate) fn find(&self, address: u64) -> Option<&CodeMapping> {
        let behind = self.mappings.partition_point(|mapping| mapping.start <= address);
        let before = self.mappings.get(..behind)?;
        // A later record of an overlapping mapping replaced the earlier one.
        before.iter().rev().take(2).find(|mapping| address < mapping.end)
    }
}

fn read(process: Tid) -> Vec<CodeMapping> {
    let text = kernel_file::read(format!("/proc/{process}/maps")).unwrap_or_default();
    let mapped = maps::code(&text).unwrap_or_default();
    mapped.into_iter().take(MAX_MAPPINGS).map(mapping).collect()
}

fn mapping(code: MappedCode) -> CodeMapping {
    CodeMapping {
        start: code.mapping.start,
        end: code.mapping.end,
        file_offset: code.file_offset,
        device: code.mapping.device,
        inode: code.mapping.inode,
        path: code.name,
    }
}
