# scans: how often the kernel has looked through node 0 for something to reclaim and found nothing.
scans() { awk '$1 == "zone_reclaim_failed" { print $2 }' /proc/vmstat; }

# create NAME MIB: creates and locks a segment on a CPU of node 0; how long that takes, and how many
# scans were in vain.
create() {
	before=$(scans)
	taskset 1 segment "$1" "$2" || exit 1
	echo "$1-scans $(($(scans) - before)) scans"
}

create create 128
create small 12
if [ "$2" = undone ]; then
	rm /mnt/tempdb.dat
	create emptied 128
fi
