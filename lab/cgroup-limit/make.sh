limit=$((128 << 20))
if [ "$CGROUP" = v1 ]; then
	group=/sys/fs/cgroup/memory/db
	mkdir $group && echo $limit >$group/memory.limit_in_bytes || exit 1
else
	group=/sys/fs/cgroup/db
	mkdir $group && echo $limit >$group/memory.max || exit 1
fi
within() { sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' $group "$@"; }

mount -t ext4 /dev/disk0 /mnt && truncate -s 200M /mnt/data || exit 1
case $1 in
firing*)
	within hold anon 126M nothp || exit 1
	within dd if=/mnt/data of=/dev/null bs=64k 2>/dev/null
	pidof hold >/dev/null
	;;
quiet) within hold anon 64M nothp ;;
esac
