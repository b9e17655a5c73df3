case $1 in
firing*)
	grep -q HardwareCorrupted /proc/meminfo || {
		echo "kernel $(uname -r) is built without CONFIG_MEMORY_FAILURE" >/run/why
		exit 77
	}
	;;
esac
case $1 in
firing) poison hard 3 ;;
firing-soft) poison soft 4 ;;
esac || exit 1
grep HardwareCorrupted /proc/meminfo
true
