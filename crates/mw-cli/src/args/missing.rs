//! Commands that this build lacks.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// A command that a feature brings: its name, the feature, and whether it is there.
type Optional = (&'static str, &'static str, bool);

const OPTIONAL: &[Optional] = &[
    ("doctor", "doctor", cfg!(feature = "doctor")),
    ("run", "run", cfg!(feature = "run")),
    ("iotune", "run", cfg!(feature = "run")),
    ("pool", "pool", cfg!(feature = "pool")),
    ("watch", "watch", cfg!(feature = "watch")),
    ("incidents", "watch", cfg!(feature = "watch")),
    ("report", "watch", cfg!(feature = "watch")),
    ("export", "watch", cfg!(feature = "watch")),
    ("heartbeats", "watch", cfg!(feature = "watch")),
    ("ship", "ship", cfg!(feature = "ship")),
    ("notify", "watch", cfg!(feature = "watch")),
    ("trends", "watch", cfg!(feature = "watch")),
    ("fleet", "fleet", cfg!(feature = "fleet")),
    ("k8s", "fleet", cfg!(feature = "fleet")),
    ("top", "top", cfg!(feature = "top")),
    ("lab", "lab", cfg!(feature = "lab")),
    ("why", "why", cfg!(feature = "why")),
];

/// Message for an error about a command that this build lacks: similar names lead nowhere.
pub(crate) fn explain(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(name) => lacking(name, OPTIONAL),
        _ => None,
    }
}

fn lacking(name: &str, optional: &[Optional]) -> Option<String> {
    let (name, feature, _) = optional.iter().find(|(known, _, there)| *known == name && !there)?;
    Some(format!(
        "this build has no command '{name}': build it with 'cargo build --release -p mw-cli --features \
         {feature}' (all commands: --features full)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_command_that_is_lacking_says_how_to_get_it() {
        let optional = [("watch", "watch", false), ("run", "run", true)];
        let line = lacking("watch", &optional).unwrap();
        assert!(line.contains("'watch'") && line.contains("--features watch"), "{line}");
        assert_eq!(lacking("run", &optional), None);
        assert_eq!(lacking("unod", &optional), None);
    }

    #[test]
    fn the_list_says_what_this_build_has() {
        let command = crate::args::Args::command();
        let there: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        for (name, _, built) in OPTIONAL {
            assert_eq!(there.contains(name), *built, "{name}");
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
