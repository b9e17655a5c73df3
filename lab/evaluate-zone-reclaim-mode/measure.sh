# A segment of 96 MiB, made and locked by a process on a CPU of node 0, which is full: once of clean page
# cache, which zone reclaim can take, and once of a tmpfs, which it cannot take without swap.
SEGMENT_MIB=96
LEFT_MIB=32

node0() { awk -v name="$1:" '$3 == name { print int($4 / 1024) }' /sys/devices/system/node/node0/meminfo; }
counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
# Pages that were wanted on node 0 and taken elsewhere.
foreign() { awk '$1 == "numa_foreign" { print $2 }' /sys/devices/system/node/node0/numastat; }

# create NAME: how long it takes, and how much of the segment came from node 0.
create() {
	from=$(foreign)
	took "$1" taskset 1 hold shm ${SEGMENT_MIB}M lock once
	echo "$1-local $((100 - ($(foreign) - from) * 100 / (SEGMENT_MIB * 256))) %"
}

# The page cache of a block device goes when nobody has the device open.
exec 3</dev/disk0
taskset 1 dd if=/dev/disk0 of=/dev/null bs=1M count=700 2>/dev/null
create beside-cache
exec 3<&-

echo 3 >/proc/sys/vm/drop_caches
mount -t tmpfs -o size=1G,mpol=bind:0 tmpfs /mnt
dd if=/dev/zero of=/mnt/data bs=1M count=$(($(node0 MemFree) - LEFT_MIB)) 2>/dev/null
failed=$(counter zone_reclaim_failed)
create beside-tmpfs
echo "zone-reclaim-failed $(($(counter zone_reclaim_failed) - failed)) times"
echo "node 0 has $(node0 MemFree) MiB free" >&2
