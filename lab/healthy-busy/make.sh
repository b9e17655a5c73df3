fail() { echo "$1" >/run/why; exit 1; }
counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
forever() { while "$@"; do :; done & }
read_all() { dd if="$1" of=/dev/null bs=1M ${2:+count=$2} 2>/dev/null; }
within() { sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' "$@"; }
group() { mkdir "/sys/fs/cgroup/$1" && echo "$3" >"/sys/fs/cgroup/$1/$2" || fail "no cgroup $1"; }
# The load goes on for so many seconds before it is judged.
lead=8

tar_tree() { tar cf /backup/tree.tar -C /mnt tree; }
copy_tree() { cp -a /mnt/tree /mnt/copy && rm -r /mnt/copy; }
burst() { read_all /mnt/large 300 && sleep 2; }
compact() { echo 1 >/proc/sys/vm/compact_memory && sleep 3; }
# As a compiler for each source: read it, write an object, read that, remove it.
build() {
	for source in /mnt/src/*/*; do
		out=/mnt/out/$1-${source##*/}
		gzip -1 -c "$source" >"$out" && md5sum "$out" >"$out.md5" && rm "$out" "$out.md5"
	done
}
# A day: services start and end, logs grow and are rotated, tmpfs files come and go.
day() {
	for hour in 1 2 3 4 5 6 7 8; do
		service=/sys/fs/cgroup/service-$hour
		mkdir $service && within $service sh -c 'head -c 4194304 /dev/zero >/dev/shm/f; ls -lR /proc/sys >/mnt/log' 2>/dev/null
		cat /mnt/log >>/mnt/syslog
		rm /dev/shm/f && rmdir $service
	done
	gzip -c /mnt/syslog >/mnt/syslog.1.gz && : >/mnt/syslog
}
alternate() {
	for mask in 1 2; do
		for pid in $(pidof hold); do taskset -p $mask "$pid" >/dev/null; done
		sleep 4
	done
}

case $1 in
stream | stream-disk)
	read_all /mnt/large 2048
	forever read_all /mnt/large
	;;
after)
	read_all /mnt/large 3072
	lead=12
	;;
backup-tar) forever tar_tree ;;
backup-cp) forever copy_tree ;;
container*)
	group app memory.max 128M
	within /sys/fs/cgroup/app hold anon 48M || fail "no memory in the container"
	forever within /sys/fs/cgroup/app dd if=/mnt/large of=/dev/null bs=1M 2>/dev/null
	;;
memory-high)
	group batch memory.high 96M
	within /sys/fs/cgroup/batch hold anon 128M nothp || fail "no memory in the batch job"
	forever within /sys/fs/cgroup/batch dd if=/mnt/large of=/dev/null bs=1M 2>/dev/null
	;;
zswap | zram) busy packed 160 & ;;
allocator) busy halves 160 & ;;
kswapd)
	read_all /mnt/large 2048
	forever burst
	;;
build)
	forever build one
	forever build two
	;;
database)
	read_all /mnt/data
	hold anon 200M || fail "no memory for the database"
	busy random /mnt/data &
	;;
numa-balancing)
	hold touch 160M || fail "no memory"
	forever alternate
	lead=14
	;;
ksm)
	echo 1000 >/sys/kernel/mm/ksm/pages_to_scan && echo 1 >/sys/kernel/mm/ksm/run || fail "no KSM"
	busy same 100 &
	busy same 100 500 &
	lead=12
	;;
khugepaged)
	hold anon 300M late-thp || fail "no memory"
	lead=14
	;;
idle-batch)
	busy idle hold touch 150M || fail "no memory for the batch job"
	forever busy idle md5sum /mnt/large
	;;
compact)
	hold strewn 300M every=2 || fail "no memory"
	forever compact
	;;
uptime)
	hold anon 200M || fail "no memory"
	forever day
	lead=12
	;;
esac
sleep $lead

# The load is what it says.
case $1 in
container*) grep -q "^max [1-9]" /sys/fs/cgroup/app/memory.events || fail "the container is not at its limit" ;;
memory-high) grep -q "^high [1-9]" /sys/fs/cgroup/batch/memory.events || fail "the job is not at memory.high" ;;
zswap) [ "$(counter zswpout)" -gt 10000 ] || fail "nothing in zswap" ;;
zram) [ "$(counter pswpout)" -gt 10000 ] || fail "nothing in zram" ;;
kswapd) [ "$(counter pgscan_kswapd)" -gt 0 ] || fail "kswapd has nothing to do" ;;
numa-balancing) [ "$(counter numa_pages_migrated)" -gt 0 ] || fail "NUMA balancing moved nothing" ;;
ksm) [ "$(cat /sys/kernel/mm/ksm/pages_sharing)" -gt 1000 ] || fail "KSM merged nothing" ;;
khugepaged) [ "$(counter thp_collapse_alloc)" -gt 0 ] || fail "khugepaged collapsed nothing" ;;
esac
