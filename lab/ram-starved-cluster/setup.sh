if [ "$1" = per-device ] && ! ls /sys/class/bdi/*/max_bytes >/dev/null 2>&1; then
	echo "kernel $(uname -r) knows no max_bytes of a device (6.2 and later do)" >/run/why
	exit 77
fi
# The disk is like a RAID array whose cache is full: few bytes a second, few requests at a time.
mount -t ext4 /dev/disk0 /mnt || exit 1
queue=/sys/block/$(basename "$(readlink /dev/disk0)")/queue
echo 16 >"$queue/nr_requests"
echo 128 >"$queue/max_sectors_kb"
# The database's shared memory: all but 100 MiB, however much the kernel and its files take.
free_kb=$(awk '$1 == "MemFree:" { print $2 }' /proc/meminfo)
hold shm $((free_kb - 102400))K lock name=database
