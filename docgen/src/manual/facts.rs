//! What clap does not know of a command, for its man page: examples, the meaning of its exit codes, related pages.

/// The page of a command that does something itself; those of groups have none of this.
pub(super) struct CommandFacts {
    /// As on the command line, without `memwright`.
    pub(super) command: &'static str,
    /// Command lines, each with what it does.
    pub(super) examples: &'static [(&'static str, &'static str)],
    /// The meaning of exit code 1, where the command ends with it.
    pub(super) found: Option<&'static str>,
    /// Exit codes beyond those of all commands, in the order in which they are listed.
    pub(super) more_exits: &'static [(&'static str, &'static str)],
    /// Commands to see too, beside those of the same group.
    pub(super) related: &'static [&'static str],
}

/// Exit codes of all commands.
pub(super) const SUCCESS: (&str, &str) = ("0", "Success.");
pub(super) const FAILURES: [(&str, &str); 3] = [
    ("2", "The command line or the configuration is wrong."),
    ("3", "The machine, or a file that was named, could not be checked or read."),
    ("4", "A permission is missing; the command that works is printed."),
];

const ROLLED_BACK: (&str, &str) = ("5", "A change failed, and those made before it were reverted.");
const OF_THE_COMMAND: (&str, &str) =
    ("others", "That of COMMAND, or 128 and the number of the signal that ended it.");
const NOT_STARTED: (&str, &str) = ("126, 127", "COMMAND cannot be executed, or was not found.");

const fn facts(
    command: &'static str,
    examples: &'static [(&'static str, &'static str)],
    found: Option<&'static str>,
    more_exits: &'static [(&'static str, &'static str)],
    related: &'static [&'static str],
) -> CommandFacts {
    CommandFacts { command, examples, found, more_exits, related }
}

