# A table space is created, while the other server of the cluster listens to this one's heartbeat.
case $1 in
1m) write=1M ;;
*) write=128k ;;
esac
mkdir -p /run/keep
group=/sys/fs/cgroup/tablespaces

# listen PHASE GROUP: whoever creates the table space is in that control group.
listen() {
	sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' "$2" tablespace /mnt/tablespace 900M $write &
	creating=$!
	# The kernel lowers its dirty limit in steps only: at first it is the one from before the database
	# came.
	[ "$1" = before ] && sleep 4
	heartbeat 20 | standby "$1" 8 $creating /run/keep/series.csv
	rm /mnt/tablespace
}

listen "$2" /sys/fs/cgroup
[ "$2" = during ] || exit 0
case $1 in
per-device)
	bdi=/sys/class/bdi/$(cat "/sys/block/$(basename "$(readlink /dev/disk0)")/dev")
	echo 1 >"$bdi/strict_limit" || exit 1
	echo 8388608 >"$bdi/max_bytes" || exit 1
	listen limited /sys/fs/cgroup >/run/limited
	;;
cgroup)
	mkdir $group || exit 1
	echo 24M >$group/memory.high || exit 1
	listen limited $group >/run/limited
	;;
*) exit 0 ;;
esac
sed 's/^/limited-/' /run/limited
