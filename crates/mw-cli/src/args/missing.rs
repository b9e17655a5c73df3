//! Commands that this build lacks.

use super::features::FEATURES;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Message for an error about a command that this build lacks: similar names lead nowhere.
pub(crate) fn explain(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(name) => lacking(name, &FEATURES),
        _ => None,
    }
}

fn lacking(name: &str, features: &[(&str, bool)]) -> Option<String> {
    let (name, _) = features.iter().find(|(known, built)| *known == name && !built)?;
    Some(format!(
        "this build has no command '{name}': build it with 'cargo build --release -p mw-cli --features \
         {name}' (all commands: --features full)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_command_that_is_lacking_says_how_to_get_it() {
        let optional = [("watch", false), ("run", true)];
        let line = lacking("watch", &optional).unwrap();
        assert!(line.contains("'watch'") && line.contains("--features watch"), "{line}");
        assert_eq!(lacking("run", &optional), None);
        assert_eq!(lacking("unod", &optional), None);
    }

    #[test]
    fn the_list_says_what_this_build_has() {
        let command = crate::args::Args::command();
        let there: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        for (name, built) in FEATURES {
            assert_eq!(there.contains(&name), built, "{name}");
        }
    }

    #[test]
    fn clap_names_the_command_that_it_does_not_know() {
        let error = crate::args::Args::command().try_get_matches_from(["memwright", "unod"]);
        let error = error.unwrap_err();
        let name = error.get(ContextKind::InvalidSubcommand);
        assert!(matches!(name, Some(ContextValue::String(name)) if name == "unod"), "{error}");
    }
}
