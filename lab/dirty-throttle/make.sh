mount -t ext4 /dev/disk0 /mnt || exit 1
case $1 in
firing)
	dd if=/dev/zero of=/mnt/data bs=128k count=30000 2>/dev/null &
	seen=0
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		sleep 1
		awk '{ n[$1] = $2 } END {
			have = n["nr_dirty"] + n["nr_writeback"]
			middle = (n["nr_dirty_threshold"] + n["nr_dirty_background_threshold"]) / 2
			print have " pages dirty, the middle is " middle
			exit have <= middle
		}' /proc/vmstat >/run/why && seen=$((seen + 1))
		cat /run/why
		[ $seen -eq 3 ] && exit 0
	done
	exit 1
	;;
quiet)
	dd if=/dev/zero of=/mnt/data bs=128k count=80 2>/dev/null
	sync
	sleep 3
	;;
esac
