# Sourced by PID 1 of a lab guest (lab/guest/play.sh): continues with the Debian on disk 0, whose systemd runs the steps
# on disk 1. The modules of the lab's kernel are on disk 1 too.
mkdir -p /root
mount -t ext4 /dev/disk0 /root && mount -t ext4 /dev/disk1 /root/mnt || finish "failed: a disk cannot be mounted"
for mounted in /sys/kernel/debug /sys/fs/cgroup /sys /proc /dev/pts /dev/shm; do umount -l "$mounted"; done
mkdir -p "/root/usr/lib/modules/$(cd /root/mnt/modules && echo *)"
mount --bind /root/mnt/modules /root/usr/lib/modules
cp /root/mnt/steps.service /root/etc/systemd/system/
ln -sf ../steps.service /root/etc/systemd/system/multi-user.target.wants/steps.service
mount --move /dev /root/dev
exec switch_root /root /sbin/init
