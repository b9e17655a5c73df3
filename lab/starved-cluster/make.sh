# Sourced by PID 1 of a lab guest (lab/guest/play.sh): continues with the Debian on disk 0, as node $VARIANT, whose
# systemd starts the agent. Disk 1 is left to the agent.
mkdir -p /root
mount -t ext4 /dev/disk0 /root || finish "failed: the root cannot be mounted"
for mounted in /sys/kernel/debug /sys/fs/cgroup /sys /proc /dev/pts /dev/shm; do umount -l "$mounted"; done
mkdir -p /root/usr/local/lib/memwright /root/lab
cp /bin/memwright /bin/hold /bin/tablespace /bin/busybox /root/usr/local/bin/
cp /lib/memwright/* /root/usr/local/lib/memwright/
for file in /lab/*; do [ ! -f "$file" ] || cp "$file" /root/lab/; done
cp /lab/agent.service /root/etc/systemd/system/
chmod 644 /root/etc/systemd/system/agent.service
ln -sf ../agent.service /root/etc/systemd/system/multi-user.target.wants/agent.service
echo "$VARIANT" >/root/etc/hostname
mount --move /dev /root/dev
exec switch_root /root /sbin/init
