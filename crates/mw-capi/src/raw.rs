//! Conversions at the interface: panics end here, and pointers become references.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The maximum number of nodes: the kernel's own limit (`MAX_NUMNODES`).
const MAX_NODES: usize = 1024;

/// The result of `body`, or `otherwise` if it panics. What it was changing may be inconsistent but is
/// memory-safe, and C can only free it.
pub(crate) fn guard<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// A string for C; zero bytes in it become spaces.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// A string from C.
///
/// # Safety
/// `text` is NULL, or ends with a zero byte and is not written to while the result is used.
#[allow(unsafe_code, reason = "a string from C")]
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, String> {
    if text.is_null() {
        return Err("it is NULL (pass a string)".to_owned());
    }
    // SAFETY: not NULL; the caller guarantees the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| format!("{text:?} is not UTF-8"))
}

/// Node numbers from C.
///
/// # Safety
/// `nodes` is NULL, or aligned for uint32_t and points to `count` of them, which are not written
/// to while the result is used.
#[allow(unsafe_code, reason = "an array from C")]
pub(crate) unsafe fn nodes<'a>(nodes: *const u32, count: usize) -> Result<&'a [u32], String> {
    if nodes.is_null() || count == 0 {
        return Err("no nodes (/sys/devices/system/node/online lists them)".into());
    }
    if count > MAX_NODES {
        return Err(format!("too many nodes: {count} (at most {MAX_NODES})"));
    }
    // SAFETY: not NULL and bounded; the caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(nodes, count) })
}

#[cfg(test)]
#[allow(unsafe_code, reason = "calls unsafe functions")]
mod tests {
    use super::*;

    /// Promise (C interface): No panic crosses the C interface.
    #[test]
    fn a_panic_does_not_cross_the_interface() {
        assert_eq!(guard(7, || panic!("expected by this test")), 7);
        assert_eq!(guard(7, || 8), 8);
    }

    #[test]
    fn null_and_invalid_utf8_are_errors() {
        // SAFETY: NULL, and texts that end with a zero byte.
        let texts = [std::ptr::null(), c"\xff".as_ptr(), c"name".as_ptr()]
            .map(|pointer| unsafe { text(pointer) });
        assert!(texts[0].is_err() && texts[1].is_err());
        assert_eq!(texts[2], Ok("name"));
        let numbers = [3, 5];
        // SAFETY: NULL, or two numbers; more than MAX_NODES are an error and not read.
        let lists = [(std::ptr::null(), 2), (numbers.as_ptr(), 0), (numbers.as_ptr(), 1 << 40)]
            .map(|(pointer, count)| unsafe { nodes(pointer, count) });
        assert!(lists.iter().all(Result::is_err), "{lists:?}");
        // SAFETY: two numbers.
        assert_eq!(unsafe { nodes(numbers.as_ptr(), 2) }, Ok(&numbers[..]));
    }
}
