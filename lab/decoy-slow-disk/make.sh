umount /mnt && mount -t ext4 /dev/disk1 /mnt || exit 1
while :; do dd if=/dev/zero of=/mnt/log bs=64k count=1 conv=fsync 2>/dev/null; done &
sleep 2
