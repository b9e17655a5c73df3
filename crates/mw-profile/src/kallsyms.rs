//! Lines of /proc/kallsyms.

use mw_model::Missing;

pub(crate) const KALLSYMS: &str = "/proc/kallsyms";

/// `ffffffff81e7d5e0 t isolate_migratepages_block.isra.0  [module]`: the address, the name as
/// in the source, and the module, of functions.
pub(crate) fn symbol_of(line: &str) -> Option<(u64, &str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    matches!(words.next()?, "t" | "T" | "w" | "W").then_some(())?;
    let name = words.next()?;
    // `.isra.0`, `.constprop.1`, `.part.2`, `.cold`: what the compiler made of it.
    let plain = name.split('.').next().filter(|plain| !plain.is_empty());
    let module = words.next().unwrap_or_default().trim_matches(['[', ']']);
    Some((address, plain.unwrap_or(name), module))
}

/// Of two names of one address, the one with fewer underscores in front.
pub(crate) fn plainer(name: &str, than: &str) -> bool {
    let underscores = |name: &str| name.len() - name.trim_start_matches('_').len();
    underscores(name) < underscores(than)
}

pub(crate) fn hidden() -> Missing {
    Missing::skipped(
        KALLSYMS,
        "addresses are hidden, so kernel functions have no names: needs CAP_SYSLOG where \
         kernel.kptr_restrict is 1 (2 hides them from everybody)",
    )
}
