web=/sys/fs/cgroup/web batch=/sys/fs/cgroup/batch

# As much as the kernel finds: a write that reclaims less fails.
reclaim() { echo 32M 2>/dev/null >"$1/memory.reclaim"; }

[ "$1" = decoy ] && touch /run/direct
for time in 1 2 3; do
	before=$(cat $web/memory.current)
	case $1 in
	firing) reclaim $web ;;
	firing-high)
		echo 1M >$web/memory.high
		echo max >$web/memory.high
		;;
	quiet | decoy) reclaim $batch ;;
	esac
	echo "memory of the service: $before bytes, then $(cat $web/memory.current)"
	sleep 8
done
