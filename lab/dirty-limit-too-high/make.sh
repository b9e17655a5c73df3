case $1 in
firing) total=90 background=85 ;;
quiet) total=20 background=10 ;;
esac
mount -t ext4 /dev/disk0 /mnt || exit 1
hold anon 1G lock || exit 1
echo $total >/proc/sys/vm/dirty_ratio
echo $background >/proc/sys/vm/dirty_background_ratio
sync
sleep 3
