mount -t ext4 /dev/disk0 /mnt || exit 1
# A file with a hole reads as fast as memory can take it.
truncate -s 6G /mnt/large
dd if=/mnt/large of=/dev/null bs=1M count=2048 2>/dev/null
case $1 in
after) ;;
*) while :; do dd if=/mnt/large of=/dev/null bs=1M 2>/dev/null; done & ;;
esac
sleep 2
