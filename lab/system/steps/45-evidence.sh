# In its unit's sandbox the recorder sees what it sees without one: stacks with names, the trace, the service's cgroup
. /mnt/lib.sh
memwright report "$(cat /mnt/state/incident)" --format json >/mnt/log/incident.json || fail "no report"
quiet 'cat /mnt/log/incident.json'
says '"mem_cgroup_handle_over_high"' "no stack with the names of functions"
says '"cgroup": "/system.slice/app.service"' "no task of the service"
quiet 'ls -l /proc/$(main_pid memwright)/fd'
says '/dev/kmsg' "the kernel log is not read"
# Since its configuration was read again with delay accounting on.
quiet 'log_since'
says_not 'cannot |not permitted|Permission denied|Read-only|Bad system call'
quiet 'journalctl -k -o cat | grep -E "type=1326|seccomp" || echo none'
says '^none$' "a system call was refused"
[ "$(systemctl show -P NRestarts memwright memwright-pool | sort -u)" = $'\n0' ] || fail "a service was restarted"
