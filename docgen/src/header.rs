//! The C header of mw-capi, generated from its source.

use crate::workspace::root;
use anyhow::Context;
use cbindgen::{Config, DocumentationStyle, Language, Style};

/// The files of crates/mw-capi/src that C sees, in the order of the header.
const FILES: [&str; 9] =
    ["version", "status", "kind", "error", "cancel", "progress", "options", "segment", "pool"];

/// The comment at the top of the header.
const HEAD: &str = "\
/*
 * memwright.h: large segments of memory, created, locked and destroyed in parallel, and populated
 * memory leased from a pool.
 *
 * Generated from crates/mw-capi by 'cargo xtask docs'. License: Apache-2.0 OR MIT.
 *
 *     cc program.c $(pkg-config --cflags --libs memwright)
 *
 * Rules for every function:
 *
 * NULL and invalid numbers are errors, never followed. Enumerations are passed as int.
 *
 * Sizes are in bytes and times in nanoseconds, as their names say.
 *
 * The program frees the handles that it creates: mw_options_free(), mw_cancel_free(),
 * mw_error_free(), mw_segment_destroy(), mw_pool_detach(). Texts and structures that a function
 * returns are owned by the handle that they were read from. Arguments are copied.
 *
 * Functions may be called from any thread. Several threads may read one handle at the same time;
 * while one thread changes or frees it, no other may use it. 'Threads' describes exceptions.
 *
 * No function reports errors by errno(3), installs a signal handler, or leaves a thread behind.
 * After fork(2) a child may call all of them.
 */";

pub(crate) fn text() -> anyhow::Result<Vec<u8>> {
    let source = root().join("crates/mw-capi/src");
    let builder = FILES.iter().fold(cbindgen::Builder::new(), |builder, file| {
        builder.with_src(source.join(file).with_extension("rs"))
    });
    let bindings = builder.with_config(config()).generate().context("cbindgen")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(text)
}

fn config() -> Config {
    Config {
        language: Language::C,
        cpp_compat: true,
        header: Some(HEAD.to_owned()),
        include_guard: Some("MEMWRIGHT_H".to_owned()),
        no_includes: true,
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).into(),
        after_includes: Some(version()),
        style: Style::Both,
        usize_is_size_t: true,
        line_length: 100,
        documentation_style: DocumentationStyle::Doxy,
        ..Config::default()
    }
}

/// The version as macros; mw-capi has the workspace's version, as this crate has.
fn version() -> String {
    let [major, minor, patch] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    format!(
        "\n/** The version of this header; mw_version() is that of the library. */\n\
         #define MW_VERSION \"{major}.{minor}.{patch}\"\n\
         #define MW_VERSION_MAJOR {major}\n\
         #define MW_VERSION_MINOR {minor}\n\
         #define MW_VERSION_PATCH {patch}"
    )
}
