//! Whether the library can be loaded into a program, and how.

use super::elf::ExecutableKind;
use super::library::Library;
use super::needed;
use super::program::Executable;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

pub(super) const PRELOAD: &str = "LD_PRELOAD";

/// Whether the library can be loaded into the program.
pub(super) fn fits(program: &Executable, library: &Library) -> Result<(), String> {
    match &program.kind {
        ExecutableKind::Dynamic(machine) if *machine != library.machine => {
            Err(format!("built for another architecture than {}", library.path.display()))
        }
        ExecutableKind::Dynamic(_) => {
            let runs = program.interpreter.as_ref().unwrap_or(&program.path);
            match needed::first(runs).filter(|_| !is_preloaded_first(std::env::var_os(PRELOAD))) {
                Some(first) => Err(format!(
                    "it is made with AddressSanitizer, which has no library loaded before its own; \
                     to run it with both, start memwright with {PRELOAD}={first}"
                )),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// True if what is to be loaded already begins with a library that must be first.
fn is_preloaded_first(before: Option<OsString>) -> bool {
    let before = before.unwrap_or_default();
    let first = before.as_encoded_bytes().split(|byte| matches!(byte, b':' | b' ')).next();
    first.is_some_and(needed::is_first)
}

/// The library before whatever was to be loaded already, once, but behind what must be first.
pub(super) fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    let Some(before) = before.filter(|before| !before.is_empty()) else { return all };
    let named = before.as_encoded_bytes().split(|byte| matches!(byte, b':' | b' '));
    if named.into_iter().any(|name| name == library.as_os_str().as_encoded_bytes()) {
        return before;
    }
    if is_preloaded_first(Some(before.clone())) {
        let bytes = before.as_encoded_bytes();
        let end = bytes.iter().position(|byte| matches!(byte, b':' | b' ')).unwrap_or(bytes.len());
        let (first, rest) = bytes.split_at(end);
        let own = library.as_os_str().as_encoded_bytes();
        return OsString::from_vec([first, b":", own, rest].concat());
    }
    all.push(":");
    all.push(before);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_to_be_loaded_stays_and_nothing_is_loaded_twice() {
        let library = Path::new("/lib/a.so");
        for (before, after) in [
            (None, "/lib/a.so"),
            (Some(""), "/lib/a.so"),
            (Some("/lib/b.so"), "/lib/a.so:/lib/b.so"),
            (Some("/lib/b.so:/lib/a.so"), "/lib/b.so:/lib/a.so"),
            (Some("/lib/b.so /lib/a.so"), "/lib/b.so /lib/a.so"),
            (Some("/lib/a.so.1"), "/lib/a.so:/lib/a.so.1"),
            (Some("libasan.so.8"), "libasan.so.8:/lib/a.so"),
            (Some("/x/libasan.so.8 /lib/b.so"), "/x/libasan.so.8:/lib/a.so /lib/b.so"),
        ] {
            assert_eq!(preload(library, before.map(OsString::from)), after, "{before:?}");
        }
    }
}
