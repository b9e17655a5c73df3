# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_memwright_global_optspecs
    string join \n config= h/help V/version
end

function __fish_memwright_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_memwright_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_memwright_using_subcommand
    set -l cmd (__fish_memwright_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c memwright -n "__fish_memwright_needs_command" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_needs_command" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_needs_command" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "check" -d 'Check for conditions that make large allocations stall or fail'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "doctor" -d 'Check the kernel features and privileges that memwright needs, and show how to enable them'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "capture" -d 'Save the kernel\'s memory state to a file for check --root'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "explain" -d 'Show a rule\'s page, or what holds the machine\'s memory'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "fix" -d 'Fix what check finds, verify that it helped, and record how to revert it'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "undo" -d 'Revert changes to the exact former values'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "changes" -d 'List the changes that fix made, and their state'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "make-room" -d 'Make memory available for a large request, within cost limits'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "slurm" -d 'Drain this Slurm node while it has a hazard; free memory before jobs'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "fleet" -d 'Query many nodes: available memory, configuration drift, incidents'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "k8s" -d 'Report the hazards of this node to Kubernetes'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "bench" -d 'Measure creating, locking and destroying large memory, with and without memwright'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "run" -d 'Run a command so that its large memory is populated, locked and freed in parallel'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "iotune" -d 'Keep large and sequential I/O out of the page cache, per path'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "pool" -d 'Keep pools of populated, locked and zeroed memory ready for programs that restart'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "watch" -d 'Record memory counters, detect stalls and find their causes'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "incidents" -d 'List recorded incidents'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "report" -d 'Show an incident: the stall, its cause, how to fix it, and the evidence'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "blame" -d 'Show who lost time in stalls, and to whom: the own limit, a neighbour, a device, the kernel'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "killed" -d 'Show which program or part of the kernel killed a process, and why'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "heartbeats" -d 'Find late heartbeats in cluster logs, and the stall behind each'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "ship" -d 'Ship the recording to a shared Parquet data set in a directory or in S3'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "trends" -d 'Find steady memory growth, and forecast when memory or a limit is full'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "notify" -d 'List the receivers of notifications, and test whether messages arrive'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "top" -d 'Show memory in the terminal: this machine live, or any moment of a recording'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "export" -d 'Export a recording or an incident: Parquet, CSV, JSON, profiles'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "lab" -d 'Run memory failures on real kernels in virtual machines: create, find, fix, revert'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "why" -d 'Trace a command or a running process, and report what it waited for'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand check" -l for -d 'Also check whether this much memory is available: SIZE[,lock][,huge=2M|1G|thp][,page=16k..1M|best][,node=N]' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l pool -d 'Check whether this pool has it ready; if not, whether the machine has it' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l only -d 'Check only these rules (ids, comma-separated)' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l root -d 'Check another machine: a directory with proc/ and sys/, a file written by capture, a sosreport or supportconfig as it comes, or pasted output of cat /proc/meminfo, free or vmstat (- is standard input)' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l recording -d 'Check a recording of \'memwright watch\' instead of this machine' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l at -d 'Time in the recording: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: its end]' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l fail-on -d 'Exit with 1 at this severity or above [default: critical]' -r -f -a "note\t'Any finding'
warning\t'Stalls under load'
critical\t'Stalls now or at the next large request'
never\t'Never'"
complete -c memwright -n "__fish_memwright_using_subcommand check" -l after -d 'Count a critical finding as a warning until it has been there for this long, in at least three checks: for programs that act on the exit code' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l state-dir -d 'Directory of the findings of earlier checks, for --after [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs; the documentation has its schema'
nagios\t'For Nagios and compatible monitoring; the exit code is the plugin state'
npd\t'For Kubernetes\' node-problem-detector: one line of at most 80 bytes; exit code 0 fine, 1 a finding at or above --fail-on or a refused request, 3 could not be checked (unknown)'
prometheus\t'Metrics in the Prometheus text format, for node_exporter\'s textfile collector; metrics.md of the documentation lists them'"
complete -c memwright -n "__fish_memwright_using_subcommand check" -s o -l output -d 'Write to FILE, replaced atomically; - is standard output' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand check" -s v -l verbose -d 'Also list the rules that passed'
complete -c memwright -n "__fish_memwright_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand check" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand doctor" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand doctor" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand doctor" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand doctor" -s v -l verbose -d 'Also describe what is in place'
complete -c memwright -n "__fish_memwright_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand capture" -s o -l output -d 'The file to write; - is standard output [default: memwright-TIME.tar.zst]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand capture" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand capture" -l redact -d 'Replace user-chosen paths (mounts, swap files, cgroups) by numbers'
complete -c memwright -n "__fish_memwright_using_subcommand capture" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand capture" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l log -d 'Explain a kernel log instead: what the OOM killer did, failed allocations, blocked tasks, and the cause of each. A file of any shape (dmesg, a syslog, the journal also as JSON, a paste), - for standard input; without FILE the log of this machine or of the tree' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l root -d 'Read another machine: a directory with proc/ and sys/, a file written by capture, or a sosreport or supportconfig as it comes (- is standard input)' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l all-memory -d 'Account for all memory instead: parts that add up to MemTotal, and the cgroups, files and mounts that hold each'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -s v -l verbose -d 'List all parts, with the kernel files that they are computed from, and processes'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l profile -d 'Apply the settings for a kind of machine, and the fixes of its rules (see profiles.md)' -r -f -a "hpc-node\t'a compute node whose jobs want most of its memory, one after another'
database\t'a server with one large database, or a JVM'
virtualisation\t'a host of virtual machines'
gpu-host\t'a host that trains or serves models with GPUs, with pinned host memory'
large-folios\t'a machine without enough free huge pages, whose programs request folios (--page best)'"
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l state-dir -d 'Directory of the journal [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l dry-run -d 'Show what would change, without changing anything'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l persist -d 'Keep the changes across reboots (in memwright\'s own files in sysctl.d, tmpfiles.d and udev\'s rules.d)'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l state-dir -d 'Directory of the journal [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l force -d 'Restore the former value even if another program has changed it since'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l state-dir -d 'Directory of the journal [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l all -d 'Also list reverted changes'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l hold -d 'Hold the memory this long, then release it; Ctrl-C releases it at once' -r
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l max-cost -d 'Stop and release everything before exceeding stall=TIME that others stall for memory, drop=SIZE of page cache, or time=TIME in all [default: stall=1s,time=60s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l state-dir -d 'Directory of the journal [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l dry-run -d 'Show the steps that would be taken, without taking any'
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l allow-swap -d 'Also swap out memory of other programs'
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l allow-migrate -d 'Also move memory of other programs to other NUMA nodes; the request has a node=N'
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand make-room" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and not __fish_seen_subcommand_from health prolog help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and not __fish_seen_subcommand_from health prolog help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and not __fish_seen_subcommand_from health prolog help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and not __fish_seen_subcommand_from health prolog help" -f -a "health" -d 'Drain this node while check finds a hazard, then resume it; for HealthCheckProgram'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and not __fish_seen_subcommand_from health prolog help" -f -a "prolog" -d 'Make memory available before or after a job; for Prolog and Epilog: the exit code is always 0'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and not __fish_seen_subcommand_from health prolog help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l node -d 'Name of the node [default: $SLURMD_NODENAME, or the host name up to the first dot]' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l severity -d 'Drain at this severity or above [default: critical, or warning with --drain-on]' -r -f -a "note\t'Any finding'
warning\t'Stalls under load'
critical\t'Stalls now or at the next large request'
never\t'Never'"
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l drain-on -d 'Drain for findings of these rules only' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l after -d 'Drain only once the finding has been there for this long, in at least three checks' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l job -d 'Drain only if a job of this size would wait or fail: SIZE[,lock][,huge=2M|1G|thp][,node=N]' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l make-room -d 'Once the node is drained and idle, make room for this much, check again, and resume the node if the hazard is gone: SIZE[,lock][,huge=2M|1G|thp][,node=N]' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l max-cost -d 'Limits of --make-room, as for make-room; its time is at most what remains of 50 s' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l root -d 'Judge a captured tree instead of this machine, to rehearse: as for check' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l state-dir -d 'Directory of the findings of earlier checks, and of the journal for --make-room [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l extra -d 'Also keep what the node offers in its field Extra, in GiB, for jobs that ask for it (Slurm 23.11, extra_constraints): mem is available without writeback or swap, mem2m in blocks of 2 MiB'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -l dry-run -d 'Show what would be done to the node, without doing it'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from health" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from prolog" -l make-room -d 'Size and kind of the memory: SIZE[,lock][,huge=2M|1G|thp][,node=N]' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from prolog" -l max-cost -d 'Limits, as for make-room: slurmctld may requeue a job whose prolog takes longer than BatchStartTimeout' -r
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from prolog" -l state-dir -d 'Directory of the journal [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from prolog" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from prolog" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from prolog" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from help" -f -a "health" -d 'Drain this node while check finds a hazard, then resume it; for HealthCheckProgram'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from help" -f -a "prolog" -d 'Make memory available before or after a job; for Prolog and Epilog: the exit code is always 0'
complete -c memwright -n "__fish_memwright_using_subcommand slurm; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -f -a "room" -d 'List the nodes that can provide this much memory now, best first'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -f -a "drift" -d 'List the settings, kernels, findings, changes and pools that differ between nodes'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -f -a "incidents" -d 'List the stalls of nodes; those with the same cause at the same time are one event'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -f -a "report" -d 'Write an HTML report of stalls by cause, node and event'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -f -a "facts" -d 'Print the facts of this machine that drift compares'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and not __fish_seen_subcommand_from room drift incidents report facts help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l nodes -d 'Nodes to choose from: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l prometheus -d 'Server with memwright\'s metrics (Prometheus, VictoriaMetrics, Thanos, Mimir): only nodes that have the memory by their metrics are queried, those with the most first' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l token-file -d 'File with the token for that server' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l basic-auth-file -d 'File with USER:PASSWORD for that server' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l ca-file -d 'File with the certificates that may have signed the server\'s, in PEM [default: the system\'s]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l label -d 'Label of the metrics that names the node; a port at its end is left out' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l ask -d 'Query this many nodes of the short list' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l via -d 'Command that runs another one on a node, which it takes as its last arguments' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l jobs -d 'Query this many nodes at once' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l timeout -d 'Time limit of each node' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l format -d 'Output: a table, JSON, or the nodes that answer yes (with --by-metrics, all that are listed) as a node set for Slurm and ClusterShell' -r -f -a "text\t''
json\t''
nodeset\t''"
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l by-metrics -d 'Do not query the nodes: list them by their metrics'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -l json -d 'Same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from room" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l nodes -d 'The nodes: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l via -d 'Command that runs another one on a node, which it takes as its last arguments' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l jobs -d 'Query this many nodes at once' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l timeout -d 'Time limit of each node' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from drift" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l nodes -d 'The nodes: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l since -d 'Only incidents that lasted beyond this time' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l gap -d 'Incidents with the same cause are one event while none begins later than this after the others' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l via -d 'Command that runs another one on a node, which it takes as its last arguments' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l jobs -d 'Query this many nodes at once' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l timeout -d 'Time limit of each node' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from incidents" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l nodes -d 'The nodes: a node set such as n[1-40],gpu3, or @GROUP of ClusterShell' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -s o -l output -d 'Write the HTML page to this file; - is standard output' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l since -d 'Only incidents that lasted beyond this time [default: seven days ago]' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l gap -d 'Incidents with the same cause are one event while none begins later than this after the others' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l via -d 'Command that runs another one on a node, which it takes as its last arguments' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l jobs -d 'Query this many nodes at once' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l timeout -d 'Time limit of each node' -r
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from report" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from facts" -l root -d 'A captured tree instead of this machine: as for check' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from facts" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from facts" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from facts" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from facts" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from facts" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "room" -d 'List the nodes that can provide this much memory now, best first'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "drift" -d 'List the settings, kernels, findings, changes and pools that differ between nodes'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "incidents" -d 'List the stalls of nodes; those with the same cause at the same time are one event'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "report" -d 'Write an HTML report of stalls by cause, node and event'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "facts" -d 'Print the facts of this machine that drift compares'
complete -c memwright -n "__fish_memwright_using_subcommand fleet; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and not __fish_seen_subcommand_from condition help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and not __fish_seen_subcommand_from condition help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and not __fish_seen_subcommand_from condition help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and not __fish_seen_subcommand_from condition help" -f -a "condition" -d 'Report the hazards of this node as conditions of the Node object: MemoryFragmented, HugePagesUnavailable, MemoryStalling'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and not __fish_seen_subcommand_from condition help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l node -d 'Name of the Node object [default: $NODE_NAME, or the host name]' -r
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l every -d 'Check at this interval until SIGTERM, at least 5s; an unchanged result is reported every five minutes' -r
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l after -d 'Set a condition to True only once the finding has been there for this long, in at least three checks' -r
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l root -d 'Root of the host\'s file system in a container; as for check' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l api-server -d 'API server [default: that of the cluster, by $KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT]' -r
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l token-file -d 'File with the token, read for every request' -r
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l ca-file -d 'File with the certificates that may have signed the API server\'s, in PEM' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l remove -d 'Remove the conditions from the Node object'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -l dry-run -d 'Print the patch, and send nothing'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from condition" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from help" -f -a "condition" -d 'Report the hazards of this node as conditions of the Node object: MemoryFragmented, HugePagesUnavailable, MemoryStalling'
complete -c memwright -n "__fish_memwright_using_subcommand k8s; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l size -d 'Size of the segment [default: 4G, or less if memory is short]' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l kind -d 'Kind of segment: ism, dism, memfd, anon or hugetlb' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l threads -d 'Numbers of threads [default: powers of two up to the number of CPUs, at most 16]' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l page -d 'Page sizes: 4k, thp, 2M, 1G, folios of 16k to 1M, or best, the largest that are free without compaction, mixed [default: 4k, thp and 2M]' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l place -d 'Memory policy: local, bind:NODES, interleave:NODES, or split:NODES for an equal part from each node; NODES as in 0-1,3' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l svg -d 'Write a plot of the results to this file' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l rounds -d 'Number of measurements of each configuration' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l state-dir -d 'Directory of the journal, for --reserve [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l reserve -d 'Reserve the missing huge pages, and release them at the end or when interrupted; after a kill -9, \'memwright undo\' releases them (as root)'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l prefault -d 'Populate large memory after it is mapped: in the background, while CPUs are idle, or, with \'now\', in parallel before the call that maps it returns' -r -f -a "background\t'While CPUs are idle; the program does not wait for it'
now\t'Before the call that maps it returns'"
complete -c memwright -n "__fish_memwright_using_subcommand run" -l huge -d 'Transparent huge pages [default: as the machine is set up]' -r -f -a "never\t'None, for the command and all that it starts'
auto\t'For large memory that is populated, as far as they are free without compaction; where they are not, the folios of 16 KiB to 1 MiB that the machine allows'
always\t'For all large private memory'"
complete -c memwright -n "__fish_memwright_using_subcommand run" -l direct-io -d 'Keep transfers of files that are at least this large, and sequential runs, out of the page cache; a setting of \'memwright iotune\' for the path takes precedence [default: cached]' -r
complete -c memwright -n "__fish_memwright_using_subcommand run" -l pool -d 'Take large shared memory, System V segments too, from this pool (see pool), which has it ready; what the pool cannot serve comes from the kernel' -r
complete -c memwright -n "__fish_memwright_using_subcommand run" -l threshold -d 'Do in parallel what is at least this large, 1M or more [default: 32M]' -r
complete -c memwright -n "__fish_memwright_using_subcommand run" -l library -d 'The library that the command is run with [default: libmemwright_preload.so beside this program or in ../lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand run" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand run" -l lock -d 'Lock what the command maps, as it is touched; populate large memory when it is mapped'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l direct-io-reads -d 'The same for reads'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l pool-strict -d 'Refuse what the pool cannot serve: the command does not start without the pool, and its mmap and shmget fail with ENOMEM'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l stats -d 'Write one summary to standard error when the command ends: what was done for it and all that it has started, and how much time that saved, or why nothing was done'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l explain -d 'Show what would be done for the command and what prevents it; run nothing'
complete -c memwright -n "__fish_memwright_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand run" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "show" -d 'Show settings by path, their source, and what programs did'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "set" -d 'Change a path and everything below it, in running programs too'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "unset" -d 'Remove the settings of a path'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "save" -d 'Keep the current settings across reboots'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from set" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from unset" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from unset" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from unset" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from save" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from save" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from save" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show settings by path, their source, and what programs did'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change a path and everything below it, in running programs too'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "unset" -d 'Remove the settings of a path'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "save" -d 'Keep the current settings across reboots'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "serve" -d 'Run the pool server'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "create" -d 'Create a pool, and wait until it is populated'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "list" -d 'List the pools that you may use, with their size and state'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "stats" -d 'Show statistics of the server and its pools'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "grow" -d 'Grow a pool'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "shrink" -d 'Shrink a pool by memory that is not leased'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "release" -d 'Discard contents that a pool preserves'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "remove" -d 'Remove a pool; programs keep the memory that they have leased until they end'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -l budget -d 'Limit of all pools together [default: half of the machine\'s memory]' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l size -d 'Size of the pool' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l huge -d 'Huge pages: 2M or 1G (hugetlb), thp, folios of 16k to 1M, or best, the largest that are free without compaction, mixed [default: none]' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l node -d 'NUMA nodes of its pages: NODES as in 0-1,3, interleave for all nodes in turn, or interleave:NODES' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l owner -d 'Users who may lease its memory, by name or number [default: its creator]' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l group -d 'Groups whose members may lease its memory, by name or number' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l trusting -d 'Zero memory in place when it passes from one user to another: the users trust each other not to hold pages in pipes or devices; by default such memory is exchanged'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l no-wait -d 'Return at once, and populate in the background'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs; the documentation has its schema'
metrics\t'Prometheus text format'"
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -l socket -d 'Socket of the server [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Run the pool server'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "create" -d 'Create a pool, and wait until it is populated'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the pools that you may use, with their size and state'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "stats" -d 'Show statistics of the server and its pools'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "grow" -d 'Grow a pool'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "shrink" -d 'Shrink a pool by memory that is not leased'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "release" -d 'Discard contents that a pool preserves'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a pool; programs keep the memory that they have leased until they end'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l probe -d 'Probe a service: [NAME=]URL, where URL is postgres://…, mysql://…, redis://HOST:PORT, http://…, tcp://HOST:PORT, unix:PATH or exec:COMMAND; may be repeated' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l service -d 'Unit or cgroup of a probe\'s service, if its connection does not reveal it; may be repeated' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l limit -d 'Response time above which a service stalls [default: 500ms]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l interval -d 'Interval between probes of a service [default: 1s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l timeout -d 'Timeout of a probe [default: 30s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l token-timeout -d 'Token timeout of a cluster heartbeat on this machine; a quarter of it counts as a stall' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l canary-interval -d 'Interval at which the canary measures page-fault latency while there are signs of memory work [default: 10ms]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l canary-limit -d 'Page-fault latency of the canary above which memory stalls [default: 100ms]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l keep -d 'Retention of recorded data [default: 60d]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l max-size -d 'Size limit of the recording [default: 200M]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l listen -d 'Serve metrics for Prometheus at this address, for example 127.0.0.1:9818, or on the socket of memwright.socket: systemd; metrics.md of the documentation lists them' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l web.config.file -d 'TLS and passwords of --listen, in the format of Prometheus\' exporters' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l now -d 'Have the running recorder collect evidence now, and print the incident'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l check-config -d 'Check the options and the configuration, and exit: with 0 if \'watch\' accepts them, otherwise with 2'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l no-canary -d 'Run no canary'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l no-profile -d 'Do not profile the kernel'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l no-user-stacks -d 'Leave the functions of programs out of incidents: record no user stacks'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l since -d 'Only incidents that lasted beyond this time' -r
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l cause -d 'Only incidents with this cause: a rule such as cgroup-limit, or unknown' -r
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l probe -d 'Only incidents of this probe' -r
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l all -d 'List every incident; without it, similar ones (same cause, subject and probe) are one entry'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand report" -s o -l output -d 'Write a self-contained HTML page to this file; - is standard output' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l format -d 'Output format [default: html with --output, text without]' -r -f -a "html\t'HTML page'
text\t'For people'
json\t'For programs: everything recorded'"
complete -c memwright -n "__fish_memwright_using_subcommand report" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l log -d 'Log in which cluster software reports late heartbeats [default: the journal and the logs of the configuration file, for an incident of this machine]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand report" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand blame" -l since -d 'Only stalls that ended at this time or later: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: a day before the end of the recording]' -r
complete -c memwright -n "__fish_memwright_using_subcommand blame" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand blame" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand blame" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand blame" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand blame" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand blame" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand killed" -l since -d 'Only kills from this time on: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: a day ago]' -r
complete -c memwright -n "__fish_memwright_using_subcommand killed" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand killed" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand killed" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand killed" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand killed" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand killed" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l log -d 'Log to read; - is standard input. Without it, the journal of this machine (journalctl)' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l since -d 'Only lines from this time on: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: a day ago]' -r
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l until -d 'Only lines until this time [default: now]' -r
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l pattern -d 'Look for another line too, with * for what varies' -r
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand heartbeats" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l to -d 'The data set: a directory that exists, or s3://BUCKET[/PREFIX] with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment [default: that of the configuration]' -r
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l host -d 'Name of this machine in the data set [default: that of the recording]' -r
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l since -d 'Begin with the day of this time [default: the first that is not complete in the data set]' -r
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l endpoint -d 'S3 server, with https:// [default: $AWS_ENDPOINT_URL, or Amazon\'s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l region -d 'Region of the bucket [default: $AWS_REGION, or us-east-1]' -r
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l ca-file -d 'File with the certificates that may have signed the server\'s, in PEM [default: the system\'s]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l state-dir -d 'Directory of the record of complete days [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand ship" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand ship" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand ship" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l since -d 'Judge growth from this time on: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: seven days before the end of the recording]' -r
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l until -d 'Judge growth until this time [default: the end of the recording]' -r
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l for -d 'Forecast when this request can no longer be served: SIZE[,huge=2M|1G|thp][,node=N]' -r
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand trends" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand trends" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand trends" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand notify" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand notify" -l test -d 'Send a test message to each receiver, and report whether it was delivered'
complete -c memwright -n "__fish_memwright_using_subcommand notify" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand notify" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand top" -l recording -d 'Show a recording of watch instead of this machine' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand top" -l at -d 'Time in the recording to start at: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: its last incident, or its end]' -r
complete -c memwright -n "__fish_memwright_using_subcommand top" -l interval -d 'Refresh interval, 100ms to 1m; also the pace at which a recording plays' -r
complete -c memwright -n "__fish_memwright_using_subcommand top" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand top" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand top" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand export" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand export" -l since -d 'Start: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: the beginning]' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l until -d 'End [default: the end of the recording]' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l incident -d 'Export one incident (number, last or worst): all of it (.json), its metrics at ten rows a second (.parquet, .csv), or its kernel profile (.collapsed, .pprof, .speedscope.json)' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l to -d 'Output file; the extension selects the format: .parquet, .csv or .json' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand export" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand export" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l kernel -d 'Kernels to run on: a version such as 6.1, or the path of an image, with a slash [default: the kernel that each case names]' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l kind -d 'Run only cases of this kind' -r -f -a "tale\t'Field reports'
rule\t'Cases of one rule'
decoy\t'Decoys: memory is not the cause'
evaluation\t'Comparisons of options'"
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l cases -d 'Directory of cases to run instead of the built-in ones' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l accel -d 'Acceleration of the guests' -r -f -a "auto\t'KVM if a guest boots on it, otherwise software emulation'
tcg\t'Software emulation'
kvm\t'KVM, or fail'"
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l rounds -d 'Run each variant this many times, and report how often it passed' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l jobs -d 'Run this many guests at once; each uses one or two CPUs' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l retries -d 'Repeat a failed run up to this many times; timing effects may not show on a busy machine' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l keep-logs -d 'Save each guest\'s console and output in this directory' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'
markdown\t'Markdown, as in lab.md of the documentation'"
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l all-kernels -d 'Run on every kernel that is packaged'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l watch -d 'Run the recorder in the guest instead; it must detect each stall and name its cause'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l list -d 'List the cases without running them'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l strict -d 'Exit with 1 if a case was skipped, too'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand why" -l pid -d 'Trace this running process and its children instead of a command' -r
complete -c memwright -n "__fish_memwright_using_subcommand why" -l unit -d 'Trace the processes of this systemd unit' -r
complete -c memwright -n "__fish_memwright_using_subcommand why" -l cgroup -d 'Trace the processes of this cgroup and of those below it' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand why" -l for -d 'Time for which to trace running processes; Ctrl-C ends it early [default: 10s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand why" -s o -l output -d 'Also write what was traced to this file, as JSON that Perfetto and chrome://tracing open' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand why" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml if it exists]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand why" -l no-user-stacks -d 'Leave out the functions of programs: record no user stacks'
complete -c memwright -n "__fish_memwright_using_subcommand why" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand why" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "check" -d 'Check for conditions that make large allocations stall or fail'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "doctor" -d 'Check the kernel features and privileges that memwright needs, and show how to enable them'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "capture" -d 'Save the kernel\'s memory state to a file for check --root'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "explain" -d 'Show a rule\'s page, or what holds the machine\'s memory'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "fix" -d 'Fix what check finds, verify that it helped, and record how to revert it'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "undo" -d 'Revert changes to the exact former values'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "changes" -d 'List the changes that fix made, and their state'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "make-room" -d 'Make memory available for a large request, within cost limits'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "slurm" -d 'Drain this Slurm node while it has a hazard; free memory before jobs'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "fleet" -d 'Query many nodes: available memory, configuration drift, incidents'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "k8s" -d 'Report the hazards of this node to Kubernetes'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "bench" -d 'Measure creating, locking and destroying large memory, with and without memwright'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "run" -d 'Run a command so that its large memory is populated, locked and freed in parallel'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "iotune" -d 'Keep large and sequential I/O out of the page cache, per path'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "pool" -d 'Keep pools of populated, locked and zeroed memory ready for programs that restart'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "watch" -d 'Record memory counters, detect stalls and find their causes'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "incidents" -d 'List recorded incidents'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "report" -d 'Show an incident: the stall, its cause, how to fix it, and the evidence'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "blame" -d 'Show who lost time in stalls, and to whom: the own limit, a neighbour, a device, the kernel'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "killed" -d 'Show which program or part of the kernel killed a process, and why'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "heartbeats" -d 'Find late heartbeats in cluster logs, and the stall behind each'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "ship" -d 'Ship the recording to a shared Parquet data set in a directory or in S3'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "trends" -d 'Find steady memory growth, and forecast when memory or a limit is full'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "notify" -d 'List the receivers of notifications, and test whether messages arrive'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "top" -d 'Show memory in the terminal: this machine live, or any moment of a recording'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "export" -d 'Export a recording or an incident: Parquet, CSV, JSON, profiles'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "lab" -d 'Run memory failures on real kernels in virtual machines: create, find, fix, revert'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "why" -d 'Trace a command or a running process, and report what it waited for'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check doctor capture explain fix undo changes make-room slurm fleet k8s bench run iotune pool watch incidents report blame killed heartbeats ship trends notify top export lab why help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from slurm" -f -a "health" -d 'Drain this node while check finds a hazard, then resume it; for HealthCheckProgram'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from slurm" -f -a "prolog" -d 'Make memory available before or after a job; for Prolog and Epilog: the exit code is always 0'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "room" -d 'List the nodes that can provide this much memory now, best first'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "drift" -d 'List the settings, kernels, findings, changes and pools that differ between nodes'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "incidents" -d 'List the stalls of nodes; those with the same cause at the same time are one event'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "report" -d 'Write an HTML report of stalls by cause, node and event'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from fleet" -f -a "facts" -d 'Print the facts of this machine that drift compares'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from k8s" -f -a "condition" -d 'Report the hazards of this node as conditions of the Node object: MemoryFragmented, HugePagesUnavailable, MemoryStalling'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "show" -d 'Show settings by path, their source, and what programs did'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "set" -d 'Change a path and everything below it, in running programs too'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "unset" -d 'Remove the settings of a path'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "save" -d 'Keep the current settings across reboots'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "serve" -d 'Run the pool server'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "create" -d 'Create a pool, and wait until it is populated'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "list" -d 'List the pools that you may use, with their size and state'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "stats" -d 'Show statistics of the server and its pools'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "grow" -d 'Grow a pool'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "shrink" -d 'Shrink a pool by memory that is not leased'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "release" -d 'Discard contents that a pool preserves'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "remove" -d 'Remove a pool; programs keep the memory that they have leased until they end'
