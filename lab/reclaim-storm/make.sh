counter() { awk -v name="$1" 'index($1, name) == 1 { sum += $2 } END { print sum + 0 }' /proc/vmstat; }
# A file with a hole reads as fast as memory can take it.
reader() { while :; do dd if="/mnt/$1" of=/dev/null bs=1M 2>/dev/null; done; }
allocator() { while :; do dd if=/dev/zero of=/dev/null bs=120M count=1 2>/dev/null; done; }

mount -t ext4 /dev/disk0 /mnt || exit 1
for file in 1 2 3 4; do truncate -s 3G /mnt/$file; done
case $1 in
firing)
	for file in 1 2 3 4; do reader $file & done
	allocator &
	allocator &
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		stalls=$(counter allocstall) scans=$(counter pgscan_direct)
		sleep 1
		stalls=$(($(counter allocstall) - stalls)) scans=$(($(counter pgscan_direct) - scans))
		echo "a second: $stalls stalls, $scans pages scanned directly" | tee /run/why
		[ $try -gt 5 ] && [ $stalls -gt 50 ] && [ $scans -gt 5000 ] && exit 0
	done
	exit 1
	;;
quiet)
	dd if=/mnt/1 of=/dev/null bs=1M count=100 2>/dev/null
	sleep 4
	;;
esac
