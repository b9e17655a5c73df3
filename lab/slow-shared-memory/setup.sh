# The report's zone_reclaim_mode was 2. Since 2.6.31 the kernel begins to reclaim with it only where it
# sees page cache that it could take, and a ramdisk is none; with bit 4 everything in the page cache
# counts, ramdisks too.
case $1 in
mode-2) echo 2 >/proc/sys/vm/zone_reclaim_mode ;;
*) echo 6 >/proc/sys/vm/zone_reclaim_mode ;;
esac
# Each of the scans goes through every control group; a server has some dozens.
for number in $(seq 40); do mkdir /sys/fs/cgroup/service-$number || exit 1; done
# The first segment of all is slower than the next: the emulator meets the kernel's code for it.
taskset 1 segment first 128 >/dev/null
[ "$1" = pooled ] || exit 0
memwright pool serve 2>/run/why &
for try in 1 2 3 4 5 6 7 8 9 10; do memwright pool list && break; sleep 0.5; done
memwright pool create db --size 128M --node 0 2>>/run/why || exit 1
taskset 1 memwright run --pool db -- segment first 128 >/dev/null
