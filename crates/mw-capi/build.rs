//! Sets the soname of the shared library, for example `libmemwright.so.0`.

fn main() {
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmemwright.so.{major}");
    println!("cargo::rerun-if-changed=build.rs");
}
