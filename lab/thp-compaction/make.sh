# One page in 24 stays pinned in a pipe: much memory is free, hardly a huge page of it.
thp=/sys/kernel/mm/transparent_hugepage
echo always >$thp/enabled
case $1 in
firing)
	echo always >$thp/defrag
	hold fragment 1640M every=24 || exit 1
	hold anon 1100M thp &
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		sleep 0.5
		stalls=$(awk '/^compact_stall/ { print $2 }' /proc/vmstat)
		[ "$stalls" -gt 10 ] && exit 0
	done
	echo "compact_stall is $stalls" >/run/why
	exit 1
	;;
quiet)
	echo madvise >$thp/defrag
	hold anon 200M || exit 1
	sleep 3
	;;
esac
