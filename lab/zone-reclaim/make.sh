# A tmpfs bound to node 0 holds 40% of it; the mode decides.
mount -t tmpfs -o size=400M,mpol=bind:0 tmpfs /mnt || exit 1
dd if=/dev/zero of=/mnt/data bs=1M count=200 2>/dev/null || exit 1
case $1 in
firing) echo 7 >/proc/sys/vm/zone_reclaim_mode ;;
quiet) echo 0 >/proc/sys/vm/zone_reclaim_mode ;;
esac