pub(super) const FACTS: &[CommandFacts] = &[
    facts(
        "check",
        &[
            ("memwright check", "What is wrong with this machine's memory, the worst first."),
            (
                "memwright check --for 32G,lock,huge=2M",
                "Whether 32 GiB of locked huge pages are available, and how long they take.",
            ),
            (
                "memwright check --root machine.tar.zst",
                "The same of another machine, from a capture.",
            ),
            ("memwright check --format nagios", "As a plugin of a monitoring system."),
        ],
        Some("There is a finding at or above --fail-on, or the request would fail."),
        &[("With --format nagios", "0 is OK, 1 WARNING, 2 CRITICAL and 3 UNKNOWN.")],
        &["fix", "explain", "make-room", "capture"],
    ),
    facts(
        "doctor",
        &[(
            "sudo memwright doctor",
            "What memwright lacks on this machine, with the command that turns it on.",
        )],
        Some("Something is missing."),
        &[],
        &["watch"],
    ),
    facts(
        "capture",
        &[
            ("sudo memwright capture", "Writes memwright-TIME.tar.zst in the current directory."),
            (
                "sudo memwright capture --redact -o machine.tar.zst",
                "Without the names of mounts and cgroups.",
            ),
        ],
        None,
        &[],
        &["check", "explain"],
    ),
    facts(
        "explain",
        &[
            (
                "memwright explain fragmented-node",
                "What a rule finds, why it hurts and how to fix it.",
            ),
            ("sudo memwright explain --all-memory", "Where all memory of the machine is."),
        ],
        None,
        &[],
        &["check", "fix"],
    ),
    facts(
        "fix",
        &[
            ("sudo memwright fix --dry-run", "What would be changed."),
            ("sudo memwright fix", "Changes it, and checks that it helped."),
            (
                "sudo memwright fix zone-reclaim --persist",
                "Fixes what one rule finds, also after a reboot.",
            ),
        ],
        Some("A finding remains, or a named rule could not be checked."),
        &[ROLLED_BACK],
        &["check", "undo", "changes"],
    ),
    facts(
        "undo",
        &[
            ("sudo memwright undo", "Reverts all changes."),
            ("sudo memwright undo 3", "Reverts change 3, as memwright-changes(1) numbers it."),
        ],
        Some("A value that somebody else has changed since was left as it is."),
        &[("5", "A change could not be reverted.")],
        &["fix", "changes"],
    ),
    facts(
        "changes",
        &[("memwright changes", "The changes that are in force, and those that were reverted.")],
        None,
        &[],
        &["fix", "undo"],
    ),
    facts(
        "make-room",
        &[
            ("memwright make-room 16G,huge=2M --dry-run", "The steps, and what each would gain."),
            (
                "sudo memwright make-room 16G,huge=2M -- /usr/local/bin/database",
                "Makes room, and runs a command that takes it.",
            ),
        ],
        Some("The request cannot be reached; nothing was changed."),
        &[ROLLED_BACK, OF_THE_COMMAND],
        &["check", "undo"],
    ),
    facts(
        "slurm health",
        &[("memwright slurm health --dry-run", "Whether this node would be drained, and why.")],
        Some("A hazard drains the node, or keeps it drained."),
        &[],
        &["check", "make-room"],
    ),
    facts(
        "slurm prolog",
        &[(
            "memwright slurm prolog --make-room 16G,huge=2M",
            "Makes room before a job, in PrologSlurmctld or Prolog.",
        )],
        None,
        &[("always", "0: Slurm drains the node of a prolog that fails.")],
        &["make-room"],
    ),
    facts(
        "fleet room",
        &[("memwright fleet room 32G,huge=2M --nodes db[1-8]", "Which nodes can provide this.")],
        Some("No node can provide it."),
        &[],
        &["check"],
    ),
    facts(
        "fleet drift",
        &[("memwright fleet drift --nodes db[1-8]", "Which settings differ, and where.")],
        Some("Nodes differ."),
        &[],
        &[],
    ),
    facts(
        "fleet incidents",
        &[(
            "memwright fleet incidents --nodes db[1-8]",
            "What stalled at the same time on several nodes.",
        )],
        None,
        &[],
        &["incidents"],
    ),
    facts(
        "fleet report",
        &[(
            "memwright fleet report --nodes db[1-8] -o week.html",
            "The stalls of a week on a page.",
        )],
        None,
        &[],
        &["report"],
    ),
    facts(
        "fleet facts",
        &[("memwright fleet facts", "What other nodes are compared with.")],
        None,
        &[],
        &[],
    ),
    facts(
        "k8s condition",
        &[("memwright k8s condition --dry-run", "The conditions that the node would get.")],
        Some("With --dry-run: a condition is true."),
        &[],
        &["check"],
    ),
    facts(
        "bench",
        &[("memwright bench --size 4G", "The time of creating, locking and destroying 4 GiB.")],
        Some("The memory is not available."),
        &[("5", "Interrupted; all memory was released.")],
        &["run", "check"],
    ),
    facts(
        "run",
        &[
            (
                "memwright run -- postgres -D /srv/db",
                "With its large memory populated and locked in parallel.",
            ),
            (
                "memwright run --explain -- postgres",
                "What would be done, and what keeps it from being done.",
            ),
            (
                "memwright run --direct-io 64k --stats -- cp large.img /backup/large.img",
                "A copy that leaves the page cache as it is.",
            ),
        ],
        None,
        &[NOT_STARTED, OF_THE_COMMAND],
        &["iotune", "pool", "bench"],
    ),
    facts(
        "iotune show",
        &[("memwright iotune show", "The settings, and what running programs do with them.")],
        None,
        &[],
        &["run"],
    ),
    facts(
        "iotune set",
        &[(
            "sudo memwright iotune set /backup discovered_direct_iosz=64k",
            "Keeps writes of 64 KiB and more below /backup out of the page cache.",
        )],
        None,
        &[],
        &["run"],
    ),
    facts(
        "iotune unset",
        &[("sudo memwright iotune unset /backup", "Removes the setting.")],
        None,
        &[],
        &["run"],
    ),
    facts(
        "iotune save",
        &[("sudo memwright iotune save", "Keeps the settings across reboots.")],
        None,
        &[],
        &["run"],
    ),
    facts(
        "pool serve",
        &[("memwright pool serve --budget 24G", "As memwright-pool.service runs it.")],
        None,
        &[],
        &["run"],
    ),
    facts(
        "pool create",
        &[(
            "sudo memwright pool create db --size 16G --huge 2M --owner postgres",
            "A pool for the user postgres.",
        )],
        Some("The pool server has no room for it."),
        &[],
        &["run"],
    ),
    facts(
        "pool list",
        &[("memwright pool list", "The pools, and how much of each is ready.")],
        None,
        &[],
        &[],
    ),
    facts("pool stats", &[("memwright pool stats", "With leases and counters.")], None, &[], &[]),
    facts(
        "pool grow",
        &[("sudo memwright pool grow db 24G", "To 24 GiB.")],
        Some("The pool server has no room for it."),
        &[],
        &[],
    ),
    facts("pool shrink", &[("sudo memwright pool shrink db 8G", "To 8 GiB.")], None, &[], &[]),
    facts(
        "pool release",
        &[("sudo memwright pool release db", "Releases the memory that is kept for nobody.")],
        None,
        &[],
        &[],
    ),
    facts("pool remove", &[("sudo memwright pool remove db", "Removes the pool.")], None, &[], &[]),
    facts(
        "watch",
        &[
            (
                "memwright watch --probe db=postgres://monitor@localhost/postgres",
                "Records, and explains each stall of the database.",
            ),
            ("sudo memwright watch --now", "Has the running recorder take evidence."),
            (
                "memwright watch --check-config",
                "Whether the configuration is valid, before a reload.",
            ),
        ],
        None,
        &[],
        &["incidents", "report", "trends", "notify", "top"],
    ),
    facts(
        "incidents",
        &[
            ("sudo memwright incidents", "The recorded stalls."),
            (
                "sudo memwright incidents --since 2d --cause oom-kill",
                "Of two days, those of one cause.",
            ),
        ],
        None,
        &[],
        &["watch", "report"],
    ),
    facts(
        "report",
        &[
            ("sudo memwright report last", "The latest incident."),
            (
                "sudo memwright report worst -o incident.html",
                "The one with the slowest answer, as a page.",
            ),
        ],
        None,
        &[],
        &["watch", "incidents", "export"],
    ),
    facts(
        "blame",
        &[
            ("sudo memwright blame", "Who lost time in the stalls of the last day, and to whom."),
            ("sudo memwright blame --since 7d --json", "The same of a week, for programs."),
        ],
        None,
        &[],
        &["watch", "incidents", "report"],
    ),
    facts(
        "killed",
        &[
            ("sudo memwright killed postgres", "Who killed the last process of postgres, and why."),
            ("sudo memwright killed --since 7d", "All kills of a week."),
        ],
        None,
        &[],
        &["watch", "incidents", "explain"],
    ),
    facts(
        "heartbeats",
        &[("sudo memwright heartbeats --since 2d", "Late heartbeats, and what stalled then.")],
        Some("Lines were found."),
        &[],
        &["watch", "report"],
    ),
    facts(
        "ship",
        &[("sudo memwright ship --to s3://fleet/memwright", "Adds what is new to the data set.")],
        None,
        &[],
        &["watch", "export"],
    ),
    facts(
        "trends",
        &[(
            "sudo memwright trends --since 7d",
            "What grows steadily, and when memory or a limit is full.",
        )],
        Some("Something grows steadily or runs out."),
        &[],
        &["watch", "check"],
    ),
    facts(
        "notify",
        &[
            ("sudo memwright notify", "The receivers of the configuration."),
            ("sudo memwright notify --test", "Sends each of them a message."),
        ],
        Some("A receiver was not reached."),
        &[],
        &["watch"],
    ),
    facts(
        "top",
        &[
            ("sudo memwright top", "This machine, live."),
            (
                "sudo memwright top --recording /var/lib/memwright/recording.db",
                "Any moment of the recording.",
            ),
        ],
        None,
        &[],
        &["watch", "report"],
    ),
    facts(
        "export",
        &[
            ("sudo memwright export --to memory.csv --since 2h", "The counters of two hours."),
            (
                "sudo memwright export --incident last --to stall.collapsed",
                "Kernel stacks, for a flame graph.",
            ),
        ],
        None,
        &[],
        &["watch", "report", "ship"],
    ),
    facts(
        "why",
        &[(
            "sudo memwright why -- make",
            "The time of a command, divided into what it waited for.",
        )],
        None,
        &[NOT_STARTED, OF_THE_COMMAND],
        &["watch"],
    ),
    facts(
        "lab",
        &[("memwright lab fragmented-node", "Plays a case in a virtual machine.")],
        Some("A case did not pass."),
        &[],
        &["check", "fix"],
    ),
];
