. ./room
mkdir -p /mnt/data /run/keep && mount -t ext4 /dev/disk0 /mnt/data || exit 1
case $1 in
gigantic) size=2400 ;;
*) size=700 ;;
esac
dd if=/dev/zero of=/mnt/data/file bs=1M count=$size 2>/dev/null
sync
condition "$1"
