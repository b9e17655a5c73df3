mount -t ext4 /dev/disk0 /mnt
