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

complete -c memwright -n "__fish_memwright_needs_command" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_needs_command" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_needs_command" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "check" -d 'Say whether this machine can hand out large memory without stalling, and what is wrong'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "capture" -d 'Write the kernel\'s memory state to a file, to be looked at elsewhere with check --root'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "explain" -d 'Show a rule\'s page: what it finds, why it hurts, how to fix it'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "fix" -d 'Mend what check finds, see that it helped, and note how to take it back'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "undo" -d 'Take changes back, byte for byte'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "changes" -d 'List what was changed, and what has become of it'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "bench" -d 'Measure what it costs here to create, lock and destroy large memory, before and after'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "run" -d 'Run a command whose large memory is populated, locked and freed in parallel'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "iotune" -d 'Keep large and sequential transfers out of the page cache, per path, and show what that did'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "pool" -d 'Keep memory warm for programs: a restart finds it populated, locked and zeroed'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "watch" -d 'Record what memory does, and when a service stalls say why: runs until it is ended'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "incidents" -d 'List the stalls that were recorded'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "report" -d 'Show a stall: what it was, its cause, what mends it, and all the evidence'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "top" -d 'Watch memory in the terminal: this machine as it is, or any moment of a recording'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "export" -d 'Write a recording, or an incident of it, for other programs'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "lab" -d 'Play memory failures on real kernels in virtual machines: made, found, mended, taken back'
complete -c memwright -n "__fish_memwright_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand check" -l for -d 'Also say whether this much memory can be had: SIZE[,lock][,huge=2M|1G|thp][,node=N]' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l pool -d 'Say whether this pool has it ready, and only else whether it can be had the ordinary way' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l root -d 'Look at a captured tree instead of this machine: a folder with proc/ and sys/ (also as sosreport lays it out), or a file written by capture' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l recording -d 'Look at a recording of \'memwright watch\' instead of this machine' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l at -d 'The moment of the recording: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: its end]' -r
complete -c memwright -n "__fish_memwright_using_subcommand check" -l fail-on -d 'Exit with 1 from this severity on [default: critical]' -r -f -a "note\t'Any finding'
warning\t'What stalls under load'
critical\t'What stalls now or at the next large request'
never\t'Never'"
complete -c memwright -n "__fish_memwright_using_subcommand check" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs, described in docs/schema'
nagios\t'For Nagios and its like; the exit code is then the plugin\'s state'"
complete -c memwright -n "__fish_memwright_using_subcommand check" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand check" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand check" -s v -l verbose -d 'Also list the rules that found nothing'
complete -c memwright -n "__fish_memwright_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand check" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand capture" -s o -l output -d 'The file to write; - is standard output [default: memwright-TIME.tar.zst]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand capture" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand capture" -l redact -d 'Replace paths that people chose (mounts, swap files, cgroups) by numbers'
complete -c memwright -n "__fish_memwright_using_subcommand capture" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand capture" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand explain" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand explain" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l state-dir -d 'Where the journal of changes is [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l dry-run -d 'Show what would be changed and change nothing'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l persist -d 'Keep the changes over a reboot (files of memwright\'s own in sysctl.d, tmpfiles.d and udev\'s rules.d)'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand fix" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l state-dir -d 'Where the journal of changes is [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l force -d 'Put the former value back even where somebody else has changed it since'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand undo" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l state-dir -d 'Where the journal of changes is [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l all -d 'Also list changes that were taken back'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand changes" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l size -d 'How large a segment [default: 4G, or less where memory is short]' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l kind -d 'What it is made of: ism, dism, memfd, anon or hugetlb' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l threads -d 'How many threads [default: 1, 2, 4 and so on to the number of processors, 16 at most]' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l page -d 'Page sizes: 4k, thp, 2M or 1G [default: 4k, thp and 2M]' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l place -d 'Where its pages come from: local, bind:NODES, interleave:NODES, or split:NODES for an equal part from each; NODES as in 0-1,3' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l svg -d 'Draw the table into this file' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l rounds -d 'How often each way is measured' -r
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l state-dir -d 'Where the journal of changes is, for --reserve [default: /var/lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l reserve -d 'Reserve the huge pages that are missing, and give them back at the end or when interrupted; after a kill -9, \'memwright undo\' gives them back (as root)'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand bench" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l huge -d 'Transparent huge pages [default: as the machine is set up]' -r -f -a "never\t'None, for the command and all that it starts'
auto\t'For large memory that is populated at once, where they are free without compaction'
always\t'For all large private memory'"
complete -c memwright -n "__fish_memwright_using_subcommand run" -l direct-io -d 'Keep transfers of files that are at least this large, and sequential runs, out of the page cache; a setting of \'memwright iotune\' for the path goes before [default: cached]' -r
complete -c memwright -n "__fish_memwright_using_subcommand run" -l pool -d 'Take large shared memory, System V segments too, from this pool (see pool), which has it ready; what the pool cannot serve is had the ordinary way' -r
complete -c memwright -n "__fish_memwright_using_subcommand run" -l threshold -d 'Do in parallel what is at least this large, 1M or more [default: 32M]' -r
complete -c memwright -n "__fish_memwright_using_subcommand run" -l library -d 'The library that the command is run with [default: libmemwright_preload.so beside this program or in ../lib/memwright]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand run" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand run" -l lock -d 'Lock what the command maps, as it is touched; populate large memory when it is mapped'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l prefault -d 'Populate large memory when it is mapped, in parallel'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l direct-io-reads -d 'The same for reads'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l pool-strict -d 'Refuse what the pool cannot serve: the command does not start without the pool, and its mmap and shmget fail with ENOMEM'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l stats -d 'When the command ends, write one summary to standard error: what was done for it and all that it has started, and how much time that saved, or why nothing was done'
complete -c memwright -n "__fish_memwright_using_subcommand run" -l explain -d 'Say what would be done for the command, and what keeps it from being done; run nothing'
complete -c memwright -n "__fish_memwright_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand run" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "show" -d 'Say what holds for a path or for all, where that comes from, and what programs did'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "set" -d 'Set what holds at and below a path: running programs see it at once'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "unset" -d 'Take a path\'s setting away'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "save" -d 'Keep what is in force over a reboot'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and not __fish_seen_subcommand_from show set unset save help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from set" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from unset" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from unset" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from unset" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from save" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from save" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from save" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "show" -d 'Say what holds for a path or for all, where that comes from, and what programs did'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "set" -d 'Set what holds at and below a path: running programs see it at once'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "unset" -d 'Take a path\'s setting away'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "save" -d 'Keep what is in force over a reboot'
complete -c memwright -n "__fish_memwright_using_subcommand iotune; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "serve" -d 'Keep pools and hand their memory out: runs until it is ended'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "create" -d 'Make a pool, and wait until all of its memory is there'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "list" -d 'List the pools that one may use: their size, and what of them is ready'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "stats" -d 'Show what the server and its pools have done, for people, programs or Prometheus'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "grow" -d 'Make a pool larger'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "shrink" -d 'Make a pool smaller, by memory that is not in use'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "release" -d 'Give up contents that are kept in a pool'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "remove" -d 'Remove a pool; programs that have memory of it keep that until they end'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and not __fish_seen_subcommand_from serve create list stats grow shrink release remove help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -l budget -d 'The most memory of all pools together [default: half of this machine\'s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l size -d 'How much memory' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l huge -d 'Huge pages: 2M or 1G of the kernel\'s own pool, or thp [default: none]' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l node -d 'Where its pages come from: NODES alone as in 0-1,3, or interleave for all nodes in turn, or interleave:NODES' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l owner -d 'Users who may have memory of it, by name or number [default: who makes it]' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l group -d 'Groups whose members may have memory of it, by name or number' -r
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l trusting -d 'Zero memory that goes from one user to another in place: they trust each other not to hold pages in pipes or devices; without it such memory is exchanged for other'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -l no-wait -d 'Return at once; its memory comes in the background'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs, described in docs/schema'
metrics\t'For Prometheus, in its text format'"
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from stats" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from grow" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from shrink" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from release" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -l socket -d 'The server\'s socket [default: /run/memwright-pool/pool.sock]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from remove" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Keep pools and hand their memory out: runs until it is ended'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a pool, and wait until all of its memory is there'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the pools that one may use: their size, and what of them is ready'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "stats" -d 'Show what the server and its pools have done, for people, programs or Prometheus'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "grow" -d 'Make a pool larger'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "shrink" -d 'Make a pool smaller, by memory that is not in use'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "release" -d 'Give up contents that are kept in a pool'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "remove" -d 'Remove a pool; programs that have memory of it keep that until they end'
complete -c memwright -n "__fish_memwright_using_subcommand pool; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l probe -d 'Watch a service: [NAME=]URL, where the URL is postgres://…, mysql://…, redis://HOST:PORT, http://…, tcp://HOST:PORT, unix:PATH or exec:COMMAND; once for each service' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l limit -d 'A service that takes longer to answer stalls [default: 500ms]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l interval -d 'How often each service is asked [default: 1s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l timeout -d 'When an answer is no longer waited for [default: 30s]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l token-timeout -d 'Token time-out of a heartbeat that this machine must keep, such as a cluster\'s: a stall from a quarter of it on' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l canary-interval -d 'How often fresh memory is touched to see how long it takes [default: 10ms]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l canary-limit -d 'Fresh memory that takes longer is a stall [default: 100ms]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l keep -d 'How long what was recorded is kept [default: 60d]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l max-size -d 'How large the recording may become [default: 200M]' -r
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l no-canary -d 'Touch no memory'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -l no-profile -d 'Do not sample what the kernel does'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand watch" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand incidents" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand report" -s o -l output -d 'Write an HTML page that opens without a network to this file; - is standard output' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l format -d 'Output format [default: html with --output, text without]' -r -f -a "html\t'A page for a browser'
text\t'For a terminal'
json\t'Everything that was recorded of it'"
complete -c memwright -n "__fish_memwright_using_subcommand report" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand report" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand report" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand top" -l recording -d 'Look at a recording, written by watch, instead of this machine' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand top" -l at -d 'Where in the recording to begin: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: its last incident, or else its end]' -r
complete -c memwright -n "__fish_memwright_using_subcommand top" -l interval -d 'How often to look, 100ms to 1m; also how often a recording that runs goes on' -r
complete -c memwright -n "__fish_memwright_using_subcommand top" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand top" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand top" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand export" -l recording -d 'The recording [default: /var/lib/memwright/recording.db]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand export" -l since -d 'From when on: 10:19, \'2026-11-22 10:19:30\', RFC 3339 or \'2 h ago\' [default: its beginning]' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l until -d 'Until when [default: its end]' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l incident -d 'An incident instead of the recording, by its number, or last or worst: all of it (.json), its counters, ten rows a second (.parquet, .csv), or its kernel profile (.collapsed, .pprof, .speedscope.json)' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l to -d 'The file to write, whose ending says the format: .parquet, .csv or .json' -r
complete -c memwright -n "__fish_memwright_using_subcommand export" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand export" -s h -l help -d 'Print help'
complete -c memwright -n "__fish_memwright_using_subcommand export" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l kernel -d 'The kernels to play on, 6.1 or 6.12 or the path of a kernel image, which has a slash in it [default: the one that each case names]' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l kind -d 'Only cases of this kind' -r -f -a "tale\t'A field report, re-enacted'
rule\t'What a rule of the catalogue finds'
decoy\t'Something is wrong, and memory is not to blame'
evaluation\t'Options, measured against each other'"
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l cases -d 'A folder with cases of one\'s own instead of those that come with memwright' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l accel -d 'How the guest\'s instructions are carried out' -r -f -a "auto\t'Hardware virtualisation where a small guest comes up on it, or else software'
tcg\t'Software, which works everywhere'
kvm\t'Hardware virtualisation; nothing is played where it does not work'"
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l rounds -d 'Play each so many times, and say of each how often it did what it says' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l jobs -d 'Play so many at once; a guest keeps one or two processors busy' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l retries -d 'Play what fails up to so many times more: on a machine with much else to do, an effect that is a matter of time may not show' -r
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l keep-logs -d 'Keep each guest\'s console, and what it sent, in this folder' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l format -d 'Output format' -r -f -a "text\t'For people'
json\t'For programs'
markdown\t'For a page like docs/lab.md'"
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l config -d 'Configuration file [default: /etc/memwright/memwright.toml where it is there]' -r -F
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l all-kernels -d 'Play on every kernel that there is a package of'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l watch -d 'Have the recorder watch instead: it must see each case\'s stall and name its cause'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l list -d 'List the cases and play none'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l strict -d 'Exit with 1 also where a case was skipped'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -l json -d 'The same as --format json'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c memwright -n "__fish_memwright_using_subcommand lab" -s V -l version -d 'Print version'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "check" -d 'Say whether this machine can hand out large memory without stalling, and what is wrong'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "capture" -d 'Write the kernel\'s memory state to a file, to be looked at elsewhere with check --root'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "explain" -d 'Show a rule\'s page: what it finds, why it hurts, how to fix it'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "fix" -d 'Mend what check finds, see that it helped, and note how to take it back'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "undo" -d 'Take changes back, byte for byte'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "changes" -d 'List what was changed, and what has become of it'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "bench" -d 'Measure what it costs here to create, lock and destroy large memory, before and after'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "run" -d 'Run a command whose large memory is populated, locked and freed in parallel'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "iotune" -d 'Keep large and sequential transfers out of the page cache, per path, and show what that did'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "pool" -d 'Keep memory warm for programs: a restart finds it populated, locked and zeroed'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "watch" -d 'Record what memory does, and when a service stalls say why: runs until it is ended'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "incidents" -d 'List the stalls that were recorded'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "report" -d 'Show a stall: what it was, its cause, what mends it, and all the evidence'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "top" -d 'Watch memory in the terminal: this machine as it is, or any moment of a recording'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "export" -d 'Write a recording, or an incident of it, for other programs'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "lab" -d 'Play memory failures on real kernels in virtual machines: made, found, mended, taken back'
complete -c memwright -n "__fish_memwright_using_subcommand help; and not __fish_seen_subcommand_from check capture explain fix undo changes bench run iotune pool watch incidents report top export lab help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "show" -d 'Say what holds for a path or for all, where that comes from, and what programs did'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "set" -d 'Set what holds at and below a path: running programs see it at once'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "unset" -d 'Take a path\'s setting away'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from iotune" -f -a "save" -d 'Keep what is in force over a reboot'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "serve" -d 'Keep pools and hand their memory out: runs until it is ended'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "create" -d 'Make a pool, and wait until all of its memory is there'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "list" -d 'List the pools that one may use: their size, and what of them is ready'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "stats" -d 'Show what the server and its pools have done, for people, programs or Prometheus'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "grow" -d 'Make a pool larger'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "shrink" -d 'Make a pool smaller, by memory that is not in use'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "release" -d 'Give up contents that are kept in a pool'
complete -c memwright -n "__fish_memwright_using_subcommand help; and __fish_seen_subcommand_from pool" -f -a "remove" -d 'Remove a pool; programs that have memory of it keep that until they end'
