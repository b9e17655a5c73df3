# The first job writes its memory over and over while a service takes memory; then the job is gone,
# and the service stays.
. ./sizes

first() {
	case $1 in
	limit-cgroup*)
		group=/sys/fs/cgroup/job
		mkdir $group
		echo 256M >$group/memory.max
		[ "$1" = limit-cgroup ] && echo 0 >$group/memory.swap.max
		sh -c "echo \$\$ >$group/cgroup.procs; exec hold touch $FIRST name=job"
		;;
	limit-ulimit) sh -c "ulimit -v 262144; exec hold touch $FIRST name=job" ;;
	*) hold touch $FIRST name=job ;;
	esac
}

state() {
	echo "$1:" $(grep -E 'MemFree|Cached|SwapFree' /proc/meminfo)
	cat /proc/buddyinfo
	tail -1 /sys/kernel/debug/extfrag/unusable_index
}

state before
first "$1" &
# Until it swaps, or is refused.
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	sleep 0.5
	killall -0 job 2>/dev/null || break
	awk '{ n[$1] = $2 } END { exit n["SwapFree:"] > n["SwapTotal:"] - 30000 }' /proc/meminfo && break
done
service $SERVICE_MIB $THRASH_S &
sleep $THRASH_S
state thrash
killall -9 job hold 2>/dev/null
while killall -0 job 2>/dev/null; do sleep 0.1; done
sleep 1
state after
case $1 in
compact-between)
	echo 3 >/proc/sys/vm/drop_caches
	echo 1 >/proc/sys/vm/compact_memory
	;;
reclaim-between)
	# It ends with an error if there is less to reclaim.
	echo 256M >/sys/devices/system/node/node0/reclaim
	echo 1 >/sys/devices/system/node/node0/compact
	;;
esac
state between
exit 0
