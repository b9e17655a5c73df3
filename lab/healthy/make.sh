case $1 in
cgroup-v1)
	group=/sys/fs/cgroup/memory/app
	mkdir $group && echo $((256 << 20)) >$group/memory.limit_in_bytes || exit 1
	sh -c 'echo $$ >$0/cgroup.procs; exec hold anon 100M' $group || exit 1
	;;
esac
mount -t ext4 /dev/disk0 /mnt && truncate -s 150M /mnt/data || exit 1
dd if=/mnt/data of=/dev/null bs=1M 2>/dev/null
if [ "$1" = numa-2 ]; then
	hold anon 300M node=0 && hold anon 300M node=1 || exit 1
else
	hold anon 300M || exit 1
fi
sync
sleep 5
