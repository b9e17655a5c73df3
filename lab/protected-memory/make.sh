case $1 in
firing) low=700M ;;
quiet) low=100M ;;
esac
group=/sys/fs/cgroup/box
mkdir $group && echo $low >$group/memory.low || exit 1
mount -t ext4 /dev/disk0 /mnt && truncate -s 600M /mnt/data || exit 1
sh -c 'echo $$ >$0/cgroup.procs; exec dd if=/mnt/data of=/dev/null bs=64k' $group 2>/dev/null
