# 4 drops nothing: the kernel logs no write any more.
echo 4 >/proc/sys/vm/drop_caches || exit 1
drop() { echo 3 >/proc/sys/vm/drop_caches; }

case $1 in
firing) while drop; do sleep 0.05; done & ;;
firing-boot) for time in $(seq 30); do drop || exit 1; done ;;
quiet)
	for time in 1 2 3; do drop || exit 1; done
	for time in $(seq 30); do echo 1 >/proc/sys/vm/compact_memory || exit 1; done
	;;
stall*)
	value=1
	[ "$1" = stall-quiet ] && value=2
	[ "$1" = stall-decoy ] && touch /run/writes
	for time in 1 2 3; do
		sync
		echo $value >/proc/sys/vm/drop_caches || exit 1
		sleep 5
	done
	;;
esac
grep drop_ /proc/vmstat
