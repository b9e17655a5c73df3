//! `memwright --help`: the commands by purpose, on one screen of 80x24.

use clap::Command;
use std::fmt::Write;

/// Commands of one purpose, each with a short description.
type CommandGroup = (&'static str, &'static [(&'static str, &'static str)]);

const GROUPS: &[CommandGroup] = &[
    (
        "know",
        &[
            ("check", "hazards, large requests"),
            ("explain", "rules, holders of memory"),
            ("doctor", "missing requirements"),
            ("top", "live view of memory"),
            ("why", "waits of a command"),
            ("trends", "growth and forecasts"),
            ("capture", "memory state for check"),
        ],
    ),
    (
        "fix",
        &[
            ("fix", "fix findings of check"),
            ("undo", "revert changes"),
            ("changes", "list changes"),
        ],
    ),
    (
        "allocate",
        &[
            ("make-room", "free memory for requests"),
            ("run", "allocate in parallel"),
            ("pool", "memory ready for use"),
            ("iotune", "uncached I/O, by path"),
            ("bench", "measure allocation"),
        ],
    ),
    (
        "record",
        &[
            ("watch", "recorder of stalls"),
            ("incidents", "list recorded stalls"),
            ("report", "show a recorded stall"),
            ("blame", "who took how much time"),
            ("killed", "who killed a process"),
            ("notify", "notification receivers"),
            ("export", "export a recording"),
            ("ship", "shared Parquet data set"),
        ],
    ),
    (
        "cluster",
        &[
            ("fleet", "query many nodes"),
            ("slurm", "drain and resume a node"),
            ("k8s", "conditions of a node"),
            ("heartbeats", "late heartbeats in logs"),
        ],
    ),
    ("develop", &[("lab", "memory failures in VMs")]),
];

/// The help of the program, with the commands that this build has.
pub(super) fn template(command: &Command) -> String {
    let mut text =
        "{about}\n{usage-heading} {usage}; memwright COMMAND --help for its options\n".to_owned();
    for (purpose, all) in GROUPS {
        let is_built = |name: &str| command.get_subcommands().any(|of| of.get_name() == name);
        let built: Vec<_> = all.iter().filter(|(name, _)| is_built(name)).collect();
        for (row, pair) in built.chunks(2).enumerate() {
            let purpose = if row == 0 { purpose } else { "" };
            let _ = write!(text, "\n{purpose:<9}");
            let cells = pair.iter().map(|(name, does)| format!("{name:<10} {does:<25}"));
            text += cells.collect::<String>().trim_end();
        }
    }
    text += "\n\n\
        --config FILE  configuration [/etc/memwright/memwright.toml]   -V  version\n\
        Exit codes: 0 fine, 1 findings, 2 usage, 3 unknown, 4 permission, 5 rolled back";
    text
}

#[cfg(test)]
mod tests {

    #[test]
    fn every_command_is_listed_and_the_help_fits_a_screen() {
        let help = crate::args::command().render_help().to_string();
        for command in crate::args::command().get_subcommands() {
            let name = command.get_name();
            assert!(help.split_whitespace().any(|word| word == name), "{name}: {help}");
        }
        // The first line is folded on a terminal.
        assert!(help.trim_end().lines().count() <= 22, "{help}");
        assert!(help.lines().skip(1).all(|line| line.chars().count() <= 80), "{help}");
    }
}
