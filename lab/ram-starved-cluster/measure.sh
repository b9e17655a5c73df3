# A table space is created, while the other server of the cluster listens to this one's heartbeat.
case $1 in
1m) write=1M ;;
direct-io-8k) write=8k ;;
*) write=128k ;;
esac
mkdir -p /run/keep
group=/sys/fs/cgroup/tablespaces
disk=/sys/block/$(basename "$(readlink /dev/disk0)")

counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }
scanned() { echo $(($(counter pgscan_kswapd) + $(counter pgscan_direct))); }
written() { awk '{ print $7 * 512 }' "$disk/stat"; }
now_ms() { awk '{ print int($1 * 1000) }' /proc/uptime; }

# listen PHASE GROUP [COMMAND...]: whoever creates the table space is in that control group, and is run by
# that command.
listen() {
	phase=$1
	joined=$2
	shift 2
	sh -c 'echo $$ >$0/cgroup.procs; exec "$@"' "$joined" "$@" tablespace /mnt/tablespace 900M $write &
	creating=$!
	# The kernel lowers its dirty limit in steps only: at first it is the one from before the database
	# came. And a command takes its time to start.
	[ "$phase" = during ] || sleep 4
	from_pages=$(scanned) from_bytes=$(written) from_ms=$(now_ms)
	heartbeat 20 | standby "$phase" 8 $creating /run/keep/series.csv
	took_ms=$(($(now_ms) - from_ms))
	echo "scanned $((($(scanned) - from_pages) * 1000 / took_ms)) pages/s"
	echo "disk $((($(written) - from_bytes) * 1000 / took_ms / 1024)) KiB/s"
	rm /mnt/tablespace
}

listen "$2" /sys/fs/cgroup >/run/listened
cat /run/listened
[ "$2" = before ] && cp /run/listened /run/cached
[ "$2" = during ] || exit 0
case $1 in
per-device)
	bdi=/sys/class/bdi/$(cat "$disk/dev")
	echo 1 >"$bdi/strict_limit" || exit 1
	echo 8388608 >"$bdi/max_bytes" || exit 1
	listen limited /sys/fs/cgroup >/run/limited
	;;
cgroup)
	mkdir $group || exit 1
	echo 24M >$group/memory.high || exit 1
	listen limited $group >/run/limited
	;;
direct-io*)
	listen limited /sys/fs/cgroup memwright run --direct-io 64k -- >/run/limited
	rate() { awk '$1 == "disk" { print $2 }' "$1"; }
	echo "limited-of_cached $((100 * $(rate /run/limited) / $(rate /run/cached))) %"
	;;
*) exit 0 ;;
esac
sed 's/^/limited-/' /run/limited
