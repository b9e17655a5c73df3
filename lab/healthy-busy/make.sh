fail() { echo "$1" >/run/why; exit 1; }
counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
forever() { while "$@"; do :; done & }
read_all() { dd if="$1" of=/dev/null bs=1M ${2:+count=$2} 2>/dev/null; }
within() { sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' "$@"; }
group() { mkdir "/sys/fs/cgroup/$1" && echo "$3" >"/sys/fs/cgroup/$1/$2" || fail "no cgroup $1"; }
# The load goes on for so many seconds before it is judged.
lead=8

# What the kernel says of these seconds: pressure, and the time of tasks in reclaim by its trace. docs/psi.md has the table.
trace=/sys/kernel/tracing/instances/load
pressure() { awk -v kind="$1" '$1 == kind { sub("total=", "", $5); print $5 }' /proc/pressure/memory; }
stalls() { awk '/^allocstall/ { sum += $2 } END { print sum }' /proc/vmstat; }
refaults() { awk '/^workingset_refault/ { sum += $2 } END { print sum }' /proc/vmstat; }
kswapd() { for pid in $(pidof kswapd0 kswapd1); do cat /proc/$pid/stat; done | awk '{ sum += $14 + $15 } END { print sum * 10 }'; }
counts() { echo "$(pressure some) $(pressure full) $(stalls) $(refaults) $(kswapd)"; }
begin_trace() {
	mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
	mkdir $trace && echo 4096 >$trace/buffer_size_kb || return
	for event in direct_reclaim_begin direct_reclaim_end memcg_reclaim_begin memcg_reclaim_end; do
		echo 1 >$trace/events/vmscan/mm_vmscan_$event/enable
	done
}
# Milliseconds between begin and end, by task, of the machine's reclaim and of cgroups'.
traced_ms() {
	echo 0 >$trace/tracing_on
	awk '/mm_vmscan_/ {
		for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]+\.[0-9]+:$/) { at = $i + 0; event = $(i + 1); break }
		task = $1; sub(/.*-/, "", task); kind = event ~ /memcg/ ? "group" : "machine"
		if (event ~ /_begin:/) begun[kind, task] = at
		else if ((kind, task) in begun) { sum[kind] += at - begun[kind, task]; delete begun[kind, task] }
	} END { printf "%d %d\n", sum["machine"] * 1000, sum["group"] * 1000 }' $trace/trace
	rmdir $trace
}

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
mkdir -p /run/keep
begin_trace
before=$(counts)
sleep $lead
after=$(counts)
echo "$lead $before $after $(traced_ms)" | awk '{
	print "seconds", $1; print "some_ms", ($7 - $2) / 1000; print "full_ms", ($8 - $3) / 1000; print "allocstall", $9 - $4
	print "refaults", $10 - $5; print "kswapd_ms", $11 - $6; print "reclaim_ms", $12; print "cgroup_reclaim_ms", $13
}' >/run/keep/pressure

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
