//! Features of a build, for `--version` and for commands that it lacks.

use std::sync::OnceLock;

/// Features that bring a command of the same name, and whether this build has them.
pub(super) const FEATURES: [(&str, bool); 2] =
    [("lab", cfg!(feature = "lab")), ("ship", cfg!(feature = "ship"))];

/// The version, and in a second line the features that the program was built with and without.
pub(super) fn version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let signs =
            FEATURES.map(|(name, built)| format!("{}{name}", if built { '+' } else { '-' }));
        format!("{}\nfeatures: {}", env!("CARGO_PKG_VERSION"), signs.join(" "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_version_and_the_second_names_every_feature() {
        let (first, second) = version().split_once('\n').unwrap();
        assert_eq!(first, env!("CARGO_PKG_VERSION"));
        let manifest = include_str!("../../Cargo.toml");
        let full = manifest.lines().find_map(|line| line.strip_prefix("full = [")).unwrap();
        let wanted = full.trim_end_matches(']').split(", ").map(|name| name.trim_matches('"'));
        let named: Vec<&str> = second.split(' ').skip(1).map(|word| &word[1..]).collect();
        assert_eq!(named, wanted.collect::<Vec<_>>());
        assert_eq!(second.contains("+ship"), cfg!(feature = "ship"));
        assert_eq!(second.contains("-lab"), !cfg!(feature = "lab"));
    }
}
