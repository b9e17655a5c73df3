//! Environment variables, read without the lock and the allocations of the standard library's functions.
//! Used only while the library is loaded, when the program has no other thread.

use std::ffi::{CStr, c_char};
use std::str::FromStr;

/// The value of a variable. The slice must not be kept: programs overwrite their environment
/// (setproctitle).
pub(crate) fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: no other thread of the program runs while its libraries are loaded, and the value is
    // not used after that (getenv(3)).
    #[allow(unsafe_code, reason = "std takes a lock and allocates")]
    let value: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment ends with a zero byte.
    #[allow(unsafe_code, reason = "std takes a lock and allocates")]
    let text = unsafe { CStr::from_ptr(value) };
    Some(text.to_bytes())
}

/// The value of a variable, in place: processes that are started later inherit what is written here.
pub(crate) fn variable_mut(name: &CStr) -> Option<&'static mut [u8]> {
    // SAFETY: as in `variable`.
    #[allow(unsafe_code, reason = "std takes a lock and allocates")]
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a string of the environment ends with a zero byte.
    #[allow(unsafe_code, reason = "std takes a lock and allocates")]
    let length = unsafe { libc::strlen(value) };
    // SAFETY: strings of the environment lie in writable memory of the program, and nothing else
    // reads them while its libraries are loaded (environ(7)).
    #[allow(unsafe_code, reason = "no safe wrapper exists")]
    Some(unsafe { std::slice::from_raw_parts_mut(value.cast(), length) })
}

pub(crate) fn is_set_to(name: &CStr, value: &[u8]) -> bool {
    variable(name) == Some(value)
}

/// The value of a variable as a number in decimal digits.
pub(crate) fn number<T: FromStr>(name: &CStr) -> Option<T> {
    variable(name).and_then(parse_number)
}

fn parse_number<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decimal_digits_are_a_number() {
        assert_eq!(parse_number(b"1048576"), Some(1_usize << 20));
        for text in [&b""[..], b"1M", b"-1", b"99999999999999999999", b"\xff"] {
            assert_eq!(parse_number::<usize>(text), None);
        }
    }
}
