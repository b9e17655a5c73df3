# Limits on dirty pages as databases are often tuned, and a database that holds more than half of the memory.
mount -t ext4 /dev/disk0 /mnt || exit 1
echo 90 >/proc/sys/vm/dirty_ratio
echo 85 >/proc/sys/vm/dirty_background_ratio
hold shm 288M lock name=database
