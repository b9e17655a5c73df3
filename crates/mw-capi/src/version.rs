//! The version of the library.

use std::ffi::{CStr, c_char};

/// Ends with a zero byte.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The version of the running library, such as "0.2.0", which may be newer than the header that a
/// program was compiled with (MW_VERSION).
///
/// Returns: a static text.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "an exported C function")]
pub extern "C" fn mw_version() -> *const c_char {
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn version_is_that_of_the_crate() {
        assert_eq!(VERSION.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    }
}
