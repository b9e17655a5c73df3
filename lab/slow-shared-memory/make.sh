# Fills node 0 but for 32 MiB, from a CPU of that node: a page is allocated where its first writer runs.
case $1 in
ramfs) mount -t ramfs ramfs /mnt || exit 1 ;;
*) mount -t tmpfs -o size=100% tmpfs /mnt || exit 1 ;;
esac
free_kb=$(awk '/MemFree/ { print $4 }' /sys/devices/system/node/node0/meminfo)
taskset 1 dd if=/dev/zero of=/mnt/tempdb.dat bs=1M count=$((free_kb / 1024 - 32)) 2>/dev/null
