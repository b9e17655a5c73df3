. ./room
mkdir -p /mnt/data /run/keep && mount -t ext4 /dev/disk0 /mnt/data || exit 1
dd if=/dev/zero of=/mnt/data/file bs=1M count=700 2>/dev/null
sync
condition "$1"
