# scans: how often the kernel has looked through node 0 for something to reclaim and found nothing.
scans() { awk '$1 == "zone_reclaim_failed" { print $2 }' /proc/vmstat; }

# create NAME MIB: creates and locks a segment on a CPU of node 0; how long that takes, and how many
# scans were in vain.
create() {
	before=$(scans)
	taskset 1 segment "$1" "$2" || exit 1
	echo "$1-scans $(($(scans) - before)) scans"
}

# The same from the pool, five times, for the shortest: each has what the one before it has given back.
restart() {
	before=$(scans)
	for try in 1 2 3 4 5; do
		taskset 1 memwright run --pool db --pool-strict -- segment restart 128
	done | sort -n -k 2 | head -n 1
	echo "restart-scans $(($(scans) - before)) scans"
}

create create 128
if [ "$1" = pooled ]; then
	restart
	exit
fi
create small 12
if [ "$2" = reverted ]; then
	rm /mnt/tempdb.dat
	create emptied 128
fi
