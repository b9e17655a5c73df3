# After the reboot the settings and the table are in force, both services run, and the incident is there
. /mnt/lib.sh
[ "$(cat /proc/sys/kernel/random/boot_id)" != "$(cat /mnt/state/boot)" ] || fail "not rebooted"
eventually 60 'systemctl is-active memwright memwright-pool memwright.socket'
[ "$(sysctl -n vm.min_free_kbytes)" = "$(cat /mnt/state/min-free)" ] || fail "min_free_kbytes is that of another file"
diff /mnt/state/defrag /sys/kernel/mm/transparent_hugepage/defrag || fail "defrag is that of another file"
shown 'memwright iotune show'
says '/srv/app.*64|64.*/srv/app'
memwright incidents --json >/run/incidents
for id in $(grep -o '"id": *[0-9]*' /mnt/state/incidents.json | grep -o '[0-9]*'); do
	grep -qE "\"id\": *$id\b" /run/incidents || fail "incident $id is lost"
done
quiet 'journalctl -b -u memwright -u memwright-pool -o cat'
says_not 'not permitted|Permission denied|Read-only|recording stopped'
quiet 'systemctl --failed --no-legend'
[ -z "$said" ] || fail "a unit failed"
eventually 60 'curl -sf -m 20 http://127.0.0.1:9818/metrics'
