//! Names of functions as their programmers wrote them.

use std::fmt::{self, Write};

/// Characters of a name that are kept.
const MAX_CHARACTERS: usize = 200;
/// Bytes of a mangled name; longer ones are cut and not demangled.
const MAX_MANGLED: usize = 4 << 10;
/// Depth of a C++ name, within the stack of the thread.
const MAX_DEPTH: u32 = 64;

/// The beginning of a name.
pub(crate) fn cut(name: &str) -> String {
    name.chars().take(MAX_CHARACTERS).collect()
}

/// A name of Rust, C++ or another language, without its hash and its parameters.
pub(crate) fn demangled(mangled: &str) -> String {
    if mangled.len() > MAX_MANGLED {
        return cut(mangled);
    }
    let mut name = CutText::default();
    if let Ok(rust) = rustc_demangle::try_demangle(mangled) {
        // It ends early where the text is full.
        let _ = write!(name, "{rust:#}");
    } else if !cpp(mangled, &mut name) {
        return cut(mangled);
    }
    name.text
}

fn cpp(mangled: &str, into: &mut CutText) -> bool {
    if !mangled.starts_with("_Z") {
        return false;
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
    let options = cpp_demangle::DemangleOptions::default()
        .recursion_limit(MAX_DEPTH)
        .no_params()
        .no_return_type();
    let Ok(symbol) = cpp_demangle::Symbol::new_with_options(mangled, &parse) else { return false };
    symbol.structured_demangle(into, &options).is_ok() || into.is_full
}

/// A text that takes no more than [`MAX_CHARACTERS`].
#[derive(Debug, Default)]
struct CutText {
    text: String,
    characters: usize,
    is_full: bool,
}

impl Write for CutText {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for character in part.chars() {
            if self.characters >= MAX_CHARACTERS {
                self.is_full = true;
                return Err(fmt::Error);
            }
            self.characters += 1;
            self.text.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_they_were_written() {
        for (mangled, name) in [
            ("munmap", "munmap"),
            ("_ZN4serv5Cache6insert17h0123456789abcdefE", "serv::Cache::insert"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_ZN5Cache6insertEiPKc", "Cache::insert"),
            ("_ZNSt6vectorIiSaIiEE7reserveEm", "std::vector<int, std::allocator<int> >::reserve"),
            ("main.(*Cache).insert", "main.(*Cache).insert"),
            ("_Znonsense", "_Znonsense"),
        ] {
            assert_eq!(demangled(mangled), name, "{mangled}");
        }
    }

    /// On a stack as small as the one of the thread that names functions.
    #[test]
    fn hostile_names_are_cut() {
        let nested = format!("_Z1fI{}iE{}vv", "St6vectorI".repeat(400), "E".repeat(400));
        let pointers = format!("_Z1f{}i", "P".repeat(4000));
        let names = [nested, pointers, "_Z".to_owned() + &"N".repeat(4000), "x".repeat(1 << 20)];
        let spawned = std::thread::Builder::new().stack_size(crate::naming::STACK_BYTES);
        let thread = spawned.spawn(move || names.map(|name| demangled(&name).chars().count()));
        assert!(thread.unwrap().join().unwrap().into_iter().all(|count| count <= MAX_CHARACTERS));
    }
}
