# A node whose free memory is in single pages between movable ones, with some pages that stay, and cache in the rest.
mkdir -p /mnt && mount -t ext4 /dev/disk0 /mnt || exit 1
dd if=/dev/zero of=/mnt/file bs=1M count=1400 2>/dev/null
sync
echo 3 >/proc/sys/vm/drop_caches
hold fragment 192M every=512 name=pinned || exit 1
hold strewn 1120M every=2 name=movable || exit 1
cat /mnt/file >/dev/null
