zram=/sys/block/zram0
[ "$1" = firing-limit ] && echo 48M >$zram/mem_limit
echo 256M >$zram/disksize || exit 1
case $1 in
quiet-disk)
	dd if=/dev/urandom of=/dev/zram0 bs=1M count=100 && sync
	;;
*) mkswap /dev/zram0 && swapon /dev/zram0 ;;
esac || exit 1
case $1 in
firing) swapped 120 4096 ;;
firing-limit) swapped 200 2048 ;;
quiet) swapped 120 1024 ;;
esac || exit 1
cat $zram/mm_stat
cat /proc/swaps
