counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

mount -t ext4 /dev/disk0 /mnt || exit 1
case $1 in
slow-disk | firing)
	if [ $1 = slow-disk ] && ! ls /sys/class/bdi/*/max_ratio_fine >/dev/null 2>&1; then
		echo "kernel $(uname -r) knows no max_ratio_fine of a device (6.2 and later do)" >/run/why
		exit 77
	fi
	echo 60 >/proc/sys/vm/dirty_ratio
	echo 50 >/proc/sys/vm/dirty_background_ratio
	dd if=/dev/zero of=/mnt/flood bs=128k count=80000 2>/dev/null &
	dd if=/dev/zero of=/mnt/flood2 bs=128k count=80000 2>/dev/null &
	seen=0
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
		before=$(counter pgscan_kswapd)
		sleep 1
		rate=$(($(counter pgscan_kswapd) - before))
		dirty_kb=$(awk '/^(Dirty|Writeback):/ { kb += $2 } END { print kb }' /proc/meminfo)
		echo "kswapd scanned $rate pages a second, $dirty_kb kB dirty" | tee /run/why
		if [ $rate -gt 10000 ] && [ "$dirty_kb" -gt 150000 ]; then
			seen=$((seen + 1))
			[ $seen -eq 2 ] && exit 0
		fi
	done
	exit 1
	;;
quiet)
	dd if=/dev/zero of=/mnt/data bs=128k count=160 2>/dev/null
	sync
	sleep 3
	;;
esac
