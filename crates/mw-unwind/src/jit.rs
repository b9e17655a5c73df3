//! `perf-PID.map`: names of the functions that a run-time has compiled (Linux, tools/perf/Documentation/jit-interface.txt).

use crate::elf::ReadBudget;
use mw_proc::status;
use mw_sys::{guarded, kernel_file};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a map that are read, and functions that are kept.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FUNCTIONS: usize = 1 << 20;

/// Names of the functions at these addresses, from the map that the run-time of a process has written. It must be a file
/// of the process's own user.
pub(crate) fn compiled_names(
    process: u32,
    addresses: &[u64],
    budget: &ReadBudget,
) -> Vec<Option<String>> {
    let mut names = vec![None; addresses.len()];
    let Some(map) = open(process) else { return names };
    let lines = BufReader::new(map.take(budget.left_bytes().min(MAX_BYTES)))
        .split(b'\n')
        .take(MAX_FUNCTIONS);
    for line in lines.map_while(Result::ok) {
        let Some((begin, bytes, name)) = function(&line) else { continue };
        for (address, slot) in addresses.iter().zip(&mut names) {
            // The last one stands: earlier ones may have been compiled anew.
            if address.checked_sub(begin).is_some_and(|offset| offset < bytes) {
                *slot = Some(name.to_owned());
            }
        }
    }
    names
}

fn open(process: u32) -> Option<std::fs::File> {
    let status = kernel_file::read(format!("/proc/{process}/status")).ok()?;
    let status = status::Status::parse(&status).ok()?;
    let number = status.inner_pid.or(status.pid)?;
    let path = format!("/proc/{process}/root/tmp/perf-{number}.map");
    let map = guarded::open(Path::new(&path)).ok()?;
    let owner = map.metadata().ok()?.uid();
    (owner == 0 || Some(owner) == status.uid).then_some(map)
}

/// Beginning and size in hexadecimal, and the name. Python's has a file as well: `py::function:/path/of/file.py`.
fn function(line: &[u8]) -> Option<(u64, u64, &str)> {
    let line = str::from_utf8(line).ok()?;
    let mut columns = line.splitn(3, ' ');
    let mut number = || u64::from_str_radix(columns.next()?.trim_start_matches("0x"), 16).ok();
    let (begin, bytes) = (number()?, number()?);
    let name = columns.next()?;
    let python = name.strip_prefix("py::").map(|name| name.split(':').next().unwrap_or(name));
    Some((begin, bytes, python.unwrap_or(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_map() {
        assert_eq!(
            function(b"7f00 20 LazyCompile:~f a.js:1"),
            Some((0x7f00, 0x20, "LazyCompile:~f a.js:1"))
        );
        assert_eq!(
            function(b"0x7f00 20 py::resize:/app/secret.py"),
            Some((0x7f00, 0x20, "resize"))
        );
        for none in [&b"7f00"[..], b"", b"7f00 20", b"zz 20 f", b"7f00 20 \xff"] {
            assert_eq!(function(none), None);
        }
    }

    #[test]
    fn the_map_of_this_process_is_read() {
        let path = format!("/tmp/perf-{}.map", std::process::id());
        let budget = ReadBudget::new(MAX_BYTES);
        std::fs::write(&path, "1000 10 first\n1000 20 later\nnoise\n").unwrap();
        let names = compiled_names(std::process::id(), &[0x1005, 0x101f, 0x1020], &budget);
        std::fs::remove_file(&path).unwrap();
        let later = Some("later".to_owned());
        assert_eq!(names, [later.clone(), later, None]);
        assert_eq!(compiled_names(std::process::id(), &[0x1005], &budget), [None]);
    }
}
