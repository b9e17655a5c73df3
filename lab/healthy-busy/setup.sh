# The files that the loads need, written before anybody watches.
mount -t ext4 /dev/disk0 /mnt || exit 1
fail() { echo "$1" >/run/why; exit "${2:-1}"; }
zeros() { dd if=/dev/zero of="/mnt/$1" bs=1M count="$2" conv=fsync 2>/dev/null || fail "no $1"; }

case $1 in
stream | after | kswapd) truncate -s 6G /mnt/large ;;
stream-disk) zeros large 1536 ;;
backup-tar)
	mkdir /mnt/tree /backup && busy tree /mnt/tree 2000 128 || fail "no tree"
	mount -t ext4 /dev/disk1 /backup || fail "no file system for the archive"
	;;
backup-cp) mkdir /mnt/tree && busy tree /mnt/tree 2000 128 || fail "no tree" ;;
container* | memory-high) truncate -s 1G /mnt/large ;;
zswap)
	[ -d /sys/module/zswap ] || fail "no zswap in this kernel" 77
	echo Y >/sys/module/zswap/parameters/enabled || fail "zswap cannot be enabled" 77
	;;
zram)
	echo 320M >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0 || fail "no zram"
	;;
build) mkdir /mnt/src /mnt/out && busy tree /mnt/src 300 16 || fail "no sources" ;;
database) zeros data 400 ;;
idle-batch) truncate -s 1G /mnt/large ;;
khugepaged) echo always >/sys/kernel/mm/transparent_hugepage/enabled || fail "no THP" ;;
esac
sync
