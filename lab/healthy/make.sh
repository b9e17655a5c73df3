case $1 in
cgroup-v1)
	group=/sys/fs/cgroup/memory/app
	mkdir $group && echo $((256 << 20)) >$group/memory.limit_in_bytes || exit 1
	sh -c 'echo $$ >$0/cgroup.procs; exec hold anon 100M' $group || exit 1
	;;
offlined-memory)
	left=3
	# The kernel refuses blocks with pages that it cannot move.
	for block in 7 6 5 4 3 2 1; do
		[ $left -gt 0 ] || break
		state=/sys/devices/system/memory/memory$block/state
		echo offline 2>/dev/null >$state && left=$((left - 1))
	done
	[ $left -eq 0 ] || { echo "$left blocks could not be offlined" >/run/why; exit 77; }
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
