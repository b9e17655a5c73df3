refaults() { awk '$1 == "workingset_refault_file" { print $2 }' /proc/vmstat; }
pressure() { sed -n 's/^some avg10=\([0-9]*\).*/\1/p' /proc/pressure/memory; }

mount -t ext4 /dev/disk0 /mnt || exit 1
case $1 in
firing*)
	dd if=/dev/zero of=/mnt/data bs=1M count=240 2>/dev/null
	sync
	hold anon 80M || exit 1
	reads /mnt/data &
	reads /mnt/data &
	for try in $(seq 120); do
		before=$(refaults)
		sleep 1
		now=$(($(refaults) - before))
		echo "$now pages a second were read again, memory pressure $(pressure)%" | tee /run/why
		[ $now -gt 1000 ] && [ "$(pressure)" -ge 15 ] && exit 0
	done
	exit 1
	;;
quiet)
	truncate -s 8G /mnt/large || exit 1
	cat /mnt/large >/dev/null &
	sleep 5
	kill -0 $! || exit 1
	;;
esac
