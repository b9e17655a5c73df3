//! Which library this is.

use std::ffi::{CStr, c_char};

/// With the zero byte that C wants.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The version of the running library, such as "0.1.0", which may be newer than the header that a
/// program was compiled with (MW_VERSION).
///
/// Returns: a static text.
/// Threads: may be called from any thread.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a name for C")]
pub extern "C" fn mw_version() -> *const c_char {
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn it_is_the_crates() {
        assert_eq!(VERSION.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    }
}
