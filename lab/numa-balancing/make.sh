migrated() { awk '$1 == "numa_pages_migrated" { print $2 }' /proc/vmstat; }
ask() { while wget -q -O /dev/null http://127.0.0.1:$1/; do :; done; }
bound() { taskset -p "$1" "$(cat "/run/$2.pid")" >/dev/null || exit 1; }

value=1 port=80
[ "$1" = quiet ] && value=0
[ "$1" = decoy ] && port=81
echo $value >/proc/sys/kernel/numa_balancing || exit 1
if [ "$1" != decoy ]; then
	# By default it scans 256 MiB at a time, and a program that has settled once a minute.
	mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
	knobs=/sys/kernel/debug/sched/numa_balancing
	echo 1000 >$knobs/scan_period_max_ms && echo 1024 >$knobs/scan_size_mb || exit 1
fi
ask $port &
for mask in 2 1 2; do
	before=$(migrated)
	bound $mask $port
	sleep 10
	[ "$1" = decoy ] && touch /run/sleep
	sleep 5
	echo "$(($(migrated) - before)) pages moved"
done
kill $!
